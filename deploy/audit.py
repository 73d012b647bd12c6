"""`make audit`: are there known holes in what is locked? Offline it says so and ends well.

A missing network must not stop a person's work; in CI a look that did not happen is a failure, or
it would be taken for a clean one.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "requirements.txt"
# A package whose advisories aren't there within this is a network that isn't there.
SECONDS = 120
UNREACHABLE = (
    *("ConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries", "NewConnectionError"),
    *("NameResolutionError", "ProxyError", "SSLError", "HTTPError", "ServiceError", "Timeout"),
)


def main() -> int:
    """Run pip-audit over the lock; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pip_audit", "--requirement", str(LOCK), "--disable-pip",
                 "--require-hashes", "--progress-spinner", "off", "--format", "json",
                 "--output", str(report)],
                capture_output=True, text=True, timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return skipped("no answer in time")
        return verdict(report.read_text() if report.exists() else "", done.stderr)


def verdict(report: str, errors: str) -> int:
    """Print what was found and return the exit status: 1 for a hole and for a bug."""
    if not report:
        if any(word in errors for word in UNREACHABLE):
            return skipped(errors.strip().splitlines()[-1][:200])
        print(errors, file=sys.stderr)
        return 1
    packages = json.loads(report)["dependencies"]
    holes = [(package, hole) for package in packages for hole in package.get("vulns", [])]
    for package, hole in holes:
        fixed = ", ".join(hole["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {hole['id']}, fixed in {fixed}")
    print(f"{len(packages)} packages, {len(holes)} known holes")
    return 1 if holes else 0


def skipped(why: str) -> int:
    """Say that nothing was looked up; return 0, and in CI 1."""
    print(f"audit skipped, the advisories can't be reached: {why}")
    return 1 if os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
