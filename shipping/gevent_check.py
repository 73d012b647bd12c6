"""A partly patched process works until its first slow carrier, then it blocks: check at the
start."""

import select
import socket
import threading

from django.core.exceptions import ImproperlyConfigured


def require_gevent() -> None:
    """Raise ImproperlyConfigured unless sockets, locks and psycopg's waiting are gevent's."""
    from gevent import monkey

    modules = ("socket", "ssl", "select", "threading", "time", "queue")
    missing = [name for name in modules if not monkey.is_module_patched(name)]
    # What was imported before the patch keeps the original in its own namespace.
    if not socket.socket.__module__.startswith("gevent"):
        missing.append("socket.socket")
    if not type(threading.Lock()).__module__.startswith("gevent"):
        missing.append("threading.Lock")
    if hasattr(select, "epoll"):  # psycopg's C code waits by epoll unless gevent has taken it away
        missing.append("select.epoll")
    if missing:
        raise ImproperlyConfigured(
            f"gevent has not patched {', '.join(missing)}: patch before anything is imported "
            "(uWSGI: gevent-early-monkey-patch; gunicorn: the first lines of its configuration)"
        )
