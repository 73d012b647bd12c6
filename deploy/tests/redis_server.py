"""A Redis for tests."""

from deploy.child import Child
from deploy.stores import START_SECONDS, Server, redis_command


class RedisServer(Server):
    """A redis-server on a free port, without persistence."""

    def __init__(self) -> None:
        super().__init__()
        log = self.folder / "redis.log"
        self.child = Child("redis", redis_command(self.port, self.folder, log), log=log)

    @property
    def url(self) -> str:
        """Return its address, database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        self.child.start()
        self.child.wait_ready(f"redis {self.url}", START_SECONDS)
