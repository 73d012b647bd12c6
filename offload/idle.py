"""The end of uvicorn's connections on which nothing happens: no request comes, no answer is read.

uvicorn has no limit of time for either, and such connections can use up the process's descriptors.
A look at all of them now and then costs a request nothing.
"""

import asyncio
import signal
from collections.abc import Collection, Mapping
from typing import Any

# Seconds: over the 60 that balancers keep an idle connection, also one that they opened ahead. A
# slow client is seen to read only when the kernel takes more, of up to some MB: with less time it
# would have to be faster.
LIMIT = 75.0
# Seconds between two looks at all connections: 5 ms for 10,000 held ones.
LOOK = 2.0


def watch() -> None:
    """Look at the connections of the uvicorn that runs this process, as long as its loop runs."""
    # Its handler of signals is its method; an app gets nothing else of it.
    server: Any = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if hasattr(server, "server_state"):
        look(server.server_state.connections, {})


def look(connections: Collection[Any], earlier: Mapping[Any, float]) -> None:
    """Close what was idle in all looks of the last LIMIT seconds, and look again."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    idle = {}
    for each in connections:
        if not hasattr(each, "cycle"):  # a WebSocket's
            continue
        unread = each.transport.get_write_buffer_size()
        # A kept connection has a timer until its next request begins, which ends it by itself. It
        # has none while the rest of a refused body comes, or after that.
        asked = each.cycle is not None and not each.cycle.response_complete
        if unread or not (asked or each.timeout_keep_alive_task):
            # Another request, or a byte that was read, is another key: its time begins anew.
            key = each, each.cycle, unread
            idle[key] = earlier.get(key, now)
    for (each, _, _), since in idle.items():
        if now - since >= LIMIT:
            each.transport.abort()  # close() would wait until the client has read all
    loop.call_later(LOOK, look, connections, idle)
