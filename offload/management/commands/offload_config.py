"""`manage.py offload_config nginx-accel`: print a whole configuration of a front."""

import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from offload import conf

TEMPLATES = Path(__file__).resolve().parents[2] / "configurations"
# By what is asked for: the template, and which of its marked lines belong to it.
KINDS = {
    "nginx-accel": ("nginx.conf.in", "accel"),
    "nginx-njs": ("nginx.conf.in", "njs"),
    "held.js": ("held.js", ""),
    "uwsgi": ("uwsgi.ini.in", ""),
    "uwsgi-nginx": ("nginx.conf.in", "uwsgi"),
    "asgi": ("asgi.py.in", ""),
}
# Seconds over the longest hold until a front gives up: the app answers first.
MARGIN = 30


class Command(BaseCommand):
    """Print it; nothing is written and nothing is started."""

    help = "Print a complete configuration of a front that holds clients."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=KINDS)
        parser.add_argument("--listen", default="127.0.0.1:8000", help="where clients connect")
        parser.add_argument("--app", default="127.0.0.1:8001", help="where Django listens")
        parser.add_argument("--hub", default="127.0.0.1:8100", help="where the hub listens")
        parser.add_argument(
            "--internal", default="127.0.0.1:8002", help="where uWSGI answers the hub's requests"
        )

    def handle(self, *, kind: str, listen: str, app: str, hub: str, internal: str, **_: Any) -> str:
        wsgi = settings.WSGI_APPLICATION or "mysite.wsgi.application"
        asgi = getattr(settings, "ASGI_APPLICATION", None) or wsgi.replace("wsgi", "asgi")
        values = {
            "KIND": kind,
            "BACKEND": KINDS[kind][1],
            "LISTEN": listen,
            "APP": app,
            "HUB": hub,
            "HUB_BIND": hub,
            "INTERNAL": internal,
            "TIMEOUT": f"{conf.current().deadline + MARGIN:.0f}",
            "WSGI": ":".join(wsgi.rsplit(".", 1)),
            "ASGI": ":".join(asgi.rsplit(".", 1)),
            "SETTINGS": settings.SETTINGS_MODULE,
        }
        return fill_in(kind, values).rstrip()


def fill_in(kind: str, values: dict[str, str]) -> str:
    """Return the kind's template with its own lines and these values.

    A line that begins with `@accel,njs ` belongs to these two. `include offload/<name>;` stands for
    that file. `${NAME}` in capitals is a value, and so is `$(NAME)`; `${name}` is the front's own.
    """
    template, mark = KINDS[kind]
    lines: list[str] = []
    for line in (TEMPLATES / template).read_text().splitlines():
        marked = re.match(r"@([a-z,]+) (.*)", line)
        if marked and mark not in marked[1].split(","):
            continue
        own = marked[2] if marked else line
        included = re.fullmatch(r"( *)include offload/(\S+);", own)
        if included:
            fragment = (TEMPLATES / included[2]).read_text().removeprefix("[uwsgi]\n")
            lines += [(included[1] + each).rstrip() for each in fragment.splitlines()]
        else:
            lines.append(own)
    text = "\n".join(lines) + "\n"
    return re.sub(r"\$[{(]([A-Z_]+)[)}]", lambda name: values[name[1]], text)
