"""What a server process has loaded before its first client comes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import importlib, socket, sys
made = []
socket.socket.connect = lambda self, address: made.append(address)
importlib.import_module(sys.argv[1])
assert "shipping.urls" in sys.modules, "the views come with the first request"
assert not made, f"a connection to {made} would be shared by all forks"
"""


@pytest.mark.parametrize("entry", ["shipping.wsgi", "shipping.asgi"])
def test_the_views_are_there_before_the_first_request(entry: str) -> None:
    subprocess.run(
        [sys.executable, "-c", LOOK, entry], cwd=ROOT, env={**os.environ, "DEBUG": "1"}, check=True
    )
