"""Give a body that came in chunks its length: Django and REST framework read none without one."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def measure_chunks(application: "WSGIApplication", most: int) -> "WSGIApplication":
    """Wrap the application; of a body over `most` bytes one more is read, and it is refused.

    For servers that undo the chunks themselves (gunicorn, Cheroot). Under ASGI `offload.intake`
    does this, before uWSGI nginx, and bjoern by itself.
    """

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> "Iterable[bytes]":
        if "HTTP_TRANSFER_ENCODING" in environ and environ.get("wsgi.input_terminated"):
            try:
                body = environ["wsgi.input"].read(most + 1)
            except (OSError, ValueError) as error:
                # Cheroot's word for a chunk over its own limit, which it doesn't read. Else these
                # are no chunks, or the client is gone: as without a body.
                body = bytes(most + 1) if "Too Large" in str(error) else b""
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        return application(environ, start_response)

    return answer
