"""Nothing is held: the app's own worker waits for the answer."""

HOLDS = REMOTE = False
