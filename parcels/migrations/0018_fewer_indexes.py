from django.db import migrations, models
from django.db.models import deletion


class DropIndex(migrations.AlterField):
    """Drop a foreign key's own index where another one begins with its column.

    Django's AlterField would drop and check the foreign key, too, and hold both tables meanwhile.
    """

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = from_state.apps.get_model(app_label, self.model_name)
        column = model._meta.get_field(self.name).column
        concurrently = "CONCURRENTLY " * (schema_editor.connection.vendor == "postgresql")
        for name in schema_editor._constraint_names(model, [column], index=True, unique=False):
            # "if exists": another process may have begun this migration, too.
            schema_editor.execute(f"DROP INDEX {concurrently}IF EXISTS {name}")

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        # A run that was interrupted has left some of them.
        self.database_forwards(app_label, schema_editor, to_state, from_state)
        model = to_state.apps.get_model(app_label, self.model_name)
        more = {"concurrently": True} if schema_editor.connection.vendor == "postgresql" else {}
        field = model._meta.get_field(self.name)
        schema_editor.execute(schema_editor._create_index_sql(model, fields=[field], **more))


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("parcels", "0017_spare_age")]

    operations = [
        DropIndex(
            model_name="announcement",
            name="account",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.PROTECT, related_name="+", to="parcels.account"
            ),
        ),
        DropIndex(
            model_name="idempotencykey",
            name="account",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.CASCADE, related_name="+", to="parcels.account"
            ),
        ),
        DropIndex(
            model_name="parcel",
            name="account",
            field=models.ForeignKey(
                db_index=False,
                on_delete=deletion.PROTECT,
                related_name="parcels",
                to="parcels.account",
            ),
        ),
        DropIndex(
            model_name="sparelabel",
            name="announcement",
            field=models.ForeignKey(
                db_index=False,
                on_delete=deletion.CASCADE,
                related_name="spares",
                to="parcels.announcement",
            ),
        ),
        DropIndex(
            model_name="webhookdelivery",
            name="endpoint",
            field=models.ForeignKey(
                db_index=False,
                on_delete=deletion.CASCADE,
                related_name="deliveries",
                to="parcels.webhookendpoint",
            ),
        ),
        DropIndex(
            model_name="webhookdelivery",
            name="event",
            field=models.ForeignKey(
                db_index=False,
                on_delete=deletion.CASCADE,
                related_name="deliveries",
                to="parcels.webhookevent",
            ),
        ),
    ]
