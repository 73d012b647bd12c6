import stat
import subprocess

from deploy.env_file import read_env_file, write_env_file

AWKWARD = {"PLAIN": "abc", "QUOTED": "it's $HOME; `ls`", "EQUALS": "a=b==", "EMPTY": "",
           "LINES": "one # 1\ntwo=2"}  # fmt: skip


def test_what_was_written_is_read(tmp_path):
    write_env_file(tmp_path / "demo.env", AWKWARD)
    assert read_env_file(tmp_path / "demo.env") == AWKWARD


def test_a_shell_reads_the_same(tmp_path):
    write_env_file(tmp_path / "demo.env", AWKWARD)
    script = '. ./demo.env; printf "%s|%s|%s|%s|%s" "$PLAIN" "$QUOTED" "$EQUALS" "$EMPTY" "$LINES"'
    shell = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert shell.stdout == "|".join(AWKWARD.values())


def test_only_the_owner_reads_keys(tmp_path):
    write_env_file(tmp_path / "demo.env", AWKWARD)
    assert stat.S_IMODE((tmp_path / "demo.env").stat().st_mode) == 0o600


def test_an_absent_file_is_empty_and_comments_are_no_values(tmp_path):
    assert read_env_file(tmp_path / "absent.env") == {}
    (tmp_path / "commented.env").write_text("# A=1\nB=2  # two\n")
    assert read_env_file(tmp_path / "commented.env") == {"B": "2"}
