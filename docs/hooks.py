"""What the pages take from elsewhere: MkDocs' hooks (mkdocs.yml).

A strategy is described in its folder and offload in its own; here they become pages without a
copy. Links between them are followed to where they stand on disk: one to a page becomes a link to
the page, one to any other file its path, and one to nothing stops the build. So does an excerpt of
code that isn't there any more: `{{ file | its first line | number of lines }}`.

Mermaid's source becomes a picture, and a report's long tables are folded.
"""

import logging
import re
import textwrap
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify
from merm import render_diagram
from mkdocs.structure.files import File, Files

from deploy import strategy as strategies
from deploy.plan import ROOT

log = logging.getLogger("mkdocs.plugins.hooks")

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
EXCERPT = re.compile(r"^\{\{ (\S+) \| (.+) \| (\d+) \}\}$", re.MULTILINE)
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A heading and all that belongs to it but its pictures.
SECTION = r"(<h{0}.*?</h{0}>)(.*?)(?=<h[1-6]|<p><img|\Z)"
ELSEWHERE = ("http:", "https:", "mailto:")
# The theme's switch for dark pages fails without the style sheets that `highlightjs: false` leaves
# out: https://github.com/mkdocs/mkdocs/issues/4045
SHEETS = '<template id="hljs-light"></template><template id="hljs-dark"></template>'


def on_config(config: Any) -> Any:
    """Let no heading's id begin with a digit, at which the theme's scripts fail."""
    config.mdx_configs["toc"] = {
        "slugify": lambda text, separator: re.sub(r"^(?=\d)", "_", slugify(text, separator))
    }
    return config


def borrowed() -> dict[str, Path]:
    """Return the pages that stand outside docs/, by their address in the site."""
    pages = {
        f"strategies/{path.parent.name}.md": path
        for path in sorted(strategies.STRATEGIES.glob("*/README.md"))
    }
    offload = ROOT / "offload"
    pages |= {f"offload/{path.stem}.md": path for path in sorted((offload / "docs").glob("*.md"))}
    pages |= {"offload/security.md": offload / "SECURITY.md"}
    pages |= {"offload/changes.md": offload / "CHANGELOG.md"}
    return pages | {
        "strategies/how-to-add-one.md": strategies.STRATEGIES / "README.md",
        "offload.md": ROOT / "offload" / "README.md",
        "simulator.md": ROOT / "carriers" / "simulator" / "README.md",
        "changelog.md": ROOT / "CHANGELOG.md",
        "contributing.md": ROOT / "CONTRIBUTING.md",
    }


def strategy_table() -> str:
    """Return the list of all strategies, from their folders."""
    rows = ["| Strategy | What it is | Family | Backend |", "|---|---|---|---|"]
    for name in strategies.names():
        strategy = strategies.load(name)
        page = f"[{name}]({name}.md)" if (strategy.folder / "README.md").exists() else name
        rows.append(f"| {page} | {strategy.title} | {strategy.family} | `{strategy.backend}` |")
    return "# Strategies\n\n" + "\n".join(rows) + "\n"


def decision_list() -> str:
    """Return the list of decisions, from the records' own titles."""
    rows = []
    for path in sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        rows.append(f"- [{title}]({path.name})")
    return "# Decisions\n\n" + "\n".join(rows) + "\n"


def excerpt(file: str, first: str, count: int) -> str:
    """Return `count` lines of a file of ours, from the one that begins with `first`.

    Raises:
        ValueError: it is not there, or several are.
    """
    lines = (ROOT / file).read_text().splitlines()
    places = [place for place, line in enumerate(lines) if line.strip().startswith(first)]
    if len(places) != 1:
        raise ValueError(f"{file}: {len(places)} lines begin with {first!r}")
    text = textwrap.dedent("\n".join(lines[places[0] : places[0] + count]))
    return re.sub(r" +# noqa: .*", "", text)  # the linter's business


def _quoted(match: re.Match[str]) -> str:
    file, first = match[1], match[2].replace("\\|", "|")
    return f"`{file}`\n\n```python\n{excerpt(file, first, int(match[3]))}\n```"


def on_files(files: Files, *, config: Any) -> Files:
    """Add the borrowed and the generated pages."""
    for address, path in borrowed().items():
        if path.exists():
            files.append(File.generated(config, address, abs_src_path=str(path)))
    files.append(File.generated(config, "strategies/index.md", content=strategy_table()))
    files.append(File.generated(config, "adr/index.md", content=decision_list()))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Follow the links of a page from where it really stands."""
    pages = {path.resolve(): address for address, path in borrowed().items()}
    docs = Path(config.docs_dir)
    pages |= {path.resolve(): str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    # These lists have no file: a link is to the folder.
    pages |= {strategies.STRATEGIES: "strategies/index.md", docs / "adr": "adr/index.md"}
    address = page.file.src_uri
    home = borrowed().get(address, docs / address).parent
    followed = LINK.sub(lambda match: _followed(match, home, address, pages), markdown)
    return DIAGRAM.sub(_drawn, EXCERPT.sub(_quoted, followed))


def _drawn(match: re.Match[str]) -> str:
    # Its size is for its own page; the stylesheet gives it ours, and its colours.
    size = r' width="[^"]*" height="[^"]*" style="[^"]*"'
    drawn = re.sub(size, "", render_diagram(match[1]), count=1)
    # Markdown ends a block of HTML at an empty line.
    one_line = " ".join(drawn.split())
    return f'<div class="diagram">{one_line}</div>'


def on_page_content(html: str, *, page: Any, config: Any, files: Files) -> str:
    """Fold a report's sections, at the deepest level that it has: pictures and headings stay."""
    if not page.file.src_uri.endswith("report.md"):
        return html
    section = SECTION.format(3 if "<h3" in html else 2)
    folded = r"<details><summary>\1</summary>\2</details>"
    return re.sub(section, folded, html, flags=re.DOTALL)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Give the theme's switch for dark pages what it wants."""
    return output.replace("</head>", f"{SHEETS}</head>", 1)


def _followed(match: re.Match[str], home: Path, address: str, pages: dict[Path, str]) -> str:
    text, target, anchor = match.group(1), match.group(2), match.group(3) or ""
    if target.startswith(ELSEWHERE) or address in ("strategies/index.md", "adr/index.md"):
        return match.group()
    path = (home / target).resolve()
    there = pages.get(path) or pages.get(path / "README.md")
    if there:
        up = "../" * address.count("/")
        return f"[{text}]({up}{there}{anchor})"
    if path.exists() and path.is_relative_to(ROOT):
        if path.is_relative_to(ROOT / "docs"):
            return match.group()  # a picture or a report, which is copied along
        return f"{text} (`{path.relative_to(ROOT)}`)"
    log.warning("%s: %s leads nowhere", address, target)
    return match.group()
