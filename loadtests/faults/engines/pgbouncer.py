"""A PgBouncer of our own in transaction mode, before a PostgreSQL."""

import shlex
import shutil
from pathlib import Path

from deploy.child import Child
from deploy.stores import (
    START_SECONDS,
    PostgresServer,
    Server,
    StoreMissingError,
    postgresql_user,
)

PGBOUNCER_INSTALL = "apt-get install pgbouncer  |  brew install pgbouncer"
# Fewer connections to the server than our processes open: each transaction gets another one.
SERVER_CONNECTIONS = 8
CONFIGURATION = """[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = {connections}
{more}
"""


class PgBouncer(Server):
    """What stands between an application and many connections; closing it leaves the cluster.

    `more` is what else stands in its configuration.
    """

    def __init__(
        self,
        cluster: PostgresServer,
        *,
        connections: int = SERVER_CONNECTIONS,
        more: str = "",
    ) -> None:
        program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/opt/homebrew/bin")
        if program is None:
            raise StoreMissingError(f"no pgbouncer; install: {PGBOUNCER_INSTALL}")
        super().__init__()
        file = self.folder / "pgbouncer.ini"
        file.write_text(
            CONFIGURATION.format(
                server=cluster.port, port=self.port, connections=connections, more=more
            )
        )
        user = postgresql_user()  # it refuses root, too
        if user:
            for path in (self.folder, file):
                shutil.chown(path, user)
        log = self.folder / "pgbouncer.log"
        line = shlex.join([program, str(file)])
        self.child = Child("pgbouncer", line, log=log, cwd=Path("/"), user=user)

    @property
    def url(self) -> str:
        """Return the address of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it and wait until it takes clients."""
        self.child.start()
        self.child.wait_ready(f"port 127.0.0.1:{self.port}", START_SECONDS)
