from importlib import import_module

from django.db import migrations, models

# Its module's name is no identifier.
AddIndexConcurrently = import_module(
    "parcels.migrations.0004_webhook_event_age"
).AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0011_dialect_holes")]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="parcel",
            name="date_forgotten",
            field=models.DateTimeField(blank=True, null=True),
        ),
        AddIndexConcurrently(
            model_name="parcel",
            index=models.Index(
                condition=models.Q(("date_forgotten__isnull", True)),
                fields=["date_created"],
                name="parcel_age",
            ),
        ),
        AddIndexConcurrently(
            model_name="document",
            index=models.Index(fields=["date_created"], name="document_age"),
        ),
    ]
