"""`outage` under Locust; see shop.py."""

from loadtests.locustfiles.shop import chosen, shape, users

_SCENARIO = chosen("outage")
globals().update(users(_SCENARIO))
AllAtOnce = shape(_SCENARIO)
