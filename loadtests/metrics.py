"""What the clients saw, as figures.

Latency counts from the *intended* start of a request. A client that could not send because its
server was stuck has waited all the same; counted from the send, that wait would be left out
("coordinated omission"). `sent` only says how late the generator itself was.

Percentiles are exact: all samples are kept, and the value at rank ⌈p·n⌉ is taken, so that each
figure is one that a client saw.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# A send this much after its intended start is late. A loop with nothing to do is on time within a
# millisecond; 50 ms is what a person could take for the server's.
LATE_SECONDS = 0.05
# With more late sends than this a stream's figures are the generator's, not the server's.
LATE_SHARE = 0.01
# Of its core. In a closed loop a request is due when the same process has read the last answer: if
# it reads late, no send is late, and its delay is in the server's times.
GENERATOR_BUSY = 0.8
# Seconds: a simulated carrier whose plain lookup takes longer is itself the bottleneck.
SIMULATOR_SLOW = 0.25

# The goodput that counts as back, over so many seconds: the slowest stream sends one a second.
RECOVERED_SHARE = 0.95
RECOVERY_WINDOW = 3.0
# An answer is as before if it takes no longer than so often the 95th percentile before, or this
# many seconds: half of the shortest time-out that clients commonly set (10 s).
SLOWER = 2.0
LEAST_LIMIT = 5.0

OK = "ok"
TIME_OUT, UNFINISHED = GAVE_UP = "time-out", "unfinished"
NOT_SENT = "not sent"  # by the generator's own lack, of which no server is guilty


class Sample(NamedTuple):
    """One request; times in seconds on one clock, None where it never came to that."""

    stream: str
    intended: float
    sent: float | None
    first_byte: float | None
    end: float
    outcome: str

    @property
    def latency(self) -> float:
        """Return what the client waited, counted from when it meant to send."""
        return self.end - self.intended

    @property
    def late(self) -> bool:
        """Say whether the generator was late to send it."""
        return self.sent is not None and self.sent - self.intended > LATE_SECONDS

    @property
    def ok(self) -> bool:
        """Say whether the client got what it asked for."""
        return self.outcome.startswith(OK)


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds."""

    minimum: float
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Summary:
    """One stream's figures; rates are per second.

    `latency` is of the good answers, and of those who gave up: they have waited as long for none.
    """

    asked: int
    good: int
    errors: dict[str, int]
    seconds: float
    throughput: float
    goodput: float
    error_share: float
    latency: Latency | None
    late_sends: int


@dataclass(frozen=True, slots=True)
class Second:
    """One second of a run, `at` seconds from its start."""

    at: int
    good: int
    errors: dict[str, int] = field(default_factory=dict)
    p50: float | None = None
    in_flight: float = 0.0


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values don't exceed."""
    if not ordered:
        raise ValueError("no values, no percentile")
    # 0.07 * 100 is 7.000000000000001: a rank must not grow by a rounding error.
    rank = math.ceil(round(share * len(ordered), 9))
    return ordered[max(rank, 1) - 1]


def latency_of(values: Iterable[float]) -> Latency | None:
    """Return the distribution's figures; None of nothing: missing, not 0."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p90, p95, p99 = (percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99))
    mean = math.fsum(ordered) / len(ordered)
    return Latency(ordered[0], mean, p50, p90, p95, p99, ordered[-1])


def summarize(samples: Sequence[Sample]) -> Summary | None:
    """Return the figures of one stream; None where nothing was asked."""
    if not samples:
        return None
    begin = min(sample.intended for sample in samples)
    seconds = max(max(sample.end for sample in samples) - begin, 1e-9)
    good = [sample for sample in samples if sample.ok]
    # Who gave up in the end was never answered.
    answered = sum(sample.outcome != UNFINISHED for sample in samples)
    return Summary(
        asked=len(samples),
        good=len(good),
        errors=dict(Counter(sample.outcome for sample in samples if not sample.ok)),
        seconds=seconds,
        throughput=answered / seconds,
        goodput=len(good) / seconds,
        error_share=1 - len(good) / len(samples),
        latency=latency_of(each.latency for each in samples if each.ok or each.outcome in GAVE_UP),
        late_sends=sum(sample.late for sample in samples),
    )


def by_stream(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return the samples of each stream."""
    streams: dict[str, list[Sample]] = {}
    for sample in samples:
        streams.setdefault(sample.stream, []).append(sample)
    return streams


def per_second(samples: Sequence[Sample], start: float) -> list[Second]:
    """Return what happened in each second after `start`: answers by their end.

    A request counts as in flight for the part of a second in which it was.
    """
    if not samples:
        return []
    length = int(max(sample.end for sample in samples) - start) + 1
    ended: dict[int, list[Sample]] = {}
    for sample in samples:
        ended.setdefault(int(sample.end - start), []).append(sample)
    flight = _in_flight(samples, start, length)
    return [_second(at, ended.get(at, []), flight[at]) for at in range(length)]


def _second(at: int, ended: Sequence[Sample], in_flight: float) -> Second:
    latency = latency_of(sample.latency for sample in ended if sample.ok)
    return Second(
        at=at,
        good=sum(sample.ok for sample in ended),
        errors=dict(Counter(sample.outcome for sample in ended if not sample.ok)),
        p50=latency.p50 if latency else None,
        in_flight=in_flight,
    )


def _in_flight(samples: Sequence[Sample], start: float, length: int) -> list[float]:
    """Return how many requests were in flight on average in each second.

    Whole seconds by a running sum of starts and ends, the two broken ones by their parts: so a
    request of an hour costs as little as one of a second.
    """
    change = [0.0] * (length + 2)
    for sample in samples:
        for moment, sign in ((sample.intended - start, 1.0), (sample.end - start, -1.0)):
            second = int(moment)
            part = second + 1 - moment
            change[second] += sign * part
            change[second + 1] += sign * (1 - part)
    level, levels = 0.0, []
    for step in change[:length]:
        level += step
        levels.append(round(max(level, 0.0), 6))
    return levels


def recovery_seconds(samples: Sequence[Sample], *, begin: float, end: float) -> float | None:
    """Return how long after `end` requests are answered as before `begin`, and stay so.

    All three are moments on the samples' clock. As before: 95 % of the share that was good then,
    each within the time that was usual. By intended start, in windows: a backlog that is flushed
    in one second is no recovery, and neither is one good second between bad ones. None: not in
    what was sent.
    """
    before = [sample for sample in samples if sample.intended < begin]
    usual = latency_of(sample.latency for sample in before if sample.ok)
    if usual is None:
        return None
    limit = max(SLOWER * usual.p95, LEAST_LIMIT)
    wanted = RECOVERED_SHARE * _share_within(before, limit)
    windows: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.intended >= end:
            windows.setdefault(int((sample.intended - end) / RECOVERY_WINDOW), []).append(sample)
    recovered: float | None = None
    for at, inside in sorted(windows.items()):
        if _share_within(inside, limit) < wanted:
            recovered = None
        elif recovered is None:
            recovered = at * RECOVERY_WINDOW
    return recovered


def _share_within(samples: Sequence[Sample], limit: float) -> float:
    return sum(sample.ok and sample.latency <= limit for sample in samples) / len(samples)


def why_invalid(
    phases: Sequence[tuple[str, float, Sequence[Sample]]],
    simulator_lookups: Sequence[float],
    busy: float,
) -> list[str]:
    """Return why a run says nothing about the server, by its generator and its simulator.

    `phases` are names, starts and samples. The generator is judged by the late sends of each
    stream of each phase, as that is what a figure is of, by what it could not send, and by `busy`,
    its share of a core in the busiest phase; the simulator by its plain lookups in seconds.
    """
    # One a second, but a slow one lets none be made meanwhile: it counts for its seconds.
    lookups = sorted(took for took in simulator_lookups for _ in range(max(1, round(took))))
    slowness = percentile(lookups, 0.95) if lookups else 0.0
    reasons = []
    every = [sample for _, _, samples in phases for sample in samples]
    if all(sample.sent is None for sample in every):
        reasons.append("nothing was sent")
    if lacked := sum(sample.outcome == NOT_SENT for sample in every):
        reasons.append(f"the generator had no descriptor or port for {lacked} requests")
    for phase, _, samples in phases:
        for stream, mine in by_stream(samples).items():
            late = sum(sample.late for sample in mine)
            # A single one is no stall, and may be more than the share of a short stream.
            if late > 1 and late / len(mine) > LATE_SHARE:
                reasons.append(
                    f"the generator was late: {late / len(mine):.1%} of the sends of {stream} "
                    f"({phase}) by over {LATE_SECONDS * 1000:.0f} ms"
                )
    if busy > GENERATOR_BUSY:
        reasons.append(f"the generator was busy: it used {busy:.2f} of a core")
    if slowness > SIMULATOR_SLOW:
        reasons.append(f"the simulator was slow: a lookup took {slowness:.2f} s (95th percentile)")
    return reasons
