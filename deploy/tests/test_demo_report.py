"""What the demo says of a server that gives no answer."""

from deploy.demo_report import Part


def look(now, sent):
    clients = {"sent": sent, "late": 0, "errors": 0}
    return {
        "targets": [
            {
                "name": "uwsgi-prefork", "canary": {"now": now}, "clients": clients,
                "announced": 0, "waiting": 5, "slots": 5, "holds": 0,
            }
        ]
    }  # fmt: skip


def test_a_refused_connection_is_the_slowest_reading_and_no_quick_one():
    part = Part("outage")
    for number, now in enumerate((0.004, 0.2, None)):
        part.add(look(now, sent=number))
    assert part.rows()[0][6:8] == ["0.2 s", "no answer"]
