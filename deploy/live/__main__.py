"""`python -m deploy.live`: what `make run` starts beside the servers.

All comes from the environment: LIVE_PORT, BIND_HOST, DEMO, LIVE_SECRET, and what
describes the stack (see deploy/strategies).
"""

import os

import uvicorn

from deploy.child import raise_descriptor_limit
from deploy.live.access import Access
from deploy.live.app import Live
from deploy.live.server import configuration
from deploy.live.target import from_environment


def main() -> None:
    """Serve until a signal comes."""
    raise_descriptor_limit()
    access = Access(demo=os.environ.get("DEMO") == "1", secret=os.environ.get("LIVE_SECRET", ""))
    host = os.environ.get("BIND_HOST", "127.0.0.1")
    live = Live(access, [from_environment()])
    uvicorn.Server(configuration(live, host, int(os.environ["LIVE_PORT"]))).run()


if __name__ == "__main__":
    main()
