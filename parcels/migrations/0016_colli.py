from importlib import import_module

from django.db import migrations, models

# Its module's name is no identifier.
AddIndexConcurrently = import_module(
    "parcels.migrations.0004_webhook_event_age"
).AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0015_partitions")]

    operations = [
        AddIndexConcurrently(
            model_name="parcel",
            index=models.Index(
                condition=models.Q(("collo_count__gt", 1)),
                fields=["colli_uuid"],
                name="parcel_colli",
            ),
        ),
    ]
