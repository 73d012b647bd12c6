import sys

import pytest

from offload.tests.processes import Process, answers_at, free_port, until

pytestmark = pytest.mark.integration


@pytest.fixture
def example(redis_server, started):
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "offload.example.slow:application"]
    started(
        Process(
            *(*command, "--port", str(port), "--log-level", "warning"),
            environment={"REDIS_URL": redis_server.url},
        )
    )
    until(lambda: answers_at(port), what="the example")
    return f"http://127.0.0.1:{port}/slow"


@pytest.mark.parametrize(
    ("wait", "status", "state"), [("30", 200, "done"), ("0.2", 202, "working")]
)
async def test_the_readme_s_example(http, example, wait, status, state):
    async with http.get(example, params={"wait": wait}) as response:
        assert (response.status, await response.json()) == (status, {"state": state})
