"""What is done once before the processes start: configuration files, migrations, demo accounts."""

import shutil
import time
from collections.abc import Sequence

from deploy.child import Child
from deploy.plan import ROOT, Plan
from deploy.strategy import fill_in

COMMANDS = ('python manage.py demo_account --migrate --env-file "$ACCOUNTS_FILE"',)
# Migrations take 3 s on SQLite; a hung database is noticed after this.
COMMAND_SECONDS = 120
# Bytes: less than the tables alone take.
ROOM = 1_000_000


class PrepareError(RuntimeError):
    """A step before the start failed; the message has its output."""


def prepare(plan: Plan, commands: Sequence[str] = COMMANDS) -> None:
    """Write the configuration files, forget old readiness, and run the commands in order."""
    render_templates(plan)
    (plan.run_dir / "static").mkdir(exist_ok=True)  # STATIC_ROOT: WhiteNoise warns without it
    # Readiness and counts of processes that are gone.
    for stale in [*plan.run_dir.glob("*.ready"), *plan.run_dir.glob("metrics/*.db")]:
        stale.unlink()
    log = plan.run_dir / "prepare.log"
    for command in commands:
        log.unlink(missing_ok=True)
        child = Child(f"`{command}`", command, log=log, env=plan.environment, cwd=ROOT)
        child.start()
        end = time.monotonic() + COMMAND_SECONDS
        try:
            failed = child.wait(COMMAND_SECONDS)
        finally:
            child.kill()
        if failed:
            late = f"{child.name} took over {COMMAND_SECONDS} s" if time.monotonic() >= end else ""
            said = [f"{late or child.cause_of_death()}:", child.log_tail()]
            if shutil.disk_usage(plan.run_dir).free < ROOM:  # then its log is empty
                said.append(f"The disk is full: {plan.run_dir}")
            raise PrepareError("\n".join(filter(None, said)))


def render_templates(plan: Plan) -> None:
    """Write each `<name>.in` of the strategy's folder to `<run_dir>/<name>`, filled in."""
    for template in plan.strategy.templates:
        target = plan.run_dir / template.name.removesuffix(".in")
        target.write_text(fill_in(template.read_text(), plan.environment, str(template)))
