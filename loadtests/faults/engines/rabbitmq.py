"""A RabbitMQ of our own: one node, all of it on loopback and in one folder."""

import os
import shlex
import shutil
from collections.abc import Mapping

from deploy.child import Child
from deploy.ports import free_ports
from deploy.stores import START_SECONDS, Server, StoreMissingError

RABBITMQ_INSTALL = "apt-get install rabbitmq-server  |  brew install rabbitmq"
# Debian's command on PATH is a wrapper that changes to a user who may not enter our folder.
PLACES = ("/usr/lib/rabbitmq/bin", os.environ.get("PATH", ""), "/usr/sbin", "/opt/homebrew/sbin")
# The node speaks with others on loopback only; its schedulers sleep instead of spinning.
ERLANG = "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none"


class RabbitServer(Server):
    """A RabbitMQ with a port mapper of its own; its queues outlast its processes."""

    def __init__(self) -> None:
        program = shutil.which("rabbitmq-server", path=os.pathsep.join(PLACES))
        if program is None:
            raise StoreMissingError(f"no rabbitmq-server; install: {RABBITMQ_INSTALL}")
        super().__init__()
        mapper, distribution = free_ports(2)
        environment = self._environment(mapper, distribution)
        log = self.folder / "rabbitmq.log"
        self.child = Child("rabbitmq", shlex.quote(program), log=log, env=environment)
        # Erlang would start one as a daemon, which stays.
        line = f"epmd -address 127.0.0.1 -port {mapper}"
        self.mapper = Child("epmd", line, log=self.folder / "epmd.log", env=environment)
        self._mapper_port = mapper

    def _environment(self, mapper: int, distribution: int) -> Mapping[str, str]:
        folder = str(self.folder)
        return {
            "PATH": os.environ["PATH"],
            "HOME": folder,  # Erlang's cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(mapper),
            "RABBITMQ_NODENAME": f"ours{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_BASE": folder,
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/env.conf",  # not the system's
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
        }

    @property
    def url(self) -> str:
        """Return its address; RabbitMQ lets its guest in from loopback only."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start it and wait until it takes clients; it has what it had before."""
        if not self.mapper.running:
            self.mapper.start()
            self.mapper.wait_ready(f"port 127.0.0.1:{self._mapper_port}", START_SECONDS)
        self.child.start()
        self.child.wait_ready(f"port 127.0.0.1:{self.port}", START_SECONDS)

    def crash(self) -> None:
        """Kill the node, and start it again with what it has written."""
        self.child.kill()
        self.start()

    def close(self) -> None:
        """Kill both and remove the folder."""
        self.mapper.kill()
        super().close()
