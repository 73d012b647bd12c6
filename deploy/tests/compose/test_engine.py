"""The composition on a real engine: labels, losses, stops, an update, a restored database.

One composition for each strategy, and its tests in this order: `make compose-test`. What is marked
`short` is part of `make test-all`, with one strategy.
"""

import asyncio
import json
import time

import pytest

from deploy.tests.compose.project import QUICK, SLOW, START, counted, image_of, service_of
from deploy.tests.test_compose import check_the_front
from deploy.tests.waiting import until

pytestmark = [pytest.mark.compose, pytest.mark.integration, pytest.mark.timeout(1800)]

HELD = 500
# Requests a second, in updates and restarts: no update may fail one.
RATE = 6
# A client's time (WAIT_DEFAULT, 55 s), less what a busy machine takes before.
WAIT = 50
# nginx gives a silent hub up: WAIT_MAXIMUM and half a minute.
SILENT = 90
short = pytest.mark.short
# What a client may get while these are away. Others it doesn't notice.
FRONTAL = {"front": {0, 502, 504}, "web": {0, 502, 504}, "postgres": {500, 502, 503, 504}}


def status_of(project, container, field):
    """Return a field of /proc/1/status, as the kernel has it."""
    text = project.engine.docker("exec", container["Id"], "cat", "/proc/1/status")
    return dict(line.split(":", 1) for line in text.splitlines())[field].split()


@short
def test_all_start_and_none_is_root(project):
    """Not even the stores: an entry point may begin as root, what serves does not."""
    found = project.containers()
    running = {service_of(one) for one in found}
    expected = {"front", "web", "worker", "sweeper", "simulator", "postgres", "redis"}
    assert running == expected | ({"hub"} if project.hubs else set())
    for one in found:
        name = service_of(one)
        # PID 1 of ours is the engine's init, which runs as the container's user.
        assert status_of(project, one, "Uid")[1] != "0", name
        assert int(status_of(project, one, "CapEff")[0], 16) == 0, name
        assert status_of(project, one, "NoNewPrivs") == ["1"], name
        assert one["HostConfig"]["Memory"], name
        assert one["HostConfig"]["ReadonlyRootfs"] or name == "postgres"


@short
def test_only_what_is_for_clients_is_reached_by_the_published_port(project):
    check_the_front(f"http://127.0.0.1:{project.port}")


@short
async def test_a_label_in_both_modes(project):
    answer = await project.create(SLOW)
    assert answer.labelled, answer
    assert 9 < answer.seconds < 50
    answer = await project.create(SLOW, request_label_async=True)
    assert answer.status == 200, answer
    assert answer.seconds < 9
    assert answer.parcel["status"]["id"] != 1000
    await project.until_announced()
    assert (await project.read(answer.parcel))["status"]["id"] == 1000


@short
async def test_held_clients_all_get_their_label(project):
    answers = await project.many(HELD)
    assert [answer for answer in answers if not answer.labelled] == []
    assert len({answer.parcel["id"] for answer in answers}) == HELD


async def test_lost_hubs_take_nothing_else_with_them(project):
    """They crash and the engine starts them anew; meanwhile web servers go on, and answer 202."""
    if not project.hubs:
        pytest.skip("this strategy has no hub")
    project.compose("pause", "worker")  # no call begins before all clients are held
    try:
        held = asyncio.create_task(project.many(50))
        await asyncio.to_thread(until, lambda: project.held() >= 50, "50 held clients", WAIT)
    finally:
        project.compose("unpause", "worker")
    for one in project.containers("hub"):
        # All but the engine's init, which ends with its child.
        project.engine.docker("exec", one["Id"], "sh", "-c", "kill -9 -1", check=False)
    answers = await held
    answers += await project.many(20, QUICK)
    assert [answer for answer in answers if not answer.promised] == []
    assert {answer.status for answer in answers[:50]} == {202}
    await asyncio.to_thread(project.until_well)
    # All at once, and not one to try the hubs by while the others are answered 202.
    assert [answer for answer in await project.many(10) if not answer.labelled] == []
    await project.until_announced()


async def test_silent_hubs_hold_up_nobody_else(project):
    """They take connections and say nothing: their clients are answered late, others at once."""
    if not project.hubs:
        pytest.skip("this strategy has no hub")
    hubs = [one["Id"] for one in project.containers("hub")]
    project.engine.docker("pause", *hubs)
    try:
        waiting = asyncio.create_task(project.many(50, QUICK))
        others = []
        while not waiting.done():
            others.append(await project.create(QUICK, request_label_async=True))
            await asyncio.sleep(1)
    finally:
        project.engine.docker("unpause", *hubs)
    answers = await waiting
    assert [answer for answer in others if answer.status != 200 or answer.seconds > WAIT / 2] == []
    assert [answer for answer in answers if not answer.promised] == []
    longest = max(answer.seconds for answer in answers)
    print(f"{project.strategy}: silent hubs: {counted(answers)}, {longest:.0f} s at most")
    assert longest < SILENT + 15
    await asyncio.to_thread(project.until_well)
    assert [answer for answer in await project.many(10) if not answer.labelled] == []
    await project.until_announced()


def restart_order(project):
    names = ["sweeper", "simulator", "redis", "worker", "postgres", "web", "front"]
    return [*names, "hub"] if project.hubs else names


async def test_each_service_is_restarted_under_load(project):
    """No parcel is lost and none bought twice; which clients notice it is said in FRONTAL."""
    windows, during = {}, {}
    async with project.load(RATE) as answers:
        for name in restart_order(project):
            begin = time.monotonic()
            await asyncio.to_thread(project.restart, name)
            await asyncio.sleep(5)  # until those who were asked in its absence have returned
            windows[name] = (begin, time.monotonic())
    for name, (begin, end) in windows.items():
        during[name] = counted([one for one in answers if begin <= one.at + one.seconds < end])
        print(f"{project.strategy}: restart of {name}, {end - begin:.0f} s: {during[name]}")
    for name, statuses in during.items():
        assert statuses.keys() <= {200, 202} | FRONTAL.get(name, set()), (name, statuses)
    if (
        project.strategy == "nginx-accel"
    ):  # the other hub takes whom this one, which drains, doesn't
        assert during["hub"][200] > 0.9 * sum(during["hub"].values())
    await project.until_announced()
    assert project.ledger()["double_booked"] == 0
    assert (await project.create(QUICK)).labelled


def test_each_line_of_ours_is_json(project):
    """Over starts, ends and outages; what logging itself could not write would be plain text."""
    ours = ("front", "web", "worker", "sweeper", "simulator", *(["hub"] if project.hubs else []))
    for one in project.containers(*ours):
        lines = project.engine.docker("logs", one["Id"]).splitlines()
        assert [line for line in lines if not is_json(line)] == [], service_of(one)
    assert "Starting uWSGI" in project.logs("web") or project.strategy == "asgi-hold"
    assert "Warm shutdown" in project.logs("worker")


def is_json(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


@short
async def test_a_stop_answers_the_clients_that_it_holds(project):
    held = asyncio.create_task(project.many(50))
    await asyncio.to_thread(until, lambda: project.in_flight() >= 50, "50 calls in flight")
    start = time.monotonic()
    await asyncio.to_thread(project.compose, "stop")
    print(f"{project.strategy}: stop with 50 held clients: {time.monotonic() - start:.0f} s")
    answers = await held
    codes = {
        (service_of(one), one["State"]["ExitCode"])
        for one in project.containers(every=True)
        if service_of(one) != "migrate"
    }
    await asyncio.to_thread(project.up)
    assert [answer for answer in answers if not answer.labelled] == []
    # 137 is SIGKILL: the grace period was too short, or what it needs to end was gone.
    assert {code for code in codes if code[1] != 0} == set()


@short
async def test_an_update_fails_no_request(project):
    """By the documented script, to the second image, while shops ask."""
    services = {"web", "worker", "sweeper"} | ({"hub"} if project.hubs else set())
    before = {service: len(project.containers(service)) for service in services}
    environment = {**project.environment, "TAG": "2"}
    start = time.monotonic()
    async with project.load(RATE) as answers:
        await asyncio.sleep(5)
        printed = await asyncio.to_thread(
            project.engine.run, "sh", "deploy/base/update.sh", env=environment
        )
        await asyncio.sleep(5)
    taken = time.monotonic() - start
    print(f"{project.strategy}: update in {taken:.0f} s: {counted(answers)}")
    assert [answer for answer in answers if not answer.promised] == [], printed.stdout
    found = project.containers(*services)
    assert {image_of(one) for one in found} == {"slow-carriers:2"}
    assert {one: len(project.containers(one)) for one in services} == before
    # The old ones end when they hold nobody: a 202 comes at the end of a client's own time only.
    cut_short = [answer for answer in answers if answer.status == 202 and answer.seconds < WAIT]
    assert len(cut_short) < 0.05 * len(answers), counted(cut_short)
    project.environment["TAG"] = "2"
    await project.until_announced()
    assert (await project.create(QUICK)).labelled


def test_an_image_can_know_s3(engine):
    arguments = ("--network=host", "--build-arg=PYTHON=compose-test-python", "--target=packages")
    lists = "--build-arg=EXTRAS=requirements-s3.txt"
    file = "deploy/base/Dockerfile"
    engine.docker("build", *arguments, lists, "--file", file, "--tag", "compose-test-s3", ".")
    program = "import boto3, storages.backends.s3"
    line = ("/app/.venv/bin/python", "-c", program)
    engine.docker("run", "--rm", "--network=none", "compose-test-s3", *line)


async def test_a_backup_is_restored(project):
    """As docs/operations.md says it: what was bought after the backup is not bought again."""
    if project.strategy != "nginx-accel":
        pytest.skip("the database is the same in all: once is enough")
    dump = "pg_dump --host=127.0.0.1 --username=parcels --format=custom parcels"
    secret = 'PGPASSWORD="$(cat /run/secrets/database_password)"'
    before = (await project.create(QUICK)).parcel
    project.compose("stop", "worker", "sweeper")
    waiting = (await project.create(QUICK, request_label_async=True)).parcel
    project.compose("exec", "-T", "postgres", "sh", "-c", f"{secret} {dump} > /tmp/parcels.dump")
    project.compose("start", "worker", "sweeper")
    await project.until_announced()
    bought = await project.read(waiting)
    booked = project.ledger()["booked"]

    project.compose("stop", "front", "web", "worker", "sweeper", "hub")
    again = f"export {secret}; dropdb --host=127.0.0.1 --username=parcels --force parcels" + (
        " && createdb --host=127.0.0.1 --username=parcels parcels"
        " && pg_restore --host=127.0.0.1 --username=parcels --exit-on-error --no-owner"
        " --dbname=parcels /tmp/parcels.dump"
    )
    project.compose("exec", "-T", "postgres", "sh", "-c", again)
    flush = "REDISCLI_AUTH=$(cat /run/secrets/redis_password) redis-cli flushdb"
    project.compose("exec", "-T", "redis", "sh", "-c", flush)
    project.compose("run", "--rm", "migrate")
    project.manage("after_restore")
    project.compose("--profile", project.strategy, "start")
    project.until_well(START)

    assert (await project.read(before))["tracking_number"] == before["tracking_number"]
    await project.until_announced()
    assert (await project.read(waiting))["tracking_number"] == bought["tracking_number"]
    assert project.ledger() == {"booked": booked, "double_booked": 0}
