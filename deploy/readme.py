"""Write the README's list of strategies from their folders: `python -m deploy.readme`."""

import re

from deploy import strategy as strategies
from deploy.plan import ROOT

README = ROOT / "README.md"
SECTION = re.compile(r"(<!-- strategies -->\n).*?(<!-- /strategies -->)", re.DOTALL)


def table() -> str:
    """Return all strategies by family: who waits, and which there are."""
    rows = ["| Family | Strategies |", "|---|---|"]
    loaded = [strategies.load(name) for name in strategies.names()]
    for family in strategies.FAMILIES:
        links = [
            f"[{item.name}](deploy/strategies/{item.name})"
            for item in loaded
            if item.family == family
        ]
        rows.append(f"| {family} | {', '.join(links)} |")
    return "\n".join(rows) + "\n"


def written(text: str) -> str:
    """Return the text with its list as the folders have it now."""
    return SECTION.sub(lambda match: match.group(1) + table() + match.group(2), text)


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
