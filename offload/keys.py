"""Headers, paths and storage keys that Django, the fronts and the hub share."""

TICKET_HEADER = "X-Offload-Ticket"
# A front that can't remember the ticket names its request by 32 hex digits of its own instead.
REQUEST_HEADER = "X-Offload-Request"
HOLD_PATH = "/_offload/hold/"
ANSWERS_PATH = "/_offload/answers"
# Prefix of the internal paths of app and hub: clients must not reach any of them.
INTERNAL_PATH = "/_offload/"

# Where HoldMiddleware leaves a request's protocol.Client in the ASGI scope, and InThreads in the
# WSGI environment; clients can't write there.
CLIENT = "offload.client"
# HoldMiddleware tells Intake in the ASGI scope that it gives a large body's place back, when the
# request has its slot, by what Intake leaves there.
KEEPS_PLACE, LEAVE_PLACE = "offload.keeps_place", "offload.leave_place"

# What is stored: behind these stands the hold id, the ticket's nonce, a front's name for a request.
ANSWER_KEY = "offload:answer:"
LATE_KEY = "offload:late:"
USED_KEY = "offload:used:"
REQUEST_KEY = "offload:request:"
RELEASED_CHANNEL = "offload:released"
# The channel of one hold, whose id follows: for a worker that waits for nothing else.
HOLD_CHANNEL = "offload:released:"
# Its value changes when Redis lost its data: then every hold is in doubt.
EPOCH_KEY = "offload:epoch"
