"""What the demo says of what it saw: the verdict first, and the outage where it was."""

import re
from xml.etree import ElementTree

import pytest

from deploy.demo_report import Part, write_report

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("uwsgi-prefork", "asgi-hold")


def look(at, *now):
    targets = [
        {
            "name": name, "canary": seconds,
            "clients": {"sent": at, "late": 0, "errors": 0},
            "announced": 0, "waiting": 5, "slots": 5, "holds": 0,
        }
        for name, seconds in zip(NAMES, now, strict=False)
    ]  # fmt: skip
    return {"at": at, "targets": targets}


def test_a_refused_connection_is_the_slowest_reading_and_no_quick_one():
    part = Part("outage")
    for number, now in enumerate((0.004, 0.2, None)):
        part.looks.append(look(number, now))
    [row] = part.rows()
    assert (row["other pages"], row["at worst"]) == ("0.2 s", "no answer")


def report(folder, hung):
    parts = [Part("healthy"), Part("outage"), Part("recovery")]
    for part, start, prefork in zip(parts, (0, 20, 40), (0.004, hung, 0.01), strict=True):
        for at in range(start, start + 20):
            part.looks.append(look(1_795_000_000 + at, prefork, 0.012))
    return write_report(folder, parts).read_text()


def test_the_verdict_comes_first(tmp_path):
    assert report(tmp_path, 14.2).splitlines()[2] == (
        "**While the carrier hung, other pages answered within 12 ms with asgi-hold "
        "and within 14.2 s with uwsgi-prefork.**"
    )
    assert "and some not at all with uwsgi-prefork." in report(tmp_path, None)


def test_the_chart_shades_the_outage_and_nothing_else(tmp_path):
    [name] = re.findall(r"!\[.*?\]\((.*?)\)", report(tmp_path, 14.2))
    root = ElementTree.fromstring((tmp_path / name).read_text())
    _, _, band = root.iter(f"{SVG}rect")  # the first two are the paper
    left, right = float(band.attrib["x"]), float(band.attrib["x"]) + float(band.attrib["width"])
    prefork = next(root.iter(f"{SVG}polyline"))  # in the same units, y upwards
    points = [tuple(map(float, pair.split())) for pair in prefork.attrib["points"].split(",")]
    slow = [x for x, y in points if y > max(y for _, y in points) - 1]
    assert (min(slow), max(slow)) == pytest.approx((left, right), abs=0.2)
