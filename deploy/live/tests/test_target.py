"""What a stack's environment says of it."""

from unittest import mock

import pytest

from deploy.live import carriers
from deploy.live.target import Target
from deploy.plan import make_plan
from deploy.strategy import load, names

REDIS = "redis://127.0.0.1:1/0"


def target(name, folder, **overrides):
    plan = make_plan(load(name), run_dir=folder, redis_url=REDIS, inherited={}, overrides=overrides)
    return Target(plan.environment, list)


@pytest.mark.parametrize(
    ("name", "slots"),
    [
        ("uwsgi-prefork", 5),
        ("uwsgi-threads", 2 * 100),
        ("uwsgi-gevent", 2 * 200),
        ("gunicorn-gthread", 2 * 100),
        ("cheroot", 200),
        ("asgi-hold", 2 * 8),
        ("uwsgi-offload", 2 * 2),
        ("scale-out", 2 * 2 * 2),
        ("runserver", None),
        ("uvicorn-threads", None),
    ],
)
def test_slots_are_what_the_strategys_files_make_of_its_sizes(name, slots, tmp_path):
    assert target(name, tmp_path).slots == slots


@pytest.mark.parametrize("name", names())
def test_every_strategy_can_be_watched(name, tmp_path):
    watched = target(name, tmp_path)
    assert watched.slots is None or watched.slots > 0
    assert watched.holds == (load(name).family == "is held by a front")


def test_a_bulkhead_of_ones_own(tmp_path):
    watched = target("asgi-hold", tmp_path, CARRIER_BULKHEAD="50", CARRIER_BULKHEAD_COLIBRI="7")
    assert (watched.bulkhead("colibri"), watched.bulkhead("postnl")) == (7, 50)


def test_the_guards_may_have_a_redis_of_their_own(monkeypatch, tmp_path):
    monkeypatch.setattr(carriers, "sync_client", asked := mock.Mock())
    for environment in ({"GUARDS_URL": "by name"}, {}):
        carriers.Guards(target("asgi-hold", tmp_path, **environment))
    assert [call.args[0] for call in asked.call_args_list] == ["by name", REDIS]
