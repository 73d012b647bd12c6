"""An answer waits for the rest of its request's body, where the server would close over it."""

import io

import pytest

from shipping.unread import PIECE, drain_unread_body


class Body(io.BytesIO):
    """A request's body; with an error in place of its second half, where the client hung up."""

    def __init__(self, size, error=None):
        super().__init__(b"x" * size)
        self.error = error

    def read(self, size=-1):
        if self.error and self.tell():
            raise self.error
        return super().read(size)


def refuse(environ, start_response):
    """Answer without a look at the body, as a refused login does."""
    environ["wsgi.input"].read(10)
    start_response("401 Unauthorized", [])
    return [b"no"]


def ask(body, **server):
    statuses = []
    environ = {"wsgi.input": body, **server}

    def start_response(status, headers, error=None, /):
        statuses.append(status)
        return lambda data: None

    answer = drain_unread_body(refuse)(environ, start_response)
    return statuses, answer


@pytest.mark.parametrize("size", [0, 10, PIECE, 3 * PIECE + 1])
def test_under_uwsgi_the_body_is_read_to_its_end(size):
    body = Body(size)
    assert ask(body, **{"uwsgi.version": b"2.0"}) == (["401 Unauthorized"], [b"no"])
    assert body.tell() == size


def test_a_client_that_hung_up_is_no_error():
    body = Body(100, OSError("error during read(65536) on wsgi.input"))
    assert ask(body, **{"uwsgi.version": b"2.0"}) == (["401 Unauthorized"], [b"no"])


def test_other_servers_do_it_themselves():
    body = Body(PIECE)
    ask(body)
    assert body.tell() == 10
