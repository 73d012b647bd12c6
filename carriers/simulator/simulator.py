"""The whole process: five carriers, their sockets, the ledger and the control API."""

import asyncio
import logging
import time

from carriers.simulator.bookings import Bookings
from carriers.simulator.carrier import Carrier
from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.control import control_app
from carriers.simulator.ledger import Ledger
from carriers.simulator.server import Listener
from carriers.simulator.settings import Address, Settings, SettingsError
from carriers.simulator.tracking import Tracking

logger = logging.getLogger(__name__)

# How often ports follow the faults' clocks and parcels go on: finer than any fault's period.
_TICK = 0.05
# At the end, the time in which bookings that are just on the disk still reach their clients.
_LAST_ANSWERS = 0.1


class Simulator:
    """Owns every part; `start`, then `stop`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.ledger = Ledger(settings.ledger)
        self.bookings = Bookings(self.ledger)
        self.tracking = Tracking(self.bookings, settings.tracking_step)
        self.carriers = {
            code: Carrier(spec, settings.latency[code], settings.seed, self.bookings, self.tracking)
            for code, spec in CATALOGUE.items()
        }
        self.listeners = {
            code: Listener(carrier, settings.carriers[code])
            for code, carrier in self.carriers.items()
        }
        self.control = Listener(control_app(self), settings.control)
        self._clock: asyncio.Task[None] | None = None
        self._following = asyncio.Lock()

    async def start(self) -> None:
        """Listen on every port, the control API's last: who can reach it can reach all.

        Raises SettingsError, which names the variable, where a port can't be had.
        """
        try:
            for code, listener in self.listeners.items():
                await _open(listener, self._settings.carriers[code])
            await _open(self.control, self._settings.control)
        except SettingsError:
            await self.stop()
            raise
        self._clock = asyncio.create_task(self._run_clock())

    async def follow_faults(self) -> None:
        """Close and open the carriers' ports as their faults want it now."""
        async with self._following:  # a port that is being opened can't be closed yet
            now = time.monotonic()
            for code, carrier in self.carriers.items():
                listener = self.listeners[code]
                if carrier.refusing(now):
                    listener.refuse()
                elif not listener.is_open:
                    await self._reopen(code, listener)

    async def stop(self) -> None:
        """End within a second, whatever is in flight; what is being written is written."""
        if self._clock is not None:
            self._clock.cancel()
        for listener in self.listeners.values():
            listener.refuse()
        for carrier in self.carriers.values():
            await carrier.forget_later()
        await self.ledger.close()
        await asyncio.sleep(_LAST_ANSWERS)
        for listener in [*self.listeners.values(), self.control]:
            await listener.close()

    async def _reopen(self, code: str, listener: Listener) -> None:
        try:
            await listener.open()
        except OSError as error:
            # Another process has the port: tried again at the next tick.
            logger.warning("%s can't listen at %s again: %s", code, listener.url, error)

    async def _run_clock(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self.tracking.run_due(time.time())
            await self.follow_faults()


async def _open(listener: Listener, address: Address) -> None:
    try:
        await listener.open()
    except OSError as error:
        raise SettingsError(address.variable, f"can't listen at {listener.url}: {error}") from None
