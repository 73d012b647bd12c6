"""`python -m deploy.live`: what `make run` starts beside the servers.

All comes from the environment: LIVE_PORT, BIND_HOST, DEMO, LIVE_SECRET, and what
describes the stack (see deploy/strategies).
"""

import os

import uvicorn

from deploy.child import raise_descriptor_limit
from deploy.live.access import Access
from deploy.live.app import Live
from deploy.live.target import Target


def main() -> None:
    """Serve until a signal comes."""
    raise_descriptor_limit()
    access = Access(demo=os.environ.get("DEMO") == "1", secret=os.environ.get("LIVE_SECRET", ""))
    # The stack whose launcher has started this process.
    live = Live(access, [Target(dict(os.environ), lambda: [os.getppid()])])
    config = uvicorn.Config(
        live.app(),
        host=os.environ.get("BIND_HOST", "127.0.0.1"),
        port=int(os.environ["LIVE_PORT"]),
        access_log=False,
        log_level="warning",
        # What still goes on after a second is cut.
        timeout_graceful_shutdown=1,
        # Nobody stands in front who could say truly who the client is.
        proxy_headers=False,
        server_header=False,
    )
    server = uvicorn.Server(config)
    live.ending = lambda: server.should_exit
    server.run()


if __name__ == "__main__":
    main()
