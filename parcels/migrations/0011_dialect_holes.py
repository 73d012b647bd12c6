import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("parcels", "0010_permissions")]

    operations = [
        # First, as the old code reads it before its commit looks up the account: the other way round
        # the two could wait for each other.
        migrations.AddField(
            model_name="webhookendpoint",
            name="integration",
            field=models.OneToOneField(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="webhook",
                to="parcels.integration",
            ),
        ),
        migrations.AddField(
            model_name="account",
            name="sender_address",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="parcels.senderaddress",
            ),
        ),
    ]
