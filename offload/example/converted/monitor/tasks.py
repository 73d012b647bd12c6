"""Work that clients wait for."""

import offload

from monitor import transports
from monitor.models import Channel


@offload.task(Channel)
def send_test(channel):
    channel.error = transports.send_test(channel)
