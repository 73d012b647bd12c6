"""Serve the live page by uvicorn."""

import uvicorn

from deploy.live.app import Live


def server(live: Live, host: str, port: int) -> uvicorn.Server:
    """Return the server; `serve()` is a coroutine, `run()` blocks."""
    config = uvicorn.Config(
        live.app(),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        # A stream of events has no end of its own: it is cut after a second.
        timeout_graceful_shutdown=1,
        # Nobody stands in front who could say truly who the client is.
        proxy_headers=False,
        server_header=False,
    )
    return uvicorn.Server(config)
