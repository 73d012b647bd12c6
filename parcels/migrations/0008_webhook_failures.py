from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("parcels", "0007_announcing_indexes")]

    operations = [
        migrations.AddField(
            model_name="webhookendpoint",
            name="failures",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="failing_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="retry_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="webhookendpoint",
            name="disabled_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=100),
        ),
    ]
