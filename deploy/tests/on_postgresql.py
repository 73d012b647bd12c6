"""`make test-postgresql`: run a command on an empty PostgreSQL of its own.

    python -m deploy.tests.on_postgresql COMMAND …

Ends with the command's exit code; with 2 where PostgreSQL isn't installed.
"""

import os
import subprocess
import sys

from deploy.stores import PostgresServer, StoreMissingError


def main() -> int:
    """Run it with DATABASE_URL set; return the exit code."""
    try:
        server = PostgresServer()
    except StoreMissingError as error:
        print(error, file=sys.stderr)
        return 2
    with server:
        url = server.create_database("command")
        done = subprocess.run(sys.argv[1:], env=os.environ | {"DATABASE_URL": url}, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
