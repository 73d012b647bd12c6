"""`talk` under Locust; see shop.py."""

from loadtests.locustfiles.shop import chosen, shape, users

_SCENARIO = chosen("talk")
globals().update(users(_SCENARIO))
AllAtOnce = shape(_SCENARIO)
