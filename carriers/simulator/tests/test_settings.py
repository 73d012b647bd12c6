import resource

import pytest

from carriers.simulator.__main__ import raise_file_limit
from carriers.simulator.latency import Latency, fixed
from carriers.simulator.settings import SettingsError, from_environment


def test_an_empty_environment_gives_the_documented_defaults():
    settings = from_environment({})
    assert settings.control.port == 9000
    assert [settings.carriers[code].port for code in settings.carriers] == [*range(9001, 9006)]
    assert str(settings.ledger) == ".run/ledger.jsonl"
    assert settings.seed == 1
    assert settings.latency["tortoise"] == fixed(10)


def test_what_is_given_is_taken():
    settings = from_environment(
        {
            "CARRIER_URL_POSTNL": "http://simulator:9101/",
            "SIMULATOR_LATENCY_TORTOISE": "2.5",
            "SIMULATOR_LATENCY_POSTNL": "p50:0.4,p95:1.5",
            "SIMULATOR_SEED": "7",
            "SIMULATOR_TRACKING_STEP": "0.5",
        }
    )
    assert (settings.carriers["postnl"].host, settings.carriers["postnl"].port) == (
        "simulator",
        9101,
    )
    assert settings.latency["tortoise"] == fixed(2.5)
    assert settings.latency["postnl"] == Latency(0.4, 1.5)
    assert (settings.seed, settings.tracking_step) == (7, 0.5)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SIMULATOR_URL", "127.0.0.1:9000"),
        ("SIMULATOR_URL", "https://127.0.0.1:9000"),
        ("SIMULATOR_URL", "http://127.0.0.1"),
        ("CARRIER_URL_COLIBRI", "http://127.0.0.1:99999"),
        ("CARRIER_URL_COLIBRI", "http://127.0.0.1:9003/api"),
        ("CARRIER_URL_COLIBRI", "http://127.0.0.1:9000"),  # the control API's
        ("SIMULATOR_LATENCY_TORTOISE", "soon"),
        ("SIMULATOR_LATENCY_TORTOISE", "-1"),
        ("SIMULATOR_LATENCY_TORTOISE", "nan"),
        ("SIMULATOR_LATENCY_TORTOISE", "p50:2,p95:1"),
        ("SIMULATOR_LATENCY_TORTOISE", "p50:2"),
        ("SIMULATOR_LATENCY_HARE", "1"),
        ("SIMULATOR_SEED", "one"),
        ("SIMULATOR_TRACKING_STEP", "-1"),
        ("SIMULATOR_TRACKING_STEP", "fast"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable(variable, value):
    with pytest.raises(SettingsError, match=f"^{variable}: "):
        from_environment({variable: value})


INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ((256, INFINITE), [(20_000, INFINITE)]),  # macOS
        ((1024, 524_288), [(524_288, 524_288)]),  # Linux: all that there are
        ((1024, 1024), []),
        ((INFINITE, INFINITE), []),
    ],
)
@pytest.mark.parametrize("refused", [None, ValueError, OSError])
def test_the_limit_of_descriptors_is_raised_as_the_system_allows(
    limits, asked, refused, monkeypatch
):
    seen = []

    def setrlimit(_, wanted):
        seen.append(wanted)
        if refused or wanted[0] == INFINITE:
            raise refused or ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    raise_file_limit()
    assert seen == asked
