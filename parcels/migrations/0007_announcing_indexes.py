from importlib import import_module

from django.db import migrations, models

# Its module's name is no identifier.
AddIndexConcurrently = import_module(
    "parcels.migrations.0004_webhook_event_age"
).AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0006_announcing_holes")]

    operations = [
        AddIndexConcurrently(
            model_name="announcement",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "unknown"])),
                fields=["deadline_at"],
                name="announcement_overdue",
            ),
        ),
        AddIndexConcurrently(
            model_name="announcement",
            index=models.Index(
                condition=models.Q(("look_at__isnull", False)),
                fields=["look_at"],
                name="announcement_late_look",
            ),
        ),
    ]
