"""deploy/setup.sh with a component that nobody has, and an apt-get that is made up."""

import os
import re
import subprocess

import pytest

from deploy.plan import ROOT

APT = """#!/bin/sh
echo "$*" >> "$FOLDER/apt.log"
case "$*" in
install*) [ -z "${APT_WORKS:-}" ] || cp "$FOLDER/id" "$FOLDER/unheard-of" ;;
esac
[ -n "${APT_WORKS:-}" ]
"""


@pytest.fixture
def setup(tmp_path):
    """Run the script with one component only, which is missing."""
    text = (ROOT / "deploy" / "setup.sh").read_text()
    before, _, rest = text.partition("COMPONENTS='\n")
    _, _, after = rest.partition("\n'\n")
    row = "unheard-of|has unheard-of|unheard-of-package|unheard-of-formula|its tests"
    script = tmp_path / "deploy" / "setup.sh"
    script.parent.mkdir()
    script.write_text(f"{before}COMPONENTS='\n{row}\n'\n{after}")

    def run(user, **environment):
        tools = {"apt-get": APT, "id": f"#!/bin/sh\necho {user}\n"}
        for name, script in tools.items():
            (tmp_path / name).write_text(script)
            (tmp_path / name).chmod(0o755)
        path = f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin"
        return subprocess.run(
            ["bash", "deploy/setup.sh"],
            cwd=tmp_path,
            env={"PATH": path, "FOLDER": str(tmp_path), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_plain_user_is_told_what_is_skipped_and_how_to_install_it(setup, tmp_path):
    done = setup(1000)
    assert done.returncode == 0
    assert "unheard-of    skipped without it: its tests" in done.stdout
    assert "sudo apt-get install unheard-of-package" in done.stdout
    assert not (tmp_path / "apt.log").exists()


def test_it_looks_in_its_own_project_from_any_folder(tmp_path):
    """A bjoern of another one is none of ours; nginx' njs module is found by a script beside it."""
    for name, script in {"setup.sh": None, "base/nginx/njs.sh": "echo there"}.items():
        target = tmp_path / "deploy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(script or (ROOT / "deploy" / name).read_text())
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["bash", str(tmp_path / "deploy" / "setup.sh"), "--list"],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    states = dict(line.split("|")[:2] for line in done.stdout.splitlines())
    assert (states["bjoern"], states["njs"]) == ("missing", "there")


def test_a_mac_is_told_lines_that_its_shell_runs(tmp_path):
    """What Homebrew doesn't have is in no line, casks have one of their own."""
    text = (ROOT / "deploy" / "setup.sh").read_text()
    (tmp_path / "deploy").mkdir()
    script = tmp_path / "deploy" / "setup.sh"
    script.write_text(re.sub(r"(?m)^([a-z0-9]+)\|[^|]+\|", r"\1|false|", text))
    for name, script in {"brew": 'echo "$*" >>brew.log', "id": "echo 1000"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    line = "bash deploy/setup.sh | sed -n 's/^Install with: //p' | sh"
    subprocess.run(["sh", "-c", line], cwd=tmp_path, env=path, check=True, timeout=60)
    formulae, casks = (tmp_path / "brew.log").read_text().splitlines()
    assert formulae.startswith("install docker-compose haproxy kubectl libev nginx ")
    assert casks == "install --cask chromedriver chromium docker"


def test_a_plain_user_s_bjoern_is_compiled_where_its_header_is(setup, tmp_path):
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/pip.log\n[ "$1" != -c ]\n')
    python.chmod(0o755)
    script = tmp_path / "deploy" / "setup.sh"
    with_libev = "\nhas_libev() { :; }\nhas_chromium"
    script.write_text(script.read_text().replace("\nhas_chromium", with_libev))
    setup(1000)
    assert "--require-hashes -r requirements-bjoern.txt" in (tmp_path / "pip.log").read_text()


def test_in_ci_a_missing_component_is_a_failure(setup):
    done = setup(1000, CI="true")
    assert done.returncode == 1
    assert "nothing may be missing" in done.stderr


def test_nothing_happens_when_all_is_there(setup, tmp_path):
    (tmp_path / "unheard-of").write_text("#!/bin/sh\n")
    (tmp_path / "unheard-of").chmod(0o755)
    done = setup(0, CI="true")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "apt.log").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="forbids services to start, which needs root")
@pytest.mark.parametrize(("works", "code"), [("1", 0), ("", 1)])
def test_root_installs_what_is_missing(setup, tmp_path, works, code):
    done = setup(0, CI="true", APT_WORKS=works)
    assert done.returncode == code, done
    calls = (tmp_path / "apt.log").read_text()
    assert "install -y -qq --no-install-recommends unheard-of-package" in calls
    assert ("update" in calls) is (not works)


def test_each_package_that_a_message_names_is_installed_by_the_script():
    """A test that lacks something names its package: on a new machine, in CI, it must be there."""
    named = set()
    for folder in ("deploy", "loadtests", "shipping", "parcels", "offload"):
        for path in (*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("strategy.toml")):
            if path.name not in ("test_setup.py", "test_strategy.py", "test_venv.py"):
                for packages in re.findall(
                    r"apt-get install ([a-z0-9. -]*[a-z0-9])", path.read_text()
                ):
                    named.update(packages.split())
    rows = (ROOT / "deploy" / "setup.sh").read_text().partition("COMPONENTS='\n")[2]
    installed = {
        name for row in rows.split("\n'\n")[0].splitlines() for name in row.split("|")[2].split()
    }
    assert len(named) > 10
    assert named - installed == set()
