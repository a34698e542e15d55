"""How the packages import each other: without cycles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import grimp

from support.packages import PACKAGES

ROOT = Path(__file__).parents[1]


def cycles(graph: grimp.ImportGraph) -> Iterator[set[str]]:
    """The strongly connected components of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> Iterator[set[str]]:
        index[module] = low[module] = len(index)
        path.append(module)
        for imported in graph.find_modules_directly_imported_by(module):
            if imported not in index:
                yield from visit(imported)
                low[module] = min(low[module], low[imported])
            elif imported in path:
                low[module] = min(low[module], index[imported])
        if low[module] == index[module]:
            start = path.index(module)
            found, path[start:] = set(path[start:]), []
            if len(found) > 1:
                yield found

    for module in sorted(graph.modules):
        if module not in index:
            yield from visit(module)


def test_a_cycle_is_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in ("ab", "bc", "cb", "ca", "cd", "de"):
        graph.add_import(importer=importer, imported=imported)
    assert list(cycles(graph)) == [{"a", "b", "c"}]


def test_there_is_no_import_cycle() -> None:
    # Imports for the type checker alone count, as do those inside functions.
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    assert [sorted(cycle) for cycle in cycles(graph)] == []


def test_few_modules_stand_beside_the_packages() -> None:
    beside = [path.name for path in (ROOT / "knowledge/triptych").glob("*.py")]
    assert len(beside) <= 12, beside


def test_packages_list_their_names_and_modules_do_not() -> None:
    lists = [
        path.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.glob("*/triptych*/**/*.py"))
        if path.name != "__init__.py"
        and re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert lists == [
        "backends/triptych_backends/sql/deferred.py",  # it passes SQLAlchemy's names on
        "knowledge/triptych/errors.py",  # the list is read
        "knowledge/triptych/layers/prompts.py",  # it passes names on
    ]
