"""Write what language models read of the documentation, in the order of docs/README.md.

`python tools/write_llms.py` renews docs/llms.txt, the index: https://llmstxt.org. A test compares
what is committed with what this writes. `python tools/write_llms.py FOLDER` writes into the folder
of a built site: the index, llms-full.txt with all pages in one file, and each page as Markdown
under the name that the index has.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_ROW = re.compile(r"^\| (?P<kind>.*?) ?\| \[(?P<title>.+?)\]\((?P<page>.+?)\) \| (?P<what>.+) \|$")


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Of each page in docs/README.md: its kind, its title, its path, what it is for."""
    kind = ""
    for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines():
        if row := _ROW.match(line):
            kind = row["kind"] or kind
            yield kind, row["title"], row["page"], row["what"]


def index() -> str:
    """The text of llms.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = ["# Triptych", "", f"> {project['description']}", ""]
    lines += ["All pages in one file: [llms-full.txt](llms-full.txt)."]
    heading = ""
    for kind, title, page, what in rows():
        if kind != heading:
            lines += ["", f"## {kind}", ""]
            heading = kind
        lines.append(f"- [{title}]({page}): {what}")
    return "\n".join(lines) + "\n"


def full() -> str:
    """The text of llms-full.txt: each page after a line that names its file."""
    pages = [page for _, _, page, _ in rows()]
    texts = [(DOCS / page).read_text(encoding="utf-8").strip() for page in pages]
    return "\n\n".join(
        f"<!-- {page} -->\n\n{text}" for page, text in zip(pages, texts, strict=True)
    )


def main(arguments: list[str]) -> None:
    """Write the index, or everything into the folder that is named."""
    if not arguments:
        (DOCS / "llms.txt").write_text(index(), encoding="utf-8")
        return
    site = Path(arguments[0])
    for _, _, page, _ in rows():
        (site / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DOCS / page, site / page)
    (site / "llms.txt").write_text(index(), encoding="utf-8")
    (site / "llms-full.txt").write_text(full() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
