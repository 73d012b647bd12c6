"""Where the composition's engine can't run, it is said what is missing."""

import pytest

from deploy.tests.compose import engine

ALL = "Name:\tpython\nCapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n"


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        (ALL, []),
        # What Docker gives a container without --privileged.
        (ALL.replace("000001ffffffffff", "00000000a80425fb"), ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),
        (ALL.replace("000001ffffffffff", "00000000a80435fb"), ["CAP_SYS_ADMIN"]),
    ],
)
def test_a_daemon_s_capabilities_are_named(status, missing):
    assert engine.lacking(status) == missing


@pytest.mark.parametrize(
    ("user", "absent", "capabilities", "reason"),
    [
        (1000, "", [], "no engine answers, and one of our own needs root"),
        (0, "dockerd", [], "dockerd: make setup"),
        (0, "", ["CAP_SYS_ADMIN"], "this container has no CAP_SYS_ADMIN: run it with --privileged"),
        (0, "", [], ""),
    ],
)
def test_what_is_missing_is_said(user, absent, capabilities, reason, monkeypatch):
    monkeypatch.setattr(engine.os, "geteuid", lambda: user)
    monkeypatch.setattr(engine, "which", lambda name: None if name == absent else f"/bin/{name}")
    monkeypatch.setattr(engine, "lacking", lambda _: capabilities)
    assert engine.why_no_daemon() == reason
