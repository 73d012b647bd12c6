"""A shop's API without a shop: answers like the app, as slowly as it is told. For tests."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp import web

LABELLED = {"parcel": {"id": 1, "status": {"id": 1000}, "label": {"label_printer": "/1"}}}
BARE = {"parcel": {"id": 1, "status": {"id": 1001}, "label": {}}}


class Shop:
    """`keep` says whether a connection stays open after an answer.

    Nobody is answered until `least` have waited at once.
    """

    def __init__(self, *, seconds=0.0, answer=LABELLED, status=200, keep=True, least=0):
        self.seconds, self.answer, self.status, self.keep = seconds, answer, status, keep
        self.least, self.enough = least, asyncio.Event()
        self.creates = self.reads = self.now = self.most = 0
        self.port = 0

    async def create(self, request):
        await request.read()
        self.creates += 1
        self.now += 1
        self.most = max(self.most, self.now)
        if self.most >= self.least:
            self.enough.set()
        try:
            await self.enough.wait()
            await asyncio.sleep(self.seconds)
        finally:  # also where the client has gone
            self.now -= 1
        answer = web.json_response(self.answer, status=self.status)
        if not self.keep:
            answer.force_close()
        return answer

    async def read(self, request):
        self.reads += 1
        return web.json_response([])


@contextmanager
def running(shop):
    """Serve on a free port of loopback, in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(_start(shop), loop).result(10)
    try:
        yield shop
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _start(shop):
    app = web.Application()
    app.router.add_post("/api/v2/parcels", shop.create)
    app.router.add_get("/api/v2/parcels/statuses", shop.read)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    shop.port = runner.addresses[0][1]
    return runner
