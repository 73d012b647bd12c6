"""The fronts that `offload_config` prints, and those that are deployed here: one treatment."""

import pytest

from deploy.plan import ROOT
from offload.management.commands.offload_config import fill_in

VALUES = dict.fromkeys(
    ["KIND", "BACKEND", "LISTEN", "APP", "HUB", "INTERNAL", "TIMEOUT", "WSGI", "ASGI", "SETTINGS"],
    "x",
)
# Sizes are a deployment's own.
SIZES = ("proxy_buffers", "proxy_buffer_size")


def directives(text):
    lines = (line.strip() for line in text.splitlines())
    return {line for line in lines if line.endswith(";") and not line.startswith(("#", *SIZES))}


@pytest.mark.parametrize("kind", ["nginx-accel", "nginx-njs"])
def test_the_hub_is_asked_alike(kind):
    ours = directives((ROOT / "deploy/base/nginx/hub.conf").read_text())
    assert len(ours) > 8
    assert ours <= directives(fill_in(kind, VALUES))


@pytest.mark.parametrize("kind", ["nginx-accel", "nginx-njs"])
def test_the_same_is_closed_and_answered_alike(kind):
    ours = (ROOT / "deploy/strategies" / kind / "nginx.conf.in").read_text()
    printed = fill_in(kind, VALUES)
    for line in (
        "location ^~ /_offload/ {",
        "return 404;",
        "location ^~ /_offload/hold/ {",
        "internal;",
        "error_page 410 502 504 = @hub_gone;",
        "rewrite ^/_offload/hold/(.*)$ /_offload/late/$1 break;",
    ):
        assert line in ours, line
        assert line in printed, line


def test_uwsgi_carries_holds_alike():
    def routes(text):
        return [line for line in text.splitlines() if line.startswith(("pull-", "response-route"))]

    ours = (ROOT / "deploy/strategies/uwsgi-offload/uwsgi.ini.in").read_text()
    values = VALUES | {"HUB": "${HUB_BIND}"}
    assert routes(ours) == routes(fill_in("uwsgi", values))
    assert len(routes(ours)) == 4
