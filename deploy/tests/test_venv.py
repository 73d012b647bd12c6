"""deploy/venv.sh with interpreters that are made up: what it picks, and what it says."""

import os
import shutil
import subprocess

import pytest

from deploy.plan import ROOT

# Answers venv.sh's questions as a Python of that version would; `-m venv` makes one that
# answers them, too, and notes what pip is told.
FAKE = """#!/bin/sh
case "$*" in
*"print("*) echo {version} ;;
*"< (3, 11)"*) exit {too_old} ;;
*ensurepip*) exit {lacks_venv} ;;
*">= (3, 13)"*) exit {lacks_redis} ;;
"-m venv --clear .venv") mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
"-m pip --version") ;;
"-m pip install"*) echo "$*" >> pip.log; exit ${{PIP_FAILS:-0}} ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "a checkout"
    (folder / "deploy").mkdir(parents=True)
    (folder / "bin").mkdir()
    shutil.copy(ROOT / "deploy" / "venv.sh", folder / "deploy")
    (folder / "requirements.txt").write_text("a==1\n")
    (folder / "requirements-redis.txt").write_text("c==1\n")
    (folder / "requirements-dev.txt").write_text("b==1\n")
    program(folder, "uname", "echo Linux x86_64")
    for tool in ("sh", "dirname", "cmp", "cp", "touch", "mkdir", "cat"):
        os.symlink(shutil.which(tool) or tool, folder / "bin" / tool)
    return folder


def python(folder, name, version, *, venv=True):
    minor = int(version.partition(".")[2])
    program = folder / "bin" / name
    program.write_text(
        FAKE.format(
            version=version,
            too_old=int(minor < 11),
            lacks_venv=int(not venv),
            lacks_redis=int(minor >= 13),
        )
    )
    program.chmod(0o755)


def program(folder, name, line):
    (folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
    (folder / "bin" / name).chmod(0o755)


def venv(folder, kind="runtime", **environment):
    return subprocess.run(
        ["/bin/sh", "deploy/venv.sh", kind],
        cwd=folder,
        env={"PATH": str(folder / "bin"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def pip_calls(folder):
    log = folder / "pip.log"
    return log.read_text().splitlines() if log.exists() else []


def test_python3_is_taken_when_it_will_do(checkout):
    python(checkout, "python3", "3.12")
    assert "Making .venv with Python 3.12" in venv(checkout).stdout
    assert pip_calls(checkout)[0].endswith("-r requirements.txt -r requirements-redis.txt")


def test_an_old_python3_and_shims_are_passed_over(checkout):
    python(checkout, "python3", "3.9")
    for shim in ("python3.13", "python3.12"):
        program(checkout, shim, "echo no such version >&2; exit 127")
    python(checkout, "python3.11", "3.11")
    assert "with Python 3.11" in venv(checkout).stdout


def test_one_that_brings_a_redis_is_preferred_where_there_is_none(checkout):
    python(checkout, "python3", "3.13")
    python(checkout, "python3.12", "3.12")
    assert "with Python 3.12" in venv(checkout).stdout


@pytest.mark.parametrize("system", ["Linux aarch64", "Darwin arm64"])
def test_none_brings_a_redis_where_there_is_no_wheel_of_it(checkout, system):
    program(checkout, "uname", f"echo {system}")
    python(checkout, "python3", "3.13")
    python(checkout, "python3.12", "3.12")
    assert "with Python 3.13" in venv(checkout).stdout


def test_a_newer_one_will_do_where_there_is_a_redis_or_no_choice(checkout):
    python(checkout, "python3", "3.13")
    assert "with Python 3.13" in venv(checkout).stdout
    shutil.rmtree(checkout / ".venv")
    python(checkout, "python3.12", "3.12")
    assert "with Python 3.13" in venv(checkout, REDIS_URL="redis://x").stdout


def test_without_any_the_error_says_what_to_install(checkout):
    python(checkout, "python3", "3.9")
    done = venv(checkout)
    assert done.returncode == 1
    assert "Python 3.11 or newer is needed (python3 here: 3.9)" in done.stderr
    assert "apt-get install python3 python3-venv" in done.stderr
    assert "brew install" in done.stderr


def test_without_its_venv_module_the_error_names_the_package(checkout):
    python(checkout, "python3", "3.11", venv=False)
    done = venv(checkout)
    assert done.returncode == 1
    assert "sudo apt-get install python3.11-venv" in done.stderr


def test_packages_are_installed_again_only_when_the_lock_changes(checkout):
    python(checkout, "python3", "3.12")
    venv(checkout)
    venv(checkout)
    assert len(pip_calls(checkout)) == 1
    (checkout / "requirements.txt").write_text("a==2\n")
    venv(checkout)
    assert len(pip_calls(checkout)) == 2
    assert (checkout / ".venv" / "runtime.stamp").exists()


def test_a_failed_install_is_tried_again(checkout):
    python(checkout, "python3", "3.12")
    failed = venv(checkout, PIP_FAILS="1")
    assert failed.returncode == 1
    assert not (checkout / ".venv" / "runtime.stamp").exists()
    assert venv(checkout).returncode == 0
    assert len(pip_calls(checkout)) == 2


def test_development_packages_come_on_top(checkout):
    python(checkout, "python3", "3.12")
    venv(checkout, "dev")
    assert pip_calls(checkout)[0].endswith("-r requirements-redis.txt -r requirements-dev.txt")
    assert (checkout / ".venv" / "runtime.stamp").exists()
    assert (checkout / ".venv" / "dev.stamp").exists()


def test_a_virtual_environment_that_broke_is_made_anew(checkout):
    python(checkout, "python3", "3.12")
    venv(checkout)
    (checkout / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 127\n")
    assert "Making .venv" in venv(checkout).stdout


def test_make_notices_that_its_python_is_gone(checkout):
    """A newer one has taken its place: the link in .venv leads nowhere, and no lock has changed."""
    shutil.copy(ROOT / "Makefile", checkout)
    python(checkout, "python3", "3.12")
    make = [shutil.which("make") or "make", "doctor"]
    for _ in range(2):
        done = subprocess.run(
            make,
            cwd=checkout,
            env={"PATH": str(checkout / "bin")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Making .venv" in done.stdout
        (checkout / ".venv" / "bin" / "python").unlink()
