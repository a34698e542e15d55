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
_PAGE = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<page>[\w/.-]+\.md)\)")


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Of each page, where docs/README.md first names it: section, title, path, what it is for.

    The pages of the API follow their index, whose rows have the link first.
    """
    seen = set()
    for section, title, page, what in _links(DOCS / "README.md"):
        if page in seen:
            continue
        seen.add(page)
        yield section, title, page, what
        if page == "reference/api/README.md":
            for _, name, below, says in _links(DOCS / page):
                yield section, name, f"reference/api/{below}", says


def _links(index: Path) -> Iterator[tuple[str, str, str, str]]:
    section = ""
    for line in index.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif cells := re.fullmatch(r"\| (.+?) \| (.+) \|", line):
            what, read = cells.groups()
            if _PAGE.match(what):
                what, read = read, what
            for link in _PAGE.finditer(read):
                yield section, link["title"], link["page"], what


def index() -> str:
    """The text of llms.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = ["# Triptych", "", f"> {project['description']}", ""]
    lines += ["All pages in one file: [llms-full.txt](llms-full.txt)."]
    heading = ""
    for section, title, page, what in rows():
        if section != heading:
            lines += ["", f"## {section}", ""]
            heading = section
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
