from django.apps import AppConfig
from django.conf import settings


class ParcelsConfig(AppConfig):
    name = "parcels"
    verbose_name = "Parcels"

    def ready(self) -> None:
        if settings.FAULT_CRASH_AT or settings.FAULT_PAUSE_AT:
            from parcels.faults import install

            install()
        if settings.FAULT_GUARDS_OFF:
            from parcels.unguarded import take_away

            take_away(*settings.FAULT_GUARDS_OFF)
