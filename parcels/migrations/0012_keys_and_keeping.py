from importlib import import_module

from django.db import migrations, models

# Its module's name is no identifier.
AddIndexConcurrently = import_module(
    "parcels.migrations.0004_webhook_event_age"
).AddIndexConcurrently


class AddField(migrations.AddField):
    """Unless an earlier run, which gave up at one of the indexes, has added it."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        table = to_state.apps.get_model(app_label, self.model_name)._meta.db_table
        with schema_editor.connection.cursor() as cursor:
            columns = schema_editor.connection.introspection.get_table_description(cursor, table)
        if self.name not in [column.name for column in columns]:
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0011_dialect_holes")]

    operations = [
        AddField(
            model_name="apikey",
            name="digest",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        AddField(
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
