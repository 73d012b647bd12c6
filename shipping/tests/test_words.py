"""The glossary's words, and none of those that it replaces, in what people read."""

from __future__ import annotations

import re
import subprocess

from django.conf import settings

ROOT = settings.BASE_DIR
READ = (
    *("*.md", "**/*.md", "**/*.html", "deploy/*.txt", ":!docs/glossary.md", ":!**/CHANGELOG.md"),
    # What a run has printed stays as it was printed.
    *(":!CHANGELOG.md", ":!docs/benchmarks/2026-*", ":!docs/faults"),
)
ROW = re.compile(r"^\| (?P<words>[a-z, ]+) \| [^|]+ \|$", re.MULTILINE)


def replaced_words() -> list[str]:
    _, _, table = (ROOT / "docs" / "glossary.md").read_text().partition("## Not these")
    return [word for row in ROW.finditer(table) for word in row["words"].split(", ")]


def wrong_words(text: str) -> list[str]:
    return re.findall(rf"\b(?:{'|'.join(replaced_words())})\b", text, re.IGNORECASE)


def test_what_people_read_has_the_glossary_s_words() -> None:
    files = subprocess.run(
        ["git", "ls-files", *READ], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(files) > 50
    found = {file: wrong_words((ROOT / file).read_text()) for file in files}
    assert {file: words for file, words in found.items() if words} == {}


def test_a_replaced_word_is_seen() -> None:
    assert len(replaced_words()) > 8
    assert wrong_words("The client is Parked at the door.") == ["Parked", "door"]
