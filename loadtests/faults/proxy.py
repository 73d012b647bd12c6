"""A TCP proxy on loopback that can go silent without closing anything."""

import asyncio
import contextlib
import threading

PIECE = 65_536


class SilentProxy:
    """Forwards to a port of this machine from a thread of its own; `port` is where it listens.

    From `silence` on no connection gets an answer, open ones and new ones; after `speak` new ones
    do, while those from before stay silent for ever, as behind a firewall that has forgotten them.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        # One for each time between two silences: connections of an earlier one are forgotten.
        self._era = 0
        self._silent = False

    def start(self) -> int:
        """Begin to listen; return the port."""
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def silence(self) -> None:
        """Forward nothing any more."""
        self._silent = True
        self._era += 1

    def speak(self) -> None:
        """Forward what connects from now on."""
        self._era += 1
        self._silent = False

    def close(self) -> None:
        """End it, and all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        # Not cancelled in the end, but ended: the server's own callback would print each.
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await self._forward(reader, writer, self._era)
        writer.close()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, era: int
    ) -> None:
        if self._silent:
            await asyncio.Event().wait()
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        there = asyncio.create_task(self._pump(reader, far_writer, era))
        try:
            await self._pump(far_reader, writer, era)
        finally:
            there.cancel()
            far_writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, era: int
    ) -> None:
        """Pass on until one side ends; from a silence on, pass on nothing, not even that."""
        with contextlib.suppress(OSError):
            while True:
                piece = await reader.read(PIECE)
                if era != self._era:
                    await asyncio.Event().wait()
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
