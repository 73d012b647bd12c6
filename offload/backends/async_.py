"""Nothing is held: the app's own coroutine waits for the answer."""

HOLDS = REMOTE = False
