"""What runs in a container: one process of a strategy, its health checks, or a command.

    python -m deploy.container run web
    python -m deploy.container health web       # can it serve?
    python -m deploy.container alive web        # does it answer at all? The stores may be away
    python -m deploy.container reload
    python -m deploy.container exec python manage.py migrate

The strategy's folder is the only place that says how a process is started. Here each process has
a machine of its own: APP_HOST is where the front finds the app, for web the address to listen on.
Passwords come from files and go into the addresses that need them, never onto a command line.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psutil

from deploy import strategy as strategies
from deploy.child import direct, raise_descriptor_limit
from deploy.plan import READINESS, ROOT, SIZES, check_sizes, front_values
from deploy.readiness import NotReadyError, wait_until_ready, why_not_ready
from deploy.strategy import Strategy, fill_in

BASE = ROOT / "deploy" / "base"
# Files that configurations include, and where they lie below the run directory.
SHARED = {BASE: "base", ROOT / "offload" / "configurations": "configurations"}
# Where no front belongs to the strategy, this one makes several web containers one address.
PLAIN_FRONT = "sh deploy/base/nginx/start.sh nginx.conf"
# The sweeper writes its file after each good round, each second; thirty missed are a stand-still.
SWEEPER_SECONDS = 30.0
# A new container's start, on a busy machine; and a name that appears with its first container.
START_SECONDS = 120.0
# Over the 150 s after which nginx ends its former workers (worker_shutdown_timeout).
FORMER_SECONDS = 160.0
# For what is left in the pipe; a grandchild that outlives its parent keeps it open.
LAST_LINES_SECONDS = 2.0
# Of what nginx' errors say of a request: not the client, the address and its query, the referrer.
NGINX_CONTEXT = re.compile(r', (?:request: "[A-Z]+|upstream: "\w+://[^/"?\s]+)')
DEFAULTS = {**SIZES, "LIVE_URL": ""}  # no live page
PASSWORDS = {"DATABASE_URL": "DATABASE_PASSWORD_FILE", "REDIS_URL": "REDIS_PASSWORD_FILE"}


def has_front(strategy: Strategy) -> bool:
    """Say whether the strategy brings a front of its own, with the app behind it."""
    return "front" in strategy.processes


def environment_of(
    strategy: Strategy, process: str, outside: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the complete environment of one process."""
    given = {name: value for name, value in outside.items() if value}
    chosen = {"PROJECT_DIR": str(ROOT), "OFFLOAD_BACKEND": strategy.backend, **given}
    if process == "web":
        if "BIND_TOWARDS" in chosen:
            chosen["BIND_HOST"] = address_towards(chosen["BIND_TOWARDS"])
        # The health check asks by it.
        chosen["ALLOWED_HOSTS"] = f"{chosen.get('ALLOWED_HOSTS', '')},{chosen['BIND_HOST']}"
        chosen["APP_HOST"] = chosen["BIND_HOST"]
        chosen["PORT"] = chosen["PORT" if has_front(strategy) else "APP_PORT"]
    for name, file in PASSWORDS.items():
        if file in chosen:
            chosen[name] = with_password(chosen[name], Path(chosen[file]).read_text().strip())
    for name, value in strategy.environment.items():
        if name not in chosen:
            chosen[name] = fill_in(value, chosen, strategy.name)
    app = f"{chosen['APP_HOST']}:{chosen['APP_PORT']}"
    chosen = DEFAULTS | {"OFFLOAD_RESOLVE_URL": f"http://{app}/_offload/answers"} | chosen
    check_sizes(strategy, chosen)
    return front_values(chosen) | chosen


def address_towards(neighbour: str) -> str:
    """Return the address of this machine on the network of `host:port`; nothing is sent there."""
    host, _, port = neighbour.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))
        return str(probe.getsockname()[0])


def addresses_of(host: str) -> list[str]:
    """Return the addresses of all containers of that name; wait until there is one."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return sorted(socket.gethostbyname_ex(host)[2])
        except OSError as error:
            if time.monotonic() > end:
                raise NotReadyError(f"{host} has no address: {error}") from None
            time.sleep(1)


def with_password(url: str, password: str) -> str:
    """Return the address with that password; its user stays. What is no address, as it is."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    login = f"{parts.username or ''}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{place}"))


def render(strategy: Strategy, process: str, environment: Mapping[str, str]) -> None:
    """Write the configuration files to the run directory, behind a proxy that ends TLS."""
    run_dir = Path(environment["RUN_DIR"])
    for folder, name in SHARED.items():
        for shared in folder.rglob("*"):
            if shared.suffix not in (".conf", ".ini", ".js"):
                continue
            target = run_dir / name / shared.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = shared.read_text().replace("PROTO $scheme;", "PROTO $client_scheme;")
            if shared.name == "http.conf":
                text += (BASE / "front" / "tls_proxy.conf").read_text()
            target.write_text(text)
    plain = process == "front" and not has_front(strategy)
    for template in [BASE / "front" / "nginx.conf.in"] if plain else strategy.templates:
        text = template.read_text()
        for folder, name in SHARED.items():
            ours = f"${{PROJECT_DIR}}/{folder.relative_to(ROOT)}"
            text = text.replace(f"{ours}/", f"${{RUN_DIR}}/{name}/")
        filled = fill_in(text, environment, str(template))
        (run_dir / template.name.removesuffix(".in")).write_text(filled)
    proxies = environment.get("TRUSTED_PROXIES", "").replace(",", " ").split()
    # The app's word for a Unix socket, which this front doesn't listen on.
    networks = [network for network in proxies if network != "unix"]
    (run_dir / "trusted_proxies.conf").write_text("".join(f"{one} 1;\n" for one in networks))
    addresses = "".join(f"set_real_ip_from {one};\n" for one in networks)
    (run_dir / "real_addresses.conf").write_text(addresses)


def line_and_signal(strategy: Strategy, process: str) -> tuple[str, int]:
    """Return the shell line of a process, and the signal that ends it gracefully."""
    if process == "front" and not has_front(strategy):
        return PLAIN_FRONT, signal.SIGQUIT
    return strategy.processes[process], strategy.stop_signal(process)


def run(strategy: Strategy, process: str) -> int:
    """Run a process and return what it ended with.

    It hears the container's SIGTERM as the signal that ends it gracefully.
    """
    environment = environment_of(strategy, process)
    run_dir = Path(environment["RUN_DIR"])
    (run_dir / "static").mkdir(parents=True, exist_ok=True)
    ready = run_dir / f"{process}.ready"
    ready.unlink(missing_ok=True)
    if process == "web" and strategy.backend == "uwsgi":
        # Its offload threads look no name up. A hub that is made anew has another address, which
        # web knows after its own restart; clients get the 202 until then.
        host, _, port = environment["HUB_BIND"].rpartition(":")
        environment["HUB_BIND"] = f"{random.choice(addresses_of(host))}:{port}"
    render(strategy, process, environment)
    raise_descriptor_limit()  # Kubernetes has no setting for it, and some engines begin with 1,024
    line, ending = line_and_signal(strategy, process)
    child = subprocess.Popen(
        ["/bin/sh", "-c", direct(line)],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: child.send_signal(ending))
    plain = environment.get("LOG_FORMAT") == "line"
    log = threading.Thread(target=pass_on, args=(child.stdout, process, plain), daemon=True)
    log.start()
    code = child.wait()
    log.join(LAST_LINES_SECONDS)
    ready.unlink(missing_ok=True)
    return code if code >= 0 else 128 - code


def pass_on(lines: Iterable[bytes], process: str, plain: bool) -> None:
    """Print what a process logs, each line a JSON object: servers have words of their own.

    Of requests only the method and the node that was asked: addresses and queries have names.
    """
    for line in lines:
        text = line.decode(errors="replace").rstrip()
        if process == "front":  # nginx
            text, _, rest = text.partition(", client: ")
            text += "".join(f'{each}"' for each in NGINX_CONTEXT.findall(rest))
        if not (plain or text.startswith("{")):
            text = json.dumps({"event": text, "logger": process})
        print(text, file=sys.stderr, flush=True)


def reload_front(strategy: Strategy) -> None:
    """Have nginx use the containers that APP_HOST and HUB_BIND name now, if all of them are well.

    NotReadyError, and all stays as it was, if one is not. Returns when nginx' former workers have
    answered their last clients, by the containers they knew: these can be stopped then.
    """
    environment = environment_of(strategy, "front")
    port = environment["APP_PORT"]
    kind = "uwsgi " if has_front(strategy) else "GET http://"
    questions = [f"{kind}{one}:{port}/readyz" for one in addresses_of(environment["APP_HOST"])]
    if "hub" in strategy.processes:
        host, _, port = environment["HUB_BIND"].rpartition(":")
        questions += [f"GET http://{one}:{port}/healthz" for one in addresses_of(host)]
    for question in questions:
        wait_until_ready(question, seconds=START_SECONDS)
    render(strategy, "front", environment)
    nginx = psutil.Process(int((Path(environment["RUN_DIR"]) / "nginx.pid").read_text()))
    former = nginx.children()
    nginx.send_signal(signal.SIGHUP)
    if psutil.wait_procs(former, timeout=FORMER_SECONDS)[1]:
        raise NotReadyError("nginx has not taken it: see its log")


def why_ill(strategy: Strategy, process: str, page: str = "/readyz") -> str:
    """Return what is wrong with this container's process; empty when it is well.

    `page` is what web is asked for.
    """
    environment = environment_of(strategy, process)
    if process == "sweeper":
        path = Path(environment["RUN_DIR"]) / "sweeper.ready"
        if not path.exists():
            return f"{path} has not been written"
        age = time.time() - path.stat().st_mtime
        return "" if age < SWEEPER_SECONDS else f"the last good round was {age:.0f} s ago"
    if process == "web" and has_front(strategy):
        question = f"uwsgi ${{APP_HOST}}:${{APP_PORT}}{page}"
    else:
        host = environment["BIND_HOST"] if process == "web" else "127.0.0.1"
        question = READINESS.get(process, f"GET http://{host}:${{PORT}}{page}")
    return why_not_ready(fill_in(question, environment, process))


def main(arguments: list[str]) -> int:
    """Do what the command line says; see the module's docstring."""
    strategy = strategies.load(os.environ["STRATEGY"])
    match arguments:
        case ["run", process]:
            return run(strategy, process)
        case ["health" | "alive" as question, process]:
            page = "/readyz" if question == "health" else "/healthz"
            reason = why_ill(strategy, process, page)
            print(reason or "well")
            return 1 if reason else 0
        case ["reload"]:
            try:
                reload_front(strategy)
            except (NotReadyError, OSError) as error:
                print(f"the front is as it was: {error}", file=sys.stderr)
                return 1
            return 0
        case ["exec", program, *rest]:
            os.chdir(ROOT)
            os.execvpe(program, [program, *rest], environment_of(strategy, "exec"))  # noqa: S606 # as typed
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
