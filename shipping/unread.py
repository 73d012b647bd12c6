"""Read the rest of a request's body before the answer is sent, if the server doesn't."""

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# Bytes at a time: what a socket's buffer holds, so that no body is kept whole.
PIECE = 65_536


def drain_unread_body(application: "WSGIApplication") -> "WSGIApplication":
    """Wrap the application: under uWSGI no answer is sent before the whole body is read.

    uWSGI closes the connection over it, and the kernel then resets it: the reset overtakes the
    answer (a refusal before the body was of interest), and nginx says 502
    (https://github.com/unbit/uwsgi/issues/1576). How much may come is nginx' to bound.
    """

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        response = application(environ, start_response)
        if "uwsgi.version" in environ:
            # An error here is the client's disconnect: nobody waits for the answer any more.
            with suppress(OSError):
                while environ["wsgi.input"].read(PIECE):
                    pass
        return response

    return answer
