from django.contrib.postgres import operations
from django.db import migrations, models


class AddIndexConcurrently(operations.AddIndexConcurrently):
    """On PostgreSQL without holding the table; SQLite knows no such thing, and has one writer."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            # A run that gave up at a lock has left the index, invalid.
            super().database_backwards(app_label, schema_editor, to_state, from_state)
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            migrations.AddIndex.database_forwards(
                self, app_label, schema_editor, from_state, to_state
            )

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
        else:
            migrations.AddIndex.database_backwards(
                self, app_label, schema_editor, from_state, to_state
            )


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("parcels", "0003_dialect"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="webhookevent",
            index=models.Index(fields=["date_created"], name="webhook_event_age"),
        ),
    ]
