"""A whole deployment in a caller's hands: start, kill, pause and restart processes by name."""

import os
import shutil
import signal
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from deploy import strategy as strategies
from deploy.child import STOP_SECONDS, Child, raise_descriptor_limit, stop_all
from deploy.env_file import read_env_file
from deploy.plan import ROOT, Plan, PlannedProcess, make_plan
from deploy.prepare import COMMANDS, prepare
from deploy.stores import PostgresServer
from deploy.strategy import Strategy, fill_in

# Two idle cores need 5 s; a machine that needs more than this has another problem.
READY_SECONDS = 120.0
# All that a stack takes from the environment of the test run: nothing that changes behaviour.
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


class Stack:
    """A running deployment: `with Stack("asgi-hold") as stack: requests.get(stack.base_url)`.

    `database` is "sqlite" (a file of its own), "postgresql" (a cluster of its own, as `postgresql`
    on the stack) or an address. Without `redis_url` the process `redis` is the stack's own.
    `processes` starts only these (default: all), `live` the live page beside them. `inherited` is
    what the processes see of the caller's environment. Whatever fails, nothing is left running; the
    logs stay where `run_dir` was given and go where it was not.
    """

    def __init__(
        self,
        strategy: str | Strategy = "asgi-hold",
        *,
        database: str = "sqlite",
        redis_url: str = "",
        env: Mapping[str, str] | None = None,
        inherited: Mapping[str, str] | None = None,
        processes: Collection[str] | None = None,
        live: bool = False,
        run_dir: Path | None = None,
        port: int | None = None,
        commands: Sequence[str] = COMMANDS,
        ready_seconds: float = READY_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.strategy = strategies.load(strategy) if isinstance(strategy, str) else strategy
        self.database = database
        self.processes = processes
        here = {name: os.environ[name] for name in INHERITED if name in os.environ}
        self._make_plan = partial(
            make_plan,
            self.strategy,
            port=port,
            redis_url=redis_url,
            overrides=env,
            inherited=here if inherited is None else inherited,
            live=live,
        )
        self.commands = commands
        self.ready_seconds = ready_seconds
        self.stop_seconds = stop_seconds
        self.postgresql: PostgresServer | None = None
        self._run_dir = run_dir
        self._folder_is_ours = run_dir is None
        self._plan: Plan | None = None
        self._children: dict[str, Child] = {}

    def open(self) -> Self:
        """Make the stores, prepare, start all processes and wait until each is ready."""
        raise_descriptor_limit()
        try:
            self._run_dir = self._run_dir or Path(tempfile.mkdtemp(prefix="stack-"))
            self._plan = self._make_plan(run_dir=self._run_dir, database_url=self._database_url())
            self._children = {planned.name: self._child(planned) for planned in self._chosen()}
            prepare(self._plan, self.commands)
            self.start()
        except BaseException:
            self.close(graceful=False)
            raise
        return self

    def close(self, *, graceful: bool = True) -> None:
        """End everything: in order, or at once."""
        try:
            if graceful and self._plan is not None:
                self.stop()
        finally:
            for child in self._children.values():
                child.kill()
            if self.postgresql is not None:
                self.postgresql.close()
            if self._folder_is_ours and self._run_dir is not None:
                shutil.rmtree(self._run_dir, ignore_errors=True)
                self._run_dir = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: object, *_: object) -> None:
        self.close(graceful=kind is None)

    @property
    def plan(self) -> Plan:
        """Return what runs; RuntimeError before `open`."""
        if self._plan is None:
            raise RuntimeError("the stack has not been opened")
        return self._plan

    def _database_url(self) -> str:
        if self.database == "sqlite":
            return ""
        if self.database != "postgresql":
            return self.database
        self.postgresql = PostgresServer()
        self.postgresql.start()
        return self.postgresql.create_database("stack")

    def _chosen(self) -> list[PlannedProcess]:
        known = [planned.name for planned in self.plan.processes]
        if stray := set(self.processes or ()) - set(known):
            raise KeyError(f"{self.strategy.name} has no process {sorted(stray)}; it has {known}")
        wanted = known if self.processes is None else self.processes
        return [planned for planned in self.plan.processes if planned.name in wanted]

    def _child(self, planned: PlannedProcess) -> Child:
        return Child(
            planned.name,
            planned.command,
            log=self.plan.run_dir / f"{planned.name}.log",
            env=self.plan.environment,
            cwd=ROOT,
            stop_signal=planned.stop_signal,
        )

    def start(self, *names: str) -> None:
        """Start these processes (none named: all that don't run) and wait until they are ready."""
        chosen = [self._children[name] for name in names or self._children]
        chosen = [child for child in chosen if names or not child.running]
        for child in chosen:
            self.launch(child.name)
        for child in chosen:
            self.wait_ready(child.name)

    def launch(self, name: str) -> None:
        """Start a process without waiting for it."""
        (self.plan.run_dir / f"{name}.ready").unlink(missing_ok=True)
        self._children[name].start()

    def stop(self, *names: str) -> None:
        """Stop these processes gracefully (none named: all, what others need last)."""
        chosen = [self._children[name] for name in names or self._children]
        backing = {planned.name for planned in self.plan.processes if planned.backing}
        stop_all([child for child in chosen if child.name not in backing], self.stop_seconds)
        stop_all([child for child in chosen if child.name in backing], self.stop_seconds)

    def change_environment(self, changes: Mapping[str, str]) -> None:
        """Change the environment of every process from its next start on; `env` stays as it was."""
        for child in self._children.values():
            child.env = {**self.plan.environment, **changes}

    def restart(self, name: str) -> None:
        """Stop a process gracefully, start it again and wait until it is ready."""
        self.stop(name)
        self.start(name)

    def kill(self, name: str, number: int = signal.SIGKILL, *, leader_only: bool = False) -> None:
        """Send a signal to a process and all its workers (or to it alone); SIGKILL also waits."""
        child = self._children[name]
        if number == signal.SIGKILL and not leader_only:
            child.kill()
        else:
            child.signal(number, leader_only=leader_only)

    def reload(self, what: str) -> None:
        """Do what `[reload]` of strategy.toml says for `app` or `front`."""
        match self.strategy.reload[what].split():
            case ["signal", process, name]:
                self.kill(process, signal.Signals[f"SIG{name}"], leader_only=True)
            case ["touch", path]:
                Path(fill_in(path, self.env)).touch()

    def pause(self, name: str) -> None:
        """Freeze a process and all its workers."""
        self.kill(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        self.kill(name, signal.SIGCONT)

    def wait_ready(self, name: str, seconds: float | None = None) -> None:
        """Wait until the process is ready; NotReadyError has the end of its log."""
        question = next(item.readiness for item in self.plan.processes if item.name == name)
        self._children[name].wait_ready(question, seconds or self.ready_seconds)

    @property
    def base_url(self) -> str:
        """Return the address that clients use, without `/api/v2`."""
        return f"http://127.0.0.1:{self.env['PORT']}"

    @property
    def env(self) -> Mapping[str, str]:
        """Return the environment of all processes."""
        return self.plan.environment

    @property
    def accounts(self) -> dict[str, str]:
        """Return the demo accounts' keys: PUBLIC_KEY, SECRET_KEY, PUBLIC_KEY_2, SECRET_KEY_2."""
        return read_env_file(Path(self.env["ACCOUNTS_FILE"]))

    @property
    def public_key(self) -> str:
        """Return the first account's user name."""
        return self.accounts["PUBLIC_KEY"]

    @property
    def secret_key(self) -> str:
        """Return the first account's password."""
        return self.accounts["SECRET_KEY"]

    @property
    def names(self) -> list[str]:
        """Return the names of the processes, in the order of their start."""
        return list(self._children)

    def pid(self, name: str) -> int:
        """Return the process id of a server itself, not of a shell around it."""
        return self._children[name].pid

    def running(self, name: str) -> bool:
        """Say whether a process lives."""
        return self._children[name].running

    def cause_of_death(self, name: str) -> str:
        """Return how a process has ended, an empty string while it runs."""
        return self._children[name].cause_of_death()

    def log(self, name: str) -> str:
        """Return all that a process has printed."""
        path = self._children[name].log
        return path.read_text(errors="replace") if path.exists() else ""
