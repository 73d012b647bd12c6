"""What README and pages say of the results is what the raw data say."""

import csv
import gzip
import math
import re
from collections import Counter
from functools import partial

import pytest

from deploy import strategy as strategies
from deploy.plan import ROOT
from loadtests import __main__ as command
from loadtests import pages
from loadtests.aggregate import groups, plain, streams, used
from loadtests.comparison import (
    DOUBT,
    NOT_MEASURED,
    comparison,
    footnotes,
    memory_each,
    needs,
    reload,
    to_install,
    worked_off,
)
from loadtests.results import NAME, Published, newest, read, write
from loadtests.tables import (
    books_table,
    errors_table,
    number,
    server_table,
    stream_tables,
)
from loadtests.tests.bench_results import HELD, WAITS, missing, results, run

COMMITTED = newest()
# What a person wrote of the figures: `93.4 %<!-- asgi-hold: of the limit -->`.
CONCLUSIONS = re.compile(r"<!-- conclusions -->(.*?)<!-- /conclusions -->", re.DOTALL)
QUOTE = re.compile(
    r"(?P<said>(?:no good answer|measured|invalid|[\d.,]+(?: (?:%|s|KB))?)(?:, [\d.]+ % failed)?)"
    r"<!-- (?P<name>[a-z0-9 -]+): (?P<head>[^>]+) -->"
)
# The published experiments beside ours: each folder has one run's raw data.
SEEDS = ROOT / "docs" / "seeds"
# What quotes nothing of ours: another one's figure, a setting, an experiment's name.
GIVEN = re.compile(r"[\d.,]+(?: %)?<!-- published -->|`[^`]*`|\bS\d\b|\]\([^)]*\)")


def test_the_tables_are_those_of_the_newest_committed_result():
    """Red? `make results`."""
    text = (ROOT / pages.PAGE).read_text()
    assert pages.written(text, COMMITTED) == text
    assert any(f"<!-- {name}" in text for name in pages.PARTS)


@pytest.mark.parametrize("page", ["README.md", pages.PAGE])
def test_each_figure_in_a_conclusion_is_the_tables(page):
    """Red? The newest result says something else now: read the table, write the sentence anew."""
    assert COMMITTED is not None
    found = rows(comparison(COMMITTED.groups()))
    for file in COMMITTED.folder.glob(f"*/{NAME}"):
        found |= cells_of(file.parent)
    sentences = CONCLUSIONS.findall((ROOT / page).read_text())
    assert sentences
    for text in sentences:
        assert wrong_quotes(GIVEN.sub("", text), found) == []


def test_each_figure_on_the_seeds_page_is_in_its_raw_data():
    assert COMMITTED is not None
    found = rows(comparison(COMMITTED.groups()))
    for folder in SEEDS.iterdir():
        found |= cells_of(folder)
    [text] = CONCLUSIONS.findall((ROOT / "docs" / "seeds.md").read_text())
    assert QUOTE.search(text)
    assert wrong_quotes(GIVEN.sub("", text), found) == []


def cells_of(folder):
    """Return each strategy's cells by "folder strategy variant"; a stream's with its name."""
    found = {}
    for group in groups([read(folder / NAME)]):
        cells = {"state": group.runs[0]["status"]}
        for table in stream_tables([group]):
            row = zip(table.head, table.rows[0], strict=True)
            cells |= {f"{table.title}: {head}": cell for head, cell in row}
        others = (server_table([group]), books_table([group]), errors_table([group]))
        for table in filter(None, others):
            cells |= dict(zip(table.head, table.rows[0], strict=True))
        for _, stream, figures in streams(group.runs[0]):
            cells[f"{stream}: good"] = number(figures["summary"]["good"])
            cells[f"{stream}: seconds"] = number(figures["summary"]["seconds"])
        name = f"{folder.name} {group.strategy} {group.variant}".strip()
        found[name] = cells | answers_by_process(folder, group)
    return found


def answers_by_process(folder, group):
    """Return how many good answers each process gave, by rank: the hub's say which one it was."""
    parts = (group.scenario, group.strategy, group.variant.replace(" ", "-"), "1")
    label = "_".join(filter(None, parts))
    with gzip.open(folder / "samples" / f"{label}.csv.gz", "rt") as file:
        said = Counter(row["outcome"] for row in csv.DictReader(file))
    by_rank = sorted((count for name, count in said.items() if "process" in name), reverse=True)
    return {f"answers of process {rank}": f"{count:,}" for rank, count in enumerate(by_rank, 1)}


def wrong_quotes(text, found):
    """Return the quotes that differ from their cells, and figures that quote no cell."""
    wrong = [
        quote.group()
        for quote in QUOTE.finditer(text)
        if re.sub(r" \([^)]*\)", "", found[quote["name"]][quote["head"]]) != quote["said"]
    ]
    return wrong + re.findall(r".*\d.*", QUOTE.sub("", text))


def test_a_quote_that_differs_and_a_figure_without_a_cell_are_seen():
    found = {"asgi-hold": {"failed": "2.5 % (1 % to 3 %)"}}
    right = "It failed at 2.5 %<!-- asgi-hold: failed -->."
    assert wrong_quotes(right, found) == []
    assert wrong_quotes(right.replace("2.5", "2.4"), found)
    assert wrong_quotes(right.replace("%<", "%, 1.0 % failed<"), found)
    assert wrong_quotes(f"{right} Twice as often as at 1.2 %.", found)


def test_a_figure_that_was_changed_by_hand_is_seen():
    text = (ROOT / pages.PAGE).read_text()
    changed = text.replace("| of the limit |", "| of the limits |", 1)
    assert pages.written(changed, COMMITTED) == text != changed


def test_a_strategy_that_is_missing_in_the_list_is_seen():
    text = (ROOT / pages.PAGE).read_text()
    stale = re.sub(r"\| \[asgi-hold\].*\n", "", text)
    assert pages.written(stale, COMMITTED) == text != stale
    assert all(f"[{name}](../deploy/strategies/{name})" in text for name in strategies.names())


def rows(table):
    return {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}


@pytest.fixture
def seen():
    return groups(
        [
            results(
                run("nginx-accel", HELD, 2.0),
                run("nginx-accel", HELD, 4.0, repeat=2),
                run("asgi-hold", HELD, 2.0, status="invalid"),
                run("uwsgi-prefork", WAITS, 20.0, failed=40),
                missing("cheroot", WAITS, "ContractError: answered 500"),
            )
        ]
    )


def test_a_missing_run_is_not_measured_and_never_nought(seen):
    found = rows(comparison(seen))
    for name in ("cheroot", "bjoern"):
        assert set(found[name].values()) == {name, NOT_MEASURED}


def test_what_has_no_valid_run_is_marked_and_says_why(seen):
    found = rows(comparison(seen))
    assert found["asgi-hold"]["of the limit"] == f"100.0 %{DOUBT}"
    assert DOUBT not in found["nginx-accel"]["of the limit"]
    assert any(note.startswith("asgi-hold, `talk`: run 1 invalid") for note in footnotes(seen))


def test_repeats_are_a_median_and_a_range(seen):
    found = rows(comparison(seen))["nginx-accel"]
    assert found["of the limit"] == "75.0 % (50.0 % to 100.0 %)"


def test_a_server_that_never_answered_well_has_no_latency_but_was_measured(seen):
    found = rows(comparison(seen))["uwsgi-prefork"]
    assert (found["failed"], found["wait, slowest 1 %"]) == ("100.0 %", "no good answer")


def test_rows_stand_by_family_and_name_and_none_is_left_out(seen):
    names = [row[0] for row in comparison(seen).rows]
    assert sorted(names) == strategies.names()
    assert names == sorted(names, key=lambda name: (strategies.load(name).family, name))
    assert [row[0] for row in needs().rows] == names


@pytest.mark.parametrize(
    ("waiting", "rows", "cut_off", "seconds"),
    [
        ([2] * 30, [2] * 30, 0, 0.0),  # nothing was left over
        ([2] * 10 + [40] * 10 + [2] * 10, [2] * 30, 0, 5.0),  # clients wait five seconds longer
        ([2] * 30, [2] * 10 + [40] * 12 + [5] * 8, 0, 7.0),  # nobody waits, but labels are to come
        ([2] * 20, [2] * 10 + [40] * 12 + [5] * 8, 0, 7.0),  # while the run settles
        ([2] * 10 + [40] * 20, [2] * 30, 0, math.inf),
        ([2] * 10 + [40] * 20, [2] * 31, 40, math.inf),  # whose clients the cap cut off
        ([2] * 30, [2] * 30, 5, 0.0),  # too few for a backlog
    ],
)
def test_a_backlog_is_worked_off_when_neither_clients_nor_rows_wait(
    waiting, rows, cut_off, seconds
):
    flight = [{"at": at, "in_flight": count, "errors": {}} for at, count in enumerate(waiting)]
    flight[-1]["errors"] = {"unfinished": cut_off}
    events = [{"at": 10.0, "kind": "fault"}, {"at": 15.0, "kind": "heal"}]
    phase = {"start": 4.0, "events": events, "streams": {"labels": {"seconds": flight}}}
    timeline = [{"at": 4.0 + at, "open": count} for at, count in enumerate(rows)]
    assert worked_off({"phases": [phase], "timeline": timeline}) == seconds
    assert worked_off({"phases": [{**phase, "events": []}], "timeline": timeline}) is None


def test_memory_is_counted_from_nobody_to_the_most():
    # 10 clients are there in second 1 of the run; the first look saw 100 MB, that one 101.
    serving = partial(memory_each, plain("serving_memory"))
    assert serving(run("asgi-hold", HELD, 2.0)) == pytest.approx(100.0)
    assert serving({**run("asgi-hold", HELD, 2.0), "timeline": []}) is None


def test_memory_all_told_has_worker_and_stores_and_not_the_load():
    made = run("asgi-hold", HELD, 2.0)
    for row in made["timeline"]:
        grown = row["at"]  # a MB each second of each: three for ten clients at second 1
        own = {"web": 50 + grown, "worker": 50 + grown, "postgresql": 9 + grown}
        row["memory"] = own | {"generator": 70 + 9 * grown, "simulator": 80 + 9 * grown}
    assert partial(memory_each, used("memory"))(made) == pytest.approx(300.0)
    assert partial(memory_each, used("memory"))(run("asgi-hold", HELD, 2.0)) is None


def reloaded(errors, strategy="nginx-accel"):
    made = run(strategy, HELD, 2.0)
    made["phases"][0]["streams"]["labels"]["summary"]["errors"] = errors
    made["scenario"] = made["phases"][0]["name"] = "reload"
    bench = results(made)
    bench["scenarios"]["reload"] = bench["scenarios"]["talk"]
    [group] = groups([bench])
    return group


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ({}, "0 of 40 lost"),
        ({"http 502": 3}, "3 of 40 lost"),
        ({"http 202": 4}, "0 of 40 lost, 4 got their label later (202)"),
        ({"reset": 1, "unfinished": 9}, "1 of 40 lost, 9 still waited at the run's end"),
    ],
)
def test_a_reload_says_how_many_were_lost_and_how_many_got_a_promise(errors, said):
    assert reload(reloaded(errors)) == said


def test_a_strategy_without_a_reload_says_so():
    assert reload(reloaded({}, "bjoern")) == "has none"
    assert reload(None) == NOT_MEASURED


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nginx-njs", "nginx, libnginx-mod-http-js, pyuwsgi"),
        ("bjoern", "bjoern (`bash deploy/setup.sh`)"),
        ("runserver", "nothing"),
    ],
)
def test_what_must_be_installed_comes_from_the_folder(name, said):
    assert to_install(strategies.load(name)) == said


def test_the_newest_is_the_one_that_began_last(tmp_path):
    for folder, began in (("a", "2026-01-03"), ("b", "2026-01-02"), ("empty", "")):
        (tmp_path / folder / "talk").mkdir(parents=True)
        if began:
            write(
                tmp_path / folder / "talk", results(run("asgi-hold", HELD, 2.0)) | {"began": began}
            )
    found = newest(tmp_path)
    assert found is not None
    assert (found.folder.name, found.began) == ("a", "2026-01-03")


def test_raw_data_written_again_are_the_same_file(tmp_path):
    bench = results(run("asgi-hold", HELD, 2.0))
    written = []
    for name in ("once", "again"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, bench)
        written.append((tmp_path / name / NAME).read_bytes())
    assert written[0] == written[1]
    assert newest(tmp_path) == Published(tmp_path / "again", (bench,))


def test_nothing_measured_is_said(tmp_path):
    text = "<!-- comparison -->\nold\n<!-- /comparison -->\n<!-- others -->\nx\n<!-- /others -->\n"
    said = pages.written(text, newest(tmp_path))
    assert "Nothing has been measured yet" in said
    assert "<!-- others -->\nx\n" in said


def test_the_command_says_what_it_wrote(monkeypatch, capsys):
    monkeypatch.setattr(command, "write_page", lambda: True)
    assert command.main(["pages"]) == 0
    assert capsys.readouterr().out == "wrote docs/which-one.md\n"
    monkeypatch.setattr(command, "write_page", lambda: False)
    assert command.main(["pages"]) == 0
    assert capsys.readouterr().out == "docs/which-one.md is up to date\n"
