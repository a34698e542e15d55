"""What a store is capable of is asked in one place."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import attrs

import triptych
import triptych.contracts
from triptych.repositories import Repositories, capabilities_of
from triptych_backends.memory import MemoryStore

ROOT = Path(triptych.__file__).parents[2]
SOURCES = ("knowledge", "backends", "factory", "adapters")
ONLY = "knowledge/triptych/repositories.py"
OF_REPOSITORIES = {
    "AnswerCache",
    "ChunkRepo",
    "ChunkSigReader",
    "CorpusStatsReader",
    "Diagnostics",
    "DocLevelSearcher",
    "DocVectorSearcher",
    "DocumentRepo",
    "LayerJournal",
    "LayerRepo",
    "SecureEraser",
    "SettingsStore",
    "SnapshotReader",
    "StateLoader",
    "Store",
    "VersionReader",
}


@cache
def sources() -> dict[str, list[ast.Call | ast.ClassDef]]:
    """The classes and the calls of plain names in each module."""
    return {
        path.relative_to(ROOT).as_posix(): [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ClassDef)
            or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
        ]
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
    }


def asking(functions: set[str], names: set[str]) -> set[str]:
    """The modules that call one of ``functions`` with one of ``names``."""
    return {
        path
        for path, nodes in sources().items()
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in functions
        if names & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    }


def test_whether_a_store_has_a_capability_is_asked_in_one_module_only() -> None:
    assert set(triptych.contracts.__all__) >= OF_REPOSITORIES
    assert asking({"isinstance", "issubclass", "conforms", "first"}, OF_REPOSITORIES) == {ONLY}


def test_no_protocol_is_asked_by_isinstance() -> None:
    """Interpreters differ in what it says of objects that wrap others."""
    protocols = {
        node.name
        for nodes in sources().values()
        for node in nodes
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(b) for b in node.bases)
    }
    assert protocols > {"CoverageEmbedder", "SettingsStore", "StoreRetriever"}
    assert asking({"isinstance", "issubclass"}, protocols) == set()


class Wrapper:
    """An object that gives what another has."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_store_that_wraps_another_can_do_what_the_other_can() -> None:
    with MemoryStore() as store:
        of_its_own = attrs.asdict(capabilities_of(store), recurse=False)
        parts: Any = {
            name: Wrapper(getattr(store, name)) for name in ("documents", "chunks", "layers")
        }
        found = attrs.asdict(capabilities_of(Repositories(**parts)), recurse=False)
        for name, part in of_its_own.items():
            if part in (store.documents, store.chunks, store.layers):
                assert found[name].inner is part, name
        found = attrs.asdict(capabilities_of(Wrapper(store)), recurse=False)  # type: ignore[arg-type]  # by `__getattr__`
        assert {name for name, part in found.items() if part is None} == {"listener"}
