"""Run the simulated carriers: `python -m carriers.simulator`."""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import sys

import uvloop

from carriers.simulator.ledger import LedgerError
from carriers.simulator.settings import Settings, SettingsError, from_environment
from carriers.simulator.simulator import Simulator

# Where the system names no limit, as macOS, which refuses to set it to none. As many calls as were
# measured at once.
DESCRIPTORS = 20_000


def raise_file_limit() -> None:
    """Allow as many open files as the system lets us.

    Each call in flight is one; the usual soft limit of 1,024 is what a burst would find first.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS caps it lower than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ended.set)
    simulator = Simulator(settings)
    await simulator.start()
    for listener in [simulator.control, *simulator.listeners.values()]:
        logging.getLogger("carriers.simulator").info("listening at %s", listener.url)
    await ended.wait()
    await simulator.stop()


def main() -> int:
    """Run; return 2 where a setting is wrong."""
    logging.basicConfig(level=logging.INFO, format="simulator: %(message)s", stream=sys.stderr)
    try:
        settings = from_environment(os.environ)
        raise_file_limit()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(settings))
    except SettingsError as error:
        sys.stderr.write(f"simulator: {error}\n")
        return 2
    except (LedgerError, OSError) as error:
        sys.stderr.write(f"simulator: SIMULATOR_LEDGER: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
