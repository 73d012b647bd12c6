"""What the README and the pages tell to type is typed here.

Blocks marked `console` and `python` are run; those marked `sh` need an engine or a server of the
reader's own, and say so.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from deploy.env_file import write_env_file
from deploy.plan import ROOT
from deploy.stack import Stack
from deploy.tests.fixtures import absent

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

FENCE = re.compile(r"^```(console|python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Commands that a test of their own runs, and which would run themselves here.
ELSEWHERE = {
    "make run": "deploy/tests/test_make_run.py",
    "make test": "this is it",
    "make demo": "deploy/tests/test_demo.py",
}
ENV = {"SIMULATOR_LATENCY_TORTOISE": "3", "WEB_WORKERS": "1", "WORKER_CONCURRENCY": "20"}


def blocks(page, kind):
    return [body for found, body in FENCE.findall((ROOT / page).read_text()) if found == kind]


def commands(page):
    """Return each command of a page's console blocks, with its continued lines."""
    text = "\n".join(blocks(page, "console"))
    return [part.strip() for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part.strip()]


PAGES = ["README.md", "docs/api.md", "docs/operations.md", "CONTRIBUTING.md"]
TYPED = [(page, command) for page in PAGES for command in commands(page)]
# The README's is a part of one: deploy/tests/test_readme.py.
PROGRAMS = [(page, code) for page in PAGES[1:] for code in blocks(page, "python")]


@pytest.fixture(scope="module")
def stack():
    with Stack("asgi-hold", env=ENV) as stack:
        yield stack


@pytest.fixture
def environment(stack, tmp_path):
    """Return what the commands see; the keys are in a file, too, as `make run` writes it."""
    keys = {"PUBLIC_KEY": stack.public_key, "SECRET_KEY": stack.secret_key}
    (tmp_path / ".run").mkdir()
    write_env_file(tmp_path / ".run" / "demo.env", {**keys, "BASE_URL": stack.base_url})
    here = {"BASE_URL": stack.base_url, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return {**os.environ, **keys, **here, "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}


def test_there_is_something_to_run():
    assert len(commands("README.md")) >= 3
    assert len(commands("docs/api.md")) >= 4
    assert len(blocks("docs/api.md", "python")) >= 3


def test_nobody_types_a_remark():
    """A Mac's zsh, where a person types, takes it for words and runs what stands in backquotes."""
    lines = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    typed = [*(command for _, command in TYPED), *lines]
    assert [line for line in typed if " # " in line or "  #" in line] == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(("page", "command"), TYPED, ids=[f"{p}: {c[:40]}" for p, c in TYPED])
def test_a_command_does_what_it_should(page, command, shell, environment, tmp_path):
    if command.startswith("make "):
        check_make_target(command)
        return
    if not shutil.which(shell):
        absent(shell, f"apt-get install {shell}")
    done = subprocess.run(
        [shell, "-euo", "pipefail", "-c", command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if command.startswith("curl"):
        assert "error" not in json.loads(done.stdout)


def check_make_target(command):
    """Say whether make knows it; what is behind it has a test of its own."""
    done = subprocess.run(
        f"make --dry-run {command.removeprefix('make ')}".split(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    where = ELSEWHERE.get(command, "")
    assert not where.endswith(".py") or (ROOT / where).exists(), where


@pytest.mark.parametrize(("page", "code"), PROGRAMS, ids=[p for p, _ in PROGRAMS])
def test_a_program_runs(page, code, environment, tmp_path):
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["offload/README.md"])
def test_names_in_a_library_s_page_exist(page):
    """Its blocks are fragments; that they parse, and that what they import is there, is checked."""
    import offload

    for code in blocks(page, "python"):
        compile(code, page, "exec")
    assert {"hold", "release"} <= set(offload.__all__)
