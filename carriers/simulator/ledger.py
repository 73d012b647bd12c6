"""The ledger: an append-only file of what was bought and voided.

Two properties make it evidence. A line is on disk (fsync) before its call is answered, so that no
client knows of a purchase that the ledger doesn't have. And of the application's data it has only
references, so that it can be kept and shown.
"""

import asyncio
import fcntl
import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

Event = Literal["booked", "voided"]
logger = logging.getLogger(__name__)


class LedgerError(Exception):
    """The ledger can't be read or written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line; `at` in unix seconds, `price` as the carrier writes it.

    `owner` is a hash of the credential that bought it; lines from before there was one have none.
    """

    seq: int
    at: float
    event: Event
    carrier: str
    reference: str
    shipment_id: str
    tracking_number: str
    product: int
    price: str
    by: str
    owner: str = ""


class Ledger:
    """Writes entries in order, many per fsync; `entries` are those found at the start."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._claim(path)
            self.entries = self._replay(path)
        except BaseException:
            os.close(self._fd)
            raise
        self._size = os.fstat(self._fd).st_size
        self._last_seq = self.entries[-1].seq if self.entries else 0
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None
        # One thread: two fsyncs at once would let a later line overtake an earlier one.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._closed = False

    async def append(self, event: Event, **booked: Any) -> Entry:
        """Write one entry and return when it is on the disk; raises LedgerError."""
        if self._closed:
            raise LedgerError("the ledger is closed")
        self._last_seq += 1
        entry = Entry(self._last_seq, round(time.time(), 6), event, **booked)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, done))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all())
        # Shielded: a cancelled call doesn't cancel the future that others share.
        await asyncio.shield(done)
        return entry

    async def close(self) -> None:
        """Refuse new entries, write those that wait, close the file."""
        self._closed = True
        while self._writer is not None:
            await asyncio.shield(self._writer)
        self._thread.shutdown()
        os.close(self._fd)

    async def _write_all(self) -> None:
        # What arrives while a batch is being fsynced is the next batch.
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await self._commit(batch)
        self._writer = None

    async def _commit(self, batch: list[tuple[Entry, asyncio.Future[None]]]) -> None:
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry, _ in batch).encode()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._write, lines)
        except OSError as error:
            logger.error("the ledger can't be written: %s", error)
            for _, done in batch:
                done.set_exception(LedgerError(str(error)))
                done.exception()  # its caller may be gone: seen here, so not reported twice
            return
        for _, done in batch:
            done.set_result(None)

    def _write(self, lines: bytes) -> None:
        """Put whole lines on the disk or leave the file as it was."""
        try:
            rest = memoryview(lines)
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            os.fsync(self._fd)
        except OSError:
            # Half a line would damage the next one.
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(lines)

    def _claim(self, path: Path) -> None:
        # Two simulators on one file would each know half of the purchases.
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LedgerError(f"{path} is in use by another simulator") from None

    def _replay(self, path: Path) -> list[Entry]:
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            # The process died while writing: this line's call was not answered.
            logger.warning("%s: dropped a torn last line", path)
            os.ftruncate(self._fd, whole)
        lines = data[:whole].splitlines()
        return [_entry(line, path, number) for number, line in enumerate(lines, 1)]


def _entry(line: bytes, path: Path, number: int) -> Entry:
    with suppress(ValueError, TypeError):
        entry = Entry(**json.loads(line))
        if entry.event in get_args(Event):
            return entry
    raise LedgerError(f"{path}, line {number}: not an entry of a ledger")
