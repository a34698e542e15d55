"""What language models read of the documentation is what there is: tools/write_llms.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "tools/write_llms.py", folder], check=True)
    return folder


def test_the_index_is_the_one_that_the_tool_writes(site: Path) -> None:
    committed = (DOCS / "llms.txt").read_bytes()
    assert (site / "llms.txt").read_bytes() == committed, "python tools/write_llms.py"


def test_the_index_leads_to_every_page_as_markdown(site: Path) -> None:
    links = re.findall(r"^- \[.+?\]\((.+?)\): ", (site / "llms.txt").read_text(), re.MULTILINE)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"README.md"}
    assert sorted(links) == sorted(pages)
    assert [
        page for page in links if (site / page).read_bytes() != (DOCS / page).read_bytes()
    ] == []


def test_the_full_text_has_every_page_once_in_the_order_of_the_index(site: Path) -> None:
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[.+?\]\((.+?)\): ", (site / "llms.txt").read_text(), re.MULTILINE)
    assert re.findall(r"^<!-- (\S+\.md) -->$", full, re.MULTILINE) == links
    for page in links:
        assert full.count((DOCS / page).read_text(encoding="utf-8").strip()) == 1
