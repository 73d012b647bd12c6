"""docker-compose.yml on an engine: started as docs/operations.md says, and asked as a shop asks."""

import asyncio
import base64
import json
import re
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from deploy.ports import free_port
from deploy.tests.composed import write_secrets
from deploy.tests.waiting import until
from deploy.welcome import ADDRESS

# Carriers' methods: one answers in 20 ms, the other in ten seconds.
QUICK, SLOW = 8, 10
# Over what the composition lets a client wait (55 s), on a busy machine.
PATIENCE = 120
# A start of all services with their health checks, which look every ten seconds.
START = 300


@dataclass(frozen=True)
class Answer:
    """What a client got: status 0 is a refused or cut connection."""

    at: float
    status: int
    body: str
    seconds: float

    @property
    def parcel(self):
        return json.loads(self.body)["parcel"]

    @property
    def labelled(self):
        return self.status == 200 and self.parcel["status"]["id"] == 1000

    @property
    def promised(self):
        return self.status in (200, 202)


class Project:
    """`with Project(engine, "asgi-hold", folder) as project:`; it is up then, and gone after."""

    def __init__(self, engine, strategy, folder):
        self.engine = engine
        self.strategy = strategy
        self.port = free_port()
        self.name = f"compose-test-{strategy}"
        self.hubs = 0 if strategy == "asgi-hold" else 2
        self.seconds = {}
        self.folder = folder
        self.environment = {
            "COMPOSE_PROJECT_NAME": self.name,
            "COMPOSE_HTTP_TIMEOUT": "300",
            "STRATEGY": strategy,
            "TAG": "1",
            "ALLOWED_HOSTS": "shop.example",
            "PUBLIC_URL": "https://shop.example",
            "TRUSTED_PROXIES": "172.16.0.0/12,192.168.0.0/16",
            "PUBLISH": f"127.0.0.1:{self.port}",
            "SECRETS_DIR": str(folder / "secrets"),
            # One account sends more than a shop may.
            "THROTTLE_WRITE": "none",
            "THROTTLE_READ": "none",
            # How long a silent hub keeps its clients: half a minute more.
            "WAIT_MAXIMUM": "60",
        }
        self._number = 0

    def __enter__(self):
        write_secrets(self.folder / "secrets")
        for folder in (self.folder, *self.folder.parents[:2]):
            folder.chmod(0o755)
        try:
            self.up()
            self.login = self._login()
        except BaseException as error:
            error.add_note(self.said())
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.compose("--profile", self.strategy, "down", "--volumes", "--timeout=1", check=False)

    # The operator -----------------------------------------------------------------------------

    def compose(self, *arguments, **settings):
        done = self.engine.run("docker-compose", *arguments, env=self.environment, **settings)
        return done.stdout

    def up(self, *arguments, web=2, hub=2):
        """As docs/operations.md starts it; returns when all are well."""
        start = time.monotonic()
        hubs = (f"--scale=hub={hub}",) if self.hubs else ()
        line = ("up", "--detach", "--no-build", f"--scale=web={web}", *hubs, *arguments)
        self.compose("--profile", self.strategy, *line)
        self.until_well()
        self.seconds["up"] = time.monotonic() - start

    def restart(self, service):
        """Restart a service; its hubs one after another, as docs/operations.md says."""
        if service != "hub":
            self.compose("restart", service)
            self.until_well()
            return
        for one in self.containers(service):
            self.engine.docker("restart", "--time=30", one["Id"])
            self.until_well()

    def until_well(self, seconds=START):
        until(lambda: not self.ill(), "all containers' health", seconds)

    def containers(self, *services, every=False):
        """Return what the engine knows of each container."""
        own = f"--filter=label=com.docker.compose.project={self.name}"
        ids = self.engine.docker("ps", "--quiet", *(("--all",) if every else ()), own).split()
        found = json.loads(self.engine.docker("inspect", *ids)) if ids else []
        return [one for one in found if not services or service_of(one) in services]

    def ill(self):
        """Return the names of services that run and are not well."""
        found = self.containers()
        return [
            service_of(one)
            for one in found
            if one["State"].get("Health", {}).get("Status", "healthy") != "healthy"
        ]

    def manage(self, *arguments):
        line = ("run", "--rm", "migrate", "exec", "python", "manage.py", *arguments)
        return self.compose(*line)

    def _login(self):
        printed = self.manage("create_account", "First Shop")
        keys = dict(line.strip().split("=", 1) for line in printed.splitlines() if "_KEY=" in line)
        return base64.b64encode(f"{keys['PUBLIC_KEY']}:{keys['SECRET_KEY']}".encode()).decode()

    def pages(self, service, url):
        """Return what each of a service's containers reads at an address."""
        program = f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"
        line = ("python", "-c", program)
        return [self.engine.docker("exec", one["Id"], *line) for one in self.containers(service)]

    def ledger(self):
        """Return the carriers' sums: booked, and references that were paid for twice."""
        [page] = self.pages("simulator", "http://simulator:9000/ledger/summary")
        parts = json.loads(page).values()
        return {name: sum(part[name] for part in parts) for name in ("booked", "double_booked")}

    def in_flight(self):
        """Return how many calls the carriers have before them."""
        [page] = self.pages("simulator", "http://simulator:9000/carriers")
        return sum(one["in_flight"] for one in json.loads(page)["carriers"])

    def held(self):
        """Return how many clients the hubs hold."""
        pages = "".join(self.pages("hub", "http://127.0.0.1:8100/metrics"))
        return sum(map(int, re.findall(r"^offload_holds (\d+)", pages, re.MULTILINE)))

    def said(self, lines="40"):
        return self.compose("logs", "--no-color", f"--tail={lines}", check=False)[-60_000:]

    def logs(self, service):
        return "".join(self.engine.docker("logs", one["Id"]) for one in self.containers(service))

    # The shop ---------------------------------------------------------------------------------

    async def ask(self, method, path, body=None):
        """Send one request, as the TLS proxy would pass it on from a client of its own address."""
        self._number += 1
        start = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                status, text = await self._ask(method, path, body)
        except (OSError, TimeoutError, IndexError) as error:
            status, text = 0, repr(error)
        return Answer(start, status, text, time.monotonic() - start)

    async def _ask(self, method, path, body):
        data = b"" if body is None else json.dumps(body).encode()
        high, low = divmod(self._number, 250)
        lines = [
            f"{method} /api/v2/{path} HTTP/1.1",
            "Host: shop.example",
            f"Authorization: Basic {self.login}",
            "X-Forwarded-Proto: https",
            f"X-Forwarded-For: 10.9.{high % 250}.{low + 1}",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode() + data)
            head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return int(head.split()[1]), _unchunked(head, rest).decode()

    def create(self, method=SLOW, **wishes):
        """Ask for a parcel; a coroutine."""
        wishes = wishes or {"request_label": True}
        parcel = {**ADDRESS, "shipment": {"id": method}, **wishes}
        return self.ask("POST", "parcels", {"parcel": parcel})

    async def many(self, count, method=SLOW):
        return await asyncio.gather(*(self.create(method) for _ in range(count)))

    @asynccontextmanager
    async def load(self, rate, method=SLOW):
        """Send so many requests a second meanwhile; yields the answers, complete at the end."""
        answers, tasks = [], []

        async def one():
            answers.append(await self.create(method))

        async def go_on():
            start = time.monotonic()
            for number in range(1_000_000):
                await asyncio.sleep(max(0, start + number / rate - time.monotonic()))
                tasks.append(asyncio.create_task(one()))

        sending = asyncio.create_task(go_on())
        try:
            yield answers
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await asyncio.gather(*tasks)

    async def read(self, parcel):
        return (await self.ask("GET", f"parcels/{parcel['id']}")).parcel

    async def open_parcels(self):
        """Return how many parcels wait for their label."""
        answer = await self.ask("GET", "parcels?parcel_status=1001")
        assert answer.status == 200, answer
        return len(json.loads(answer.body)["parcels"])

    async def until_announced(self, seconds=PATIENCE):
        """Wait until no parcel waits for its label."""
        end = time.monotonic() + seconds
        while left := await self.open_parcels():
            assert time.monotonic() < end, f"{left} parcels have no label after {seconds} s"
            await asyncio.sleep(1)


def service_of(container):
    return container["Config"]["Labels"]["com.docker.compose.service"]


def image_of(container):
    return container["Config"]["Image"]


def counted(answers):
    """Return how many answers have which status."""
    return dict(Counter(answer.status for answer in answers))


def _unchunked(head, rest):
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    whole = b""
    while size := int(rest.split(b"\r\n", 1)[0], 16):
        rest = rest.split(b"\r\n", 1)[1]
        whole, rest = whole + rest[:size], rest[size + 2 :]
    return whole
