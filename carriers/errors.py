"""What can go wrong between us and a carrier.

::

    CarrierError
    ├── CarrierNotSent                 nothing of this request left us
    │   ├── CarrierUnreachable         DNS, refused, connect time-out
    │   ├── NoDescriptors              this process has none left for a connection
    │   ├── NoThread                   nor a thread to keep its deadline
    │   ├── CarrierTlsError            the handshake failed
    │   ├── SendForbidden              the guard said no before the first byte
    │   └── RequestUnbuildable         our own data doesn't fit in HTTP
    └── CarrierSilent                  the request left us, the answer is missing
        ├── CarrierTimeout             the total deadline or a read's time-out passed
        ├── CarrierReset               the connection was cut before an answer
        └── CarrierAnswerUnreadable    there was an answer, and it makes no sense

A class's docstring is its default message. The transports turn all of these into outcomes:
`carriers.transport.perform` raises none of them.
"""

import socket


class CarrierError(Exception):
    """The carrier could not be used"""

    reason = "carrier_error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class CarrierNotSent(CarrierError):
    """Nothing was sent to the carrier"""

    reason = "not_sent"


class CarrierUnreachable(CarrierNotSent):
    """The carrier could not be reached"""

    reason = "unreachable"


class NoDescriptors(CarrierNotSent):
    """This process has no file descriptor left for a connection"""

    reason = "no_descriptors"


class NoThread(CarrierNotSent):
    """This process can start no thread to keep a call's deadline"""

    reason = "no_thread"


class CarrierTlsError(CarrierNotSent):
    """No trusted TLS connection to the carrier"""

    reason = "tls"


class SendForbidden(CarrierNotSent):
    """The send guard refused this purchase just before it left"""

    reason = "send_forbidden"


class RequestUnbuildable(CarrierNotSent):
    """The request holds something that HTTP can't carry"""

    reason = "unbuildable"


class CarrierSilent(CarrierError):
    """The request was sent and its answer is missing"""

    reason = "silent"


class CarrierTimeout(CarrierSilent):
    """The carrier did not answer in time"""

    reason = "timeout"


class CarrierReset(CarrierSilent):
    """The connection was cut before the carrier answered"""

    reason = "reset"


class CarrierAnswerUnreadable(CarrierSilent):
    """The carrier's answer could not be read"""

    reason = "unreadable"


def not_connected(detail: str) -> CarrierUnreachable | NoDescriptors:
    """Return why no connection was made: the carrier isn't to blame when we can open no socket.

    A look-up without a descriptor says that there is no such name, so the error doesn't tell.
    """
    try:
        socket.socket().close()
    except OSError:
        return NoDescriptors()
    return CarrierUnreachable(detail)
