import pytest
from django.conf import settings as general

from loadtests import scenario
from loadtests.arrivals import Closed, Constant
from loadtests.charts import OF_SERVERS, OF_STREAMS
from loadtests.scenario import ScenarioError

STREAM = """[[phases.streams]]
name = "reads"
call = "read"
arrivals = { kind = "constant", rate = "$rate", seconds = 2 }
"""
MINE = f"""
title = "Mine"
[parameters]
rate = 5
cap = 9
[quick]
cap = 5
[carriers.tortoise]
fixed = 2
[environment]
WEB_THREADS = 7
[[phases]]
cap = "$cap"
events = [{{ at = 4, heal = "tortoise" }}, {{ at = 1, fault = "hang", carrier = "tortoise" }}]
{STREAM}"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return str(path)


SEEDS = scenario.FOLDER / "seeds"
OURS = [*scenario.names(), *(str(SEEDS / f"{name}.toml") for name in scenario.names(SEEDS))]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", OURS)
def test_each_of_ours_loads(name, quick):
    found = scenario.load(name, quick=quick)
    assert found.title
    assert found.question


@pytest.mark.parametrize("name", OURS)
def test_each_chart_is_of_a_stream_or_of_the_servers(name):
    found = scenario.load(name)
    streams = {stream.name for phase in found.phases for stream in phase.streams}
    panels = [
        panel
        for wanted in found.charts
        for panel in ([wanted] if isinstance(wanted, str) else wanted)
    ]
    for kind, _, stream in (wanted.partition(": ") for wanted in panels):
        of_stream = kind in {*OF_STREAMS, "phases"}
        assert (of_stream and stream in streams) or (kind in OF_SERVERS and not stream)
    assert len(found.charts) <= 3


def test_a_users_own_file_is_enough(mine):
    found = scenario.load(mine)
    [phase] = found.phases
    assert found.name == "mine"
    assert phase.streams[0].arrivals == Constant(rate=5, seconds=2)
    assert found.environment == {"WEB_THREADS": "7"}
    assert found.fixed_latency("tortoise") == 2
    assert [(event.at, event.kind) for event in phase.events] == [(1, "fault"), (4, "heal")]


def test_flags_win_over_quick_and_quick_over_the_defaults(mine):
    assert scenario.load(mine).phases[0].cap == 9
    assert scenario.load(mine, quick=True).phases[0].cap == 5
    assert scenario.load(mine, quick=True, overrides={"cap": 6}).phases[0].cap == 6


def test_the_talk_is_200_clients_2000_requests_ten_seconds():
    found = scenario.load("talk")
    labels = found.phases[0].streams[0]
    assert labels.arrivals == Closed(connections=200, requests=2000)
    assert found.fixed_latency(labels.carrier) == 10


def test_the_neighbour_is_another_account_and_its_control_takes_one_guard_away():
    found = scenario.load("neighbour")
    accounts = [[stream.account for stream in phase.streams] for phase in found.phases]
    assert accounts == [[1], [1, 2, 2]]
    assert found.receivers == 10
    assert found.variants == {
        "as shipped": {"DEMO_WRITE_LIMIT_2": str(general.THROTTLE_WRITE)},
        "turns": {},
        "no turns": {"FAULT_GUARDS_OFF": "turns"},
    }
    batches, reads = (stream.arrivals for stream in found.phases[1].streams[1:])
    assert batches == Closed(connections=4, requests=100)  # of a hundred labels each
    assert reads == Constant(rate=20, seconds=30)  # each waits ten seconds: 200 at a time


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('call = "read"', 'call = "sing"', "sing"),
        ('"$rate"', '"$pace"', "pace"),
        ('title = "Mine"', "", "title"),
        ("[quick]\ncap", "[quick]\ncup", "cup"),
        ('title = "Mine"', 'title = "Mine"\ncolour = 3', "colour"),
        ('heal = "tortoise"', 'pray = "tortoise"', "pray"),
        ("rate = 5", "rate = 0", "rate"),
        ("events = [", "event = [", "event"),
        ('heal = "tortoise"', 'heal = "tortoise", whit = 3', "whit"),
        (', carrier = "tortoise" }', " }", "at which carrier"),
        ("at = 4", "at = 5", "the phase is over"),
        ("at = 4", 'at = "four"', "number of seconds"),
        ('cap = "$cap"', 'cap = "soon"', "number of seconds"),
        ('call = "read"', 'call = "read"\ntime_out = "long"', "number of seconds"),
        ('call = "read"', 'call = "read"\naccount = 3', "account 3"),
        (
            "[[phases]]",
            "[[phases]]\nname = 'a'\ncap = 1\nstreams = []\n" * 2 + "[[phases]]",
            "twice",
        ),
        (STREAM, STREAM * 2, "twice"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(tmp_path, old, new, said):
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace(old, new))
    with pytest.raises(ScenarioError, match=said):
        scenario.load(str(path), quick=True)


def test_an_unknown_scenario_or_parameter_says_what_there_is(mine):
    with pytest.raises(ScenarioError, match="talk"):
        scenario.load("speech")
    with pytest.raises(ScenarioError, match="rate, cap"):
        scenario.load(mine, overrides={"speed": 3})


def test_growth_has_as_many_clients_as_its_phases_say():
    growing = scenario.load("growth")
    for phase in growing.phases:
        [slow] = phase.events
        labels, canary = phase.streams
        wait = slow.settings["seconds"]
        assert isinstance(labels.arrivals, Constant)
        assert isinstance(canary.arrivals, Constant)
        assert labels.arrivals.rate * wait == float(phase.name.split()[0].replace(",", ""))
        # Looked at from the first second in which all wait to the last one.
        assert canary.begin == wait
        assert wait + canary.arrivals.seconds == labels.arrivals.seconds


def test_the_apps_own_limit_in_crowd_can_be_set():
    limited = scenario.load("crowd", overrides={"bulkhead": 400})
    assert limited.environment["CARRIER_BULKHEAD"] == "400"
