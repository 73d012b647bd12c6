"""`capacity` under Locust; see shop.py."""

from loadtests.locustfiles.shop import chosen, shape, users

_SCENARIO = chosen("capacity")
globals().update(users(_SCENARIO))
AllAtOnce = shape(_SCENARIO)
