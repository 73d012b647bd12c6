"""docs/operations.md lists every variable that is read, and no other."""

import ast
import re
from collections.abc import Iterator

from django.conf import settings

READERS = {"settings.py", "live.py"}


def named(argument: ast.expr) -> str:
    """Return a variable's name; what is filled in stands as <CODE>."""
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    assert isinstance(argument, ast.JoinedStr)
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "<CODE>" for part in argument.values
    )


def read_by_the_code() -> Iterator[str]:
    for name in READERS:
        for node in ast.walk(ast.parse((settings.BASE_DIR / "shipping" / name).read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "env"
            ):
                yield named(node.args[0])


def listed() -> Iterator[str]:
    text = (settings.BASE_DIR / "docs" / "operations.md").read_text()
    table = text.partition("## Environment")[2].partition("\n## ")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            yield from re.findall(r"`([A-Z_<>]+)`", line.split("|")[1])


def test_the_table_is_what_the_code_reads() -> None:
    read, told = set(read_by_the_code()), list(listed())
    assert len(read) > 30
    assert sorted(set(told)) == sorted(read)
    assert len(told) == len(set(told))


def test_no_other_module_of_the_project_reads_the_environment() -> None:
    """Otherwise the table would lie without a test that says so."""
    reading = {
        path.name
        for path in (settings.BASE_DIR / "shipping").glob("*.py")
        if "env." in path.read_text() and "import env" in path.read_text()
    }
    assert reading <= READERS
