"""The live page's server: figures over SSE, and the knobs."""

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deploy.live.access import Access
from deploy.live.collector import Collector
from deploy.live.second_stack import SecondStack
from deploy.live.target import Target
from deploy.plan import CARRIERS, ROOT
from deploy.simulator import Simulator

logger = logging.getLogger(__name__)

PAGE = Path(__file__).parent / "page"
# The chart library.
ASSETS = Path(__file__).parent / "assets"
# What `make docs` has built; where it hasn't there is no link.
SITE = ROOT / ".run" / "site"
REPORT = "which-one.html"
# No script or style from elsewhere, and no other page around ours: a button must be seen.
HEADERS = {
    b"content-security-policy": b"default-src 'self'; img-src 'self' data:; "
    b"frame-ancestors 'none'; "
    b"base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-cache",
}
DEFAULT_SECONDS = 30.0
# Seconds. The shortest that can be seen on a chart, and long enough for any demonstration.
SHORTEST, LONGEST = 1.0, 600.0

# A carrier that is out answers nothing: neither purchases nor the breaker's probe, or the breaker
# would close in the middle of the outage.
_ALL = {"calls": "all"}

KINDS: Mapping[str, Mapping[str, Any]] = {
    # Over what a shop's own time-out usually is, under the deadline of a call.
    "slow": {"seconds": 8, **_ALL},
    "hang": _ALL,
    "error": {"status": 503, **_ALL},
    "reset_before": _ALL,
    "flap": {"period": 10, "of": "hang", "with": _ALL},
}
# How often a stream without news looks whether we end: well within the second that it is left.
LOOK_SECONDS = 0.3


def parameters_of(kind: str, seconds: float) -> dict[str, Any]:
    """Return the simulator's parameters of an outage; ValueError for one that there is not."""
    if kind not in KINDS:
        raise ValueError(f"there is no outage {kind!r}; there are: {', '.join(KINDS)}")
    if not SHORTEST <= seconds <= LONGEST:
        raise ValueError(f"an outage lasts {SHORTEST:g} to {LONGEST:g} s, not {seconds:g}")
    return {**KINDS[kind], "for": seconds}


class Live:
    """The routes and what they work on; `first` is watched from the start."""

    def __init__(self, access: Access, first: list[Target]) -> None:
        self.access = access
        self.first = first
        self.collector = Collector()
        self.beside = SecondStack(self.collector)
        # Says that the server ends: a stream has no end of its own, and a cut one is an error.
        self.ending: Callable[[], bool] = lambda: False

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", lambda request: FileResponse(PAGE / "index.html")),
                Route("/healthz", lambda request: JSONResponse({"status": "ok"})),
                Route("/events", self.events),
                Route("/api/start", self.start),
                Route("/api/carriers/{carrier}/outage", self.begin, methods=["POST"]),
                Route("/api/carriers/{carrier}/outage", self.end, methods=["DELETE"]),
                Route("/api/load", self.set_load, methods=["POST"]),
                Route("/api/beside", self.compare, methods=["POST"]),
                Mount("/assets", StaticFiles(directory=ASSETS, check_dir=False)),
                Mount("/page", StaticFiles(directory=PAGE)),
                Mount("/docs", StaticFiles(directory=SITE, check_dir=False)),
            ],
            middleware=[Middleware(Protected, access=self.access)],
            lifespan=self.lifespan,
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Collect while the server runs."""
        async with self.collector:
            for target in self.first:
                self.collector.add(target)
            running = asyncio.create_task(self.collector.run(self._beside))
            running.add_done_callback(_say_why)
            try:
                yield
            finally:
                running.cancel()
                await self.beside.close()

    def _beside(self) -> dict[str, Any]:
        return {"beside": {"name": self.beside.name, "state": self.beside.state}}

    async def start(self, request: Request) -> Response:
        """Answer what a page needs once: may it control, what could be compared, the history.

        `report` is the comparison's address, empty where the pages aren't built.
        """
        return JSONResponse(
            {
                "controls": self.access.may_see_controls(request),
                "strategies": self.beside.choices(),
                "history": list(self.collector.history),
                "report": f"/docs/{REPORT}" if (SITE / REPORT).exists() else "",
            }
        )

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        # Seconds until the browser comes again when we were restarted.
        yield "retry: 1000\n\n"
        while not self.ending():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    figures = await self.collector.news()
            except TimeoutError:
                continue
            yield f"data: {json.dumps(figures, separators=(',', ':'))}\n\n"

    async def begin(self, request: Request) -> Response:
        """Begin an outage at one carrier of every stack: `{"kind": "hang", "for": 30}`."""
        given = await _json(request)
        try:
            kind = str(given.get("kind", ""))
            parameters = parameters_of(kind, float(given.get("for", DEFAULT_SECONDS)))
        except (TypeError, ValueError, OverflowError) as error:
            return JSONResponse({"error": str(error)}, 400)
        carrier = request.path_params["carrier"]
        return await self._at_all(
            carrier, lambda simulator: simulator.fault(carrier, kind, parameters)
        )

    async def end(self, request: Request) -> Response:
        """End all outages of one carrier."""
        carrier = request.path_params["carrier"]
        return await self._at_all(carrier, lambda simulator: simulator.heal(carrier))

    async def _at_all(self, carrier: str, ask: Callable[[Simulator], None]) -> Response:
        if carrier not in map(str.lower, CARRIERS):
            return JSONResponse({"error": f"there is no carrier {carrier!r}"}, 404)
        watches = self.collector.watches
        try:
            await asyncio.gather(*(asyncio.to_thread(ask, watch.simulator) for watch in watches))
        except (OSError, RuntimeError) as error:
            return JSONResponse({"error": f"a simulator did not do it: {error}"}, 502)
        return JSONResponse({"stacks": len(watches)})

    async def set_load(self, request: Request) -> Response:
        """Turn the knobs: `{"rate": 6, "share": 0.8}`, either or both."""
        given = await _json(request)
        try:
            knobs = {name: float(given[name]) for name in ("rate", "share") if name in given}
            if any(math.isnan(value) for value in knobs.values()):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            return JSONResponse({"error": "rate and share are numbers"}, 400)
        load = self.collector.load
        load.set(**knobs)
        return JSONResponse({"rate": load.rate, "share": load.share})

    async def compare(self, request: Request) -> Response:
        """Start a second strategy beside the first: `{"strategy": name}`; "" ends it."""
        name = str((await _json(request)).get("strategy", ""))
        if name:
            refusal = self.beside.start(name)
            return JSONResponse({"error": refusal}, 409) if refusal else JSONResponse({})
        self.beside.stop()
        return JSONResponse({})


def _say_why(task: asyncio.Task[None]) -> None:
    """Log why the collector ended: clients would wait for its figures without a word."""
    if not task.cancelled() and (error := task.exception()):
        logger.critical("No figures come any more", exc_info=error)


async def _json(request: Request) -> dict[str, Any]:
    try:
        given = json.loads(await request.body() or b"{}")
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


class Protected:
    """Refuses changes by clients that may not control, logs operators', adds HEADERS to answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 403."""

        async def send_more(message: Message) -> None:
            # The documentation's theme has scripts of its own within its pages; it has no buttons.
            if message["type"] == "http.response.start" and not scope["path"].startswith("/docs/"):
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        if scope["type"] == "http" and scope["method"] not in {"GET", "HEAD"}:
            request = Request(scope)
            if not self._access.may_control(request):
                refusal = {"error": "only for an operator, or on this machine in demo mode"}
                return await JSONResponse(refusal, 403)(scope, receive, send_more)
            if user := self._access.operator(request):
                logger.warning("user %s: %s %r", user, request.method, request.url.path)
        return await self._app(scope, receive, send_more)
