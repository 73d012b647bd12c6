from django.db import migrations, models

from parcels.models.account import check_limits


class Migration(migrations.Migration):
    dependencies = [("parcels", "0009_sweeping_indexes")]

    operations = [
        *(
            # Changes no table: the check is the application's.
            migrations.AlterField(
                model_name="account",
                name=name,
                field=models.CharField(
                    blank=True, default="", max_length=32, validators=[check_limits]
                ),
            )
            for name in ("read_limit", "write_limit")
        ),
        migrations.AlterModelOptions(
            name="announcement",
            options={
                "permissions": [
                    ("adopt_announcement", "Can adopt a label for an announcement under review"),
                    ("give_up_announcement", "Can give up an announcement under review"),
                ]
            },
        ),
        migrations.AlterModelOptions(
            name="apikey",
            options={
                "permissions": [
                    ("issue_apikey", "Can issue API keys"),
                    ("revoke_apikey", "Can revoke API keys"),
                ],
                "verbose_name": "API key",
            },
        ),
        migrations.AlterModelOptions(
            name="parcel",
            options={"permissions": [("control_live", "Can control the live page")]},
        ),
        migrations.AlterModelOptions(
            name="sparelabel",
            options={
                "permissions": [
                    ("settle_sparelabel", "Can close a spare label that was settled by hand")
                ]
            },
        ),
        migrations.AlterModelOptions(
            name="webhookdelivery",
            options={"permissions": [("resend_webhookdelivery", "Can send a webhook again")]},
        ),
    ]
