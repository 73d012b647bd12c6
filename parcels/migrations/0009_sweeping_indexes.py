from importlib import import_module

from django.contrib.postgres import operations
from django.db import migrations, models

# Its module's name is no identifier.
AddIndexConcurrently = import_module(
    "parcels.migrations.0004_webhook_event_age"
).AddIndexConcurrently


class RemoveIndexConcurrently(operations.RemoveIndexConcurrently):
    """As `AddIndexConcurrently` there."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            migrations.RemoveIndex.database_forwards(
                self, app_label, schema_editor, from_state, to_state
            )

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            migrations.RemoveIndex.database_backwards(
                self, app_label, schema_editor, from_state, to_state
            )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0008_webhook_failures")]

    operations = [
        AddIndexConcurrently(
            model_name="hold",
            index=models.Index(fields=["deadline_at"], name="hold_age"),
        ),
        AddIndexConcurrently(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["endpoint", "wake_at"],
                name="webhook_delivery_next",
            ),
        ),
        # The sweeper of the old code looks by this one; until it ends, it reads the table.
        RemoveIndexConcurrently(model_name="webhookdelivery", name="webhook_delivery_due"),
    ]
