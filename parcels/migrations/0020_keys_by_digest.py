from django.db import migrations, models


class Migration(migrations.Migration):
    """Keys have no second hash any more. Its column is dropped later: the old code, which serves
    beside this one during a release, reads and writes it."""

    dependencies = [("parcels", "0019_indexes_unasked")]

    operations = [
        migrations.AlterField("apikey", "digest", models.CharField(max_length=64)),
        migrations.AlterField(
            "apikey", "secret_hash", models.CharField(max_length=64, default="", db_default="")
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("apikey", "secret_hash")]
        ),
    ]
