"""From samples to what stands in a report: per stream its summary, its seconds, and the theory."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from loadtests.arrivals import Closed
from loadtests.metrics import Sample, by_stream, per_second, recovery_seconds, summarize
from loadtests.scenario import Scenario, StreamSpec

_DIGITS = 4


def phase_figures(
    scenario: Scenario,
    specs: Sequence[StreamSpec],
    samples: Sequence[Sample],
    start: float,
    events: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return each stream's figures; one that sent nothing is missing."""
    streams = by_stream(samples)
    return {
        spec.name: _stream_figures(scenario, spec, streams[spec.name], start, events)
        for spec in specs
        if spec.name in streams
    }


def _stream_figures(
    scenario: Scenario,
    spec: StreamSpec,
    samples: Sequence[Sample],
    start: float,
    events: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    summary = summarize(samples)
    seconds = per_second(samples, start)
    figures: dict[str, Any] = {
        "call": spec.call,
        "planned": planned(spec),
        "summary": rounded(asdict(summary)) if summary else None,
        "seconds": rounded([asdict(second) for second in seconds]),
    }
    if limit := possible_rate(scenario, spec):
        figures["limit"] = limit
    if (rate := rate_while_all_open(spec, samples)) is not None:
        figures["all_open"] = rounded(rate)
    latency = scenario.fixed_latency(spec.carrier)
    broken = {event["carrier"] for event in events}
    # A carrier that hangs keeps no time of its own.
    if summary and summary.latency and latency and spec.carrier not in broken:
        own = {"p50": summary.latency.p50 - latency, "p99": summary.latency.p99 - latency}
        figures["beyond_carrier"] = rounded(own)
    if hours := outage_of(events):
        begin, end = (start + moment for moment in hours)
        figures["recovery"] = rounded(recovery_seconds(samples, begin=begin, end=end))
    return figures


def planned(spec: StreamSpec) -> int:
    """Return how many requests the stream was to send."""
    if isinstance(spec.arrivals, Closed):
        return int(spec.arrivals.requests)
    return sum(1 for _ in spec.arrivals.times())


def possible_rate(scenario: Scenario, spec: StreamSpec) -> float | None:
    """Return the most requests a second that connections can make at a carrier of fixed latency."""
    latency = scenario.fixed_latency(spec.carrier)
    if isinstance(spec.arrivals, Closed) and latency:
        return spec.arrivals.connections / latency
    return None


def rate_while_all_open(spec: StreamSpec, samples: Sequence[Sample]) -> float | None:
    """Return good answers per second from the last connection's opening to the last request.

    Only where connections open one after another: when all come in one instant the servers need
    seconds to take them in, and before the last opening the limit is not asked for.
    """
    if not (isinstance(spec.arrivals, Closed) and spec.arrivals.opening and samples):
        return None
    begin = min(sample.intended for sample in samples) + spec.arrivals.opening
    end = max(sample.intended for sample in samples)
    good = sum(sample.ok and begin < sample.end <= end for sample in samples)
    return good / (end - begin) if end > begin else None


def outage_of(events: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return when the fault began and was healed, in seconds of the phase."""
    begin = next((event["at"] for event in events if event["kind"] == "fault"), None)
    end = next((event["at"] for event in events if event["kind"] == "heal"), None)
    return (begin, end) if begin is not None and end is not None else None


def rounded(value: Any) -> Any:
    """Round all fractions in it: a tenth of a millisecond is below what is measured."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return value
