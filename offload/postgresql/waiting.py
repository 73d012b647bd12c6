"""A worker that waits for one hold: a connection of its own, which listens."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Timer

import psycopg

from offload.keys import ANSWER_KEY, HOLD_CHANNEL
from offload.postgresql import BACKEND, READ
from offload.postgresql.listening import CONNECT_TIMEOUT, cut_when_silent
from offload.protocol import Answer, decode_answer

TROUBLE = (psycopg.Error, OSError, ValueError)


def wait_on_postgresql(
    url: str, hold_id: str, deadline: float, ask_app: Callable[[str], Answer | None], *, idle: float
) -> Answer | None:
    """Listen, read, wait; `deadline` by the monotonic clock. Behind a pooler nothing is heard."""
    with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT) as connection:
        with cut_when_silent(connection, _call_later):
            row = connection.execute(BACKEND).fetchone()
            if row is not None and row[0] == connection.info.backend_pid:
                connection.execute(f'LISTEN "{HOLD_CHANNEL + hold_id}"')
            else:
                connection.prepare_threshold = None
        woken = False
        while True:
            with cut_when_silent(connection, _call_later):
                row = connection.execute(READ, [[ANSWER_KEY + hold_id]]).fetchone()
            if row is not None:
                return decode_answer(bytes(row[1]))
            left = deadline - time.monotonic()
            if woken or left <= 0:
                answer = ask_app(hold_id)
                if answer is not None or left <= 0:
                    return answer
            # To its end: left open, the generator would keep the connection's lock.
            woken = bool([*connection.notifies(timeout=min(idle, left), stop_after=1)])


def _call_later(seconds: float, work: Callable[[], None]) -> Timer:
    timer = Timer(seconds, work)
    timer.daemon = True
    timer.start()
    return timer
