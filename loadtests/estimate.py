"""How long a bench takes, said before it begins."""

from loadtests.arrivals import Closed
from loadtests.figures import possible_rate
from loadtests.fleet import LEAD
from loadtests.measure import REST_SECONDS
from loadtests.scenario import Scenario, StreamSpec

# Seconds to migrate, start, check and stop a deployment: 7 to 12 on two cores.
AROUND = 10.0
# Creates and reads a second of a closed loop whose carrier has no fixed time: 300 to 3,000.
USUAL_RATE = 500.0


def span(scenario: Scenario) -> tuple[float, float]:
    """Return how many seconds one run takes: if all goes as it could, and if all is cut off."""
    least = most = AROUND + REST_SECONDS
    for phase in scenario.phases:
        ideal = max(_stream(scenario, spec) for spec in phase.streams)
        least += LEAD + min(ideal, phase.cap)
        most += LEAD + phase.cap
    return least, most + scenario.settle


def _stream(scenario: Scenario, spec: StreamSpec) -> float:
    if isinstance(spec.arrivals, Closed):
        rate = possible_rate(scenario, spec) or USUAL_RATE
        return spec.begin + spec.arrivals.requests / rate
    last = max(spec.arrivals.times(), default=0.0)
    return spec.begin + last + (scenario.fixed_latency(spec.carrier) or 0.0)
