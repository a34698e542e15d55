"""Build the site of the documentation into build/site, and check it: `make docs` runs this.

Whatever the generator or one of its parts remarks is an error. In the pages that it wrote, every
link within the site must lead to a page and an anchor that exist, and every name of the API must
be there: the generator checks what Markdown says; this, what a reader gets.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
API = ROOT / "docs" / "reference" / "api"
_REMARK = re.compile(r"^(?:\x1b\[[0-9;]*m)*(?:warning|error|griffe|mkdocstrings|\w+error)\b", re.I)


class Page(HTMLParser):
    """A page's links and anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def dead_links(site: Path) -> list[str]:
    """The links within ``site`` that lead nowhere, each as ``page: link``."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    dead = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists() or (
                anchor and target in pages and anchor not in pages[target].anchors
            ):
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def missing_names(site: Path, api: Path) -> list[str]:
    """The names that the pages in ``api`` announce and those of ``site`` do not have."""
    shown = {
        anchor
        for path in (site / "reference" / "api").rglob("*.html")
        for anchor in Page(path).anchors
    }
    text = "".join(path.read_text(encoding="utf-8") for path in api.glob("*.md"))
    return [name for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE) if name not in shown]


def remarks(log: str) -> list[str]:
    """The lines of the generator's log that warn of something."""
    return [line for line in log.splitlines() if _REMARK.match(line)]


def main() -> None:
    """Build, print what is wrong, and exit with 1 if anything is."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    built = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    wrong = [
        *([f"the generator ended with {built.returncode}"] if built.returncode else []),
        *(f"remark: {each}" for each in remarks(built.stdout)),
        *(f"dead link: {each}" for each in dead_links(SITE)),
        *(f"not in the API reference: {each}" for each in missing_names(SITE, API)),
    ]
    if wrong:
        print(built.stdout, *wrong, sep="\n", file=sys.stderr)
    print(f"build/site: {len(list(SITE.rglob('*.html')))} pages, {len(wrong)} errors")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
