"""The slow third party."""

from urllib.error import URLError
from urllib.request import urlopen

TIMEOUT = 20.0  # seconds; some receivers take that long to wake up


def send_test(channel):
    """Tell the receiver, and return what went wrong."""
    try:
        with urlopen(channel.url, data=b'{"event": "test"}', timeout=TIMEOUT):
            return ""
    except (URLError, TimeoutError) as error:
        return str(error)[:200]
