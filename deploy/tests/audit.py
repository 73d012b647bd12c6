"""`make audit`: are there known holes in what is locked? Offline it says so and ends well.

A missing network must not stop a person's work; in CI a look that did not happen is a failure, or
it would be taken for a clean one. But where the index is a mirror that has no advisories at all, no
rerun finds them: CI says so and goes on (docs/adr/0025-an-index-without-advisories.md).
"""

import os
import subprocess
import sys
from pathlib import Path

# What is developed with, and what is installed on demand, too.
LOCKS = sorted(Path(__file__).resolve().parents[2].glob("requirements*.txt"))
# A package whose advisories aren't there within this is a network that isn't there.
SECONDS = 120
UNREACHABLE = (
    *("ConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries", "NewConnectionError"),
    *("NameResolutionError", "ProxyError", "SSLError", "HTTPError", "ServiceError", "Timeout"),
)
# pip-audit's words for a package whose advisories its source hasn't got; it ends with 0 then.
UNSEEN = "could not be audited"
# An index that hasn't this one's advisories has none.
SURELY_KNOWN = "django"


def main() -> int:
    """Run pip-audit over the locks; return the exit status."""
    locks = [word for lock in LOCKS for word in ("--requirement", str(lock))]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip_audit", *locks, "--disable-pip", "--require-hashes",
             "--progress-spinner", "off"],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return skipped("no answer in time")
    return verdict(done.returncode, done.stdout, done.stderr)


def verdict(status: int, found: str, errors: str) -> int:
    """Print what was found and return the exit status: not 0 for a hole and for a bug."""
    if status and not found and any(word in errors for word in UNREACHABLE):
        return skipped(errors.strip().splitlines()[-1][:200])
    unseen = sorted(line.split()[0] for line in found.splitlines() if UNSEEN in line)
    if unseen and not status:
        why = f"{len(unseen)} of the packages, first {unseen[0]}"
        if SURELY_KNOWN in unseen:
            print(f"audit skipped, the index has no advisories: {why}")
            return 0
        return skipped(why)
    print(f"{found}{errors}".rstrip(), file=sys.stderr if status else sys.stdout)
    return status


def skipped(why: str) -> int:
    """Say that nothing was looked up; return 0, and in CI 1."""
    print(f"audit skipped, the advisories can't be reached: {why}")
    return 1 if os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
