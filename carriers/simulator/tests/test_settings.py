import pytest

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
