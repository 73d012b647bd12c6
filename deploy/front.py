"""Values for the fronts' configuration files: how long, how many, where `/` leads."""

import math
from collections.abc import Mapping

# As the settings have it: seconds.
WAIT_MAXIMUM = 120
# Of one address: it takes forty of them to fill a hub (10,000 holds). 0 where all clients share an
# address, as the lab's do: no limit.
CONNECTIONS = "256"
# Of them with a large body, each a file of 2 MB at most: eight addresses fill the 256 MB that a
# container has for such files.
LARGE_BODIES = 16


def front_values(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values for the templates; what the environment says itself wins over them."""
    live = environment.get("LIVE_URL", "")
    connections = environment.get("FRONT_CONNECTIONS_PER_ADDRESS", CONNECTIONS)
    limits = f"limit_conn clients {connections}; limit_conn large_bodies {LARGE_BODIES};"
    return {
        "FRONT_TIMEOUT": _timeout(environment),
        "FRONT_LIMITS": "" if connections == "0" else limits,
        # Without a live page there is nothing to show; a redirect would lead back to itself.
        "FRONT_PAGE": f"302 {live}/" if live else "404",
    }


def _timeout(environment: Mapping[str, str]) -> str:
    """Return how many seconds a front waits for app or hub: half a minute over the longest wait."""
    try:
        return str(30 + math.ceil(float(environment.get("WAIT_MAXIMUM", WAIT_MAXIMUM))))
    except ValueError:  # the settings say what is wrong with it, in their own words
        return str(30 + WAIT_MAXIMUM)
