"""F16's slow clients are counted: against a front that hangs up on them nothing was shown."""

import socket
import threading
from contextlib import ExitStack

import pytest

from loadtests.faults.kinds.f16_slow_loris import drip

pytestmark = pytest.mark.integration
CLIENTS = 4


@pytest.mark.parametrize("keeps", [True, False])
def test_slow_clients_that_are_hung_up_on_don_t_count(keeps: bool) -> None:
    with ExitStack() as opened:
        front = opened.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            for _ in range(CLIENTS):
                connection = front.accept()[0]
                opened.callback(connection.close)
                if not keeps:
                    connection.close()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()

        class Rounds(threading.Event):
            left = 3  # a hang-up is noticed with the second byte

            def wait(self, timeout: float | None = None) -> bool:
                serving.join(10)
                self.left -= 1
                return self.left < 0

        kept = drip(front.getsockname()[1], CLIENTS, Rounds())
    assert kept == (CLIENTS if keeps else 0)
