"""Raw data of a bench, small and made up: for tests of what is said of them."""

from loadtests.figures import phase_figures
from loadtests.metrics import Sample
from loadtests.scenario import load

TALK = load("talk", overrides={"connections": 10, "requests": 40, "carrier_seconds": 2})
HELD, WAITS = "is held by a front", "waits in the worker"


def samples(latency, failed=0):
    """Ten clients, four rounds; the first `failed` requests end with a 502."""
    return [
        Sample(
            "labels",
            100.0 + round_ * latency,
            100.0 + round_ * latency,
            100.0 + (round_ + 1) * latency,
            100.0 + (round_ + 1) * latency,
            "http 502" if round_ * 10 + client < failed else "ok",
        )
        for round_ in range(4)
        for client in range(10)
    ]


EVENTS = (
    {"at": 1.0, "kind": "fault", "what": "hang", "carrier": "tortoise", "said": "done"},
    {"at": 3.0, "kind": "heal", "what": "tortoise", "carrier": "", "said": "done"},
)


def run(
    strategy, family, latency, *, repeat=1, failed=0, status="measured", others=0.0, said="done"
):
    """A run of TALK in which each label took `latency` seconds."""
    phase = TALK.phases[0]
    events = [{**EVENTS[0], "said": said}, EVENTS[1]]
    streams = phase_figures(TALK, phase.streams, samples(latency, failed), 100.0, events)
    return {
        "scenario": "talk",
        "strategy": strategy,
        "variant": "",
        "repeat": repeat,
        "family": family,
        "status": status,
        "reason": "" if status == "measured" else "the generator was late",
        "sizes": {"WEB_WORKERS": "5"},
        "phases": [
            {
                "name": phase.name,
                "start": 1.0,
                "events": events,
                "generator_busy": 0.1,
                "streams": streams,
            }
        ],
        "timeline": [look(at, others) for at in range(5)],
        "books": books(40, failed),
    }


def look(at, others=0.0):
    """What the collector saw in one second."""
    return {
        "at": float(at),
        "load": 1.0,
        "cpu": {"web": 0.5, "hub": 0.1, "worker": 0.3},
        "others": others,
        "serving_memory": 100.0 + at,
        "connections": 5 + at,
        "held": at,
        "open": at,
        "busy": {"serving": 2, "waiting": 1},
    }


def books(asked, failed):
    """All were booked, once each."""
    return {
        "asked": asked,
        "answered_well": asked - failed,
        "booked": asked,
        "doubled": 0,
        "announced": asked,
        "open": 0,
        "failed": 0,
    }


def missing(strategy, family, reason):
    named = {"scenario": "talk", "strategy": strategy, "variant": "", "repeat": 1}
    return named | {"family": family, "status": "missing", "reason": reason}


def results(*runs, note=""):
    return {
        "began": "2026-01-02 03:04 UTC",
        "note": note,
        "quick": False,
        "repeats": 1,
        "seed": 1,
        "sizing": "5 web processes",
        "equal": {"HUB_WORKERS": "1"},
        "machine": {
            "cores": 2,
            "processor": "made up",
            "memory_gb": 4,
            "system": "Linux 6",
            "architecture": "x86_64",
            "python": "3.11",
            "commit": "abc",
            "load_before": 0.1,
            "packages": {"django": "5.2"},
            "programs": {"nginx": "nginx 1.22"},
        },
        "ceiling": {
            "requests_per_second": 9000.0,
            "paced_rate": 500,
            "paced_late_share": 0.0,
            "generators": 1,
        },
        "scenarios": {
            "talk": {
                "title": TALK.title,
                "question": TALK.question,
                "parameters": dict(TALK.parameters),
            }
        },
        "unavailable": {"granian": "not installed"},
        "runs": list(runs),
        "complete": True,
    }
