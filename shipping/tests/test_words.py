"""The glossary's words, and none of those that it replaces, in what people read."""

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

ROOT = settings.BASE_DIR
PAGES = ("*.md", "**/*.html", "deploy/*.txt", "deploy/live/page/words.js", "*.toml")
# These lines of code are read here; of the others only the messages.
PACKAGES = ("offload/", "carriers/", "parcels/", "shipping/")
LEFT_OUT = (
    ":!docs/glossary.md",
    ":!**/tests/**",
    # What a run has printed, or a release has said, stays as it was.
    *(":!CHANGELOG.md", ":!**/CHANGELOG.md", ":!docs/benchmarks/2026-*"),
)
ROW = re.compile(r"^\| (?P<words>[a-z, -]+) \| [^|]+ \|$", re.MULTILINE)
CODE = re.compile(r"`[^`]*`")


def replaced_words() -> list[str]:
    _, _, table = (ROOT / "docs" / "glossary.md").read_text().partition("## Not these")
    return [word for row in ROW.finditer(table) for word in row["words"].split(", ")]


def wrong_words(text: str) -> list[str]:
    words = "|".join(replaced_words())
    return re.findall(rf"\b(?:{words})\b", CODE.sub("", text), re.IGNORECASE)


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", *patterns, *LEFT_OUT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in done.stdout.split()]


def prose(code: str, *, comments: bool) -> Iterator[str]:
    """Yield messages, and comments and docstrings if asked for: names and keys have no blank."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        kind = tokenize.tok_name[token.type]
        is_message = kind.startswith(("STRING", "FSTRING")) and " " in token.string
        is_docstring = token.string.startswith('"""')
        if (is_message and not is_docstring) or (comments and (is_message or kind == "COMMENT")):
            yield token.string


def test_pages_have_the_glossary_s_words() -> None:
    pages = tracked(*PAGES)
    assert len(pages) > 100
    named = {str(page) for page in pages}
    assert {"README.md", "docs/api.md", "offload/README.md", "docs/adr/0001-pyuwsgi.md"} <= named
    found = {page: wrong_words((ROOT / page).read_text()) for page in pages}
    assert {page: words for page, words in found.items() if words} == {}


def test_code_has_the_glossary_s_words() -> None:
    files = tracked("*.py")
    assert len(files) > 300
    found = {}
    for file in files:
        texts = prose((ROOT / file).read_text(), comments=str(file).startswith(PACKAGES))
        found[file] = wrong_words("\n".join(texts))
    assert {file: words for file, words in found.items() if words} == {}


def test_a_replaced_word_is_seen() -> None:
    assert len(replaced_words()) > 8
    assert wrong_words("The client is Parked at the door.") == ["Parked", "door"]


@pytest.mark.parametrize(
    ("code", "comments", "seen"),
    [
        ('help = "Parks held clients."', False, 1),
        ('raise CommandError(f"{name} is parked")', False, 1),
        ('"""It is parked."""', True, 1),
        ('"""It is parked."""', False, 0),
        ("x = 1  # parked", True, 1),
        ('parked = row["parked"]', True, 0),
        ('"""Wait for `patience` seconds."""', True, 0),
    ],
)
def test_a_replaced_word_in_code_is_seen(code: str, comments: bool, seen: int) -> None:
    assert len(wrong_words("\n".join(prose(code, comments=comments)))) == seen
