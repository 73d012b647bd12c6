from importlib import import_module

from django.db import migrations, models
from django.db.models import deletion

# Its module's name is no identifier.
DropIndex = import_module("parcels.migrations.0018_fewer_indexes").DropIndex


class DropAdded(DropIndex):
    """Drop what Django adds unasked: a unique text's second index, for LIKE, by which nothing
    searches, and the first column's of a many-to-many, which its unique index begins with.

    No model can say so: that none comes back is for `parcels/tests/test_indexes.py` to see.
    """

    def __init__(self, model_name, name):
        super().__init__(model_name, name, field=None)

    def state_forwards(self, app_label, state):
        pass

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        # A run that was interrupted has left some of them.
        self.database_forwards(app_label, schema_editor, to_state, from_state)
        model = to_state.apps.get_model(app_label, self.model_name)
        for added in schema_editor._field_indexes_sql(model, model._meta.get_field(self.name)):
            if schema_editor.connection.vendor == "postgresql":
                added.template = schema_editor.sql_create_index_concurrently
            schema_editor.execute(added)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0018_fewer_indexes")]

    operations = [
        DropAdded("announcement", "reference"),
        DropAdded("apikey", "public_key"),
        DropAdded("feedcursor", "name"),
        DropAdded("hold", "id"),
        DropAdded("hold_announcements", "hold"),
        DropIndex(
            model_name="hold",
            name="account",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.CASCADE, related_name="+", to="parcels.account"
            ),
        ),
        DropIndex(
            model_name="parcel",
            name="contract",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=deletion.PROTECT,
                to="parcels.carriercontract",
            ),
        ),
        DropIndex(
            model_name="webhookevent",
            name="account",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.CASCADE, related_name="+", to="parcels.account"
            ),
        ),
    ]
