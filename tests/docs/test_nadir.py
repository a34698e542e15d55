"""The reference pages for other systems: each row names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from triptych_testing import failures

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / f"docs/reference/{name}.md" for name in ("nadir", "gofastr", "pgedge", "go-rag")]
KIT = ROOT / "knowledge/triptych_testing"
_CHECKED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
ROWS = [
    line
    for page in PAGES
    for line in page.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.endswith("| checked by |")
]


@cache
def named_tests(file: str) -> frozenset[str]:
    folder, _, rest = file.partition("/")
    path = KIT / rest if folder == "kit" else ROOT / "tests" / file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, kinds))


def _names_a_test(row: str) -> None:
    *_, differs, checked = (cell.strip() for cell in row.strip("|").split(" | "))
    if differs == "not yet":
        assert checked == "–", row
        return
    found = _CHECKED.findall(checked)
    assert found, row
    for file, name in found:
        assert name in named_tests(file), f"{file}::{name}"


def test_every_row_names_a_test_that_exists() -> None:
    assert failures(ROWS, _names_a_test) == []
