from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0009_sweeping_indexes")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
    ]
