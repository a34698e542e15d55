"""What a store is capable of is said by the store, and asked of nobody else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from triptych.contracts import Capabilities
from triptych.contracts.defaults import Repositories
from triptych_backends.memory import MemoryStore

ROOT = Path(__file__).parents[1]
SOURCES = ("knowledge", "backends", "factory", "adapters")


def sources() -> Iterator[tuple[str, ast.Call | ast.ClassDef]]:
    """The classes and the calls of plain names, each with its module."""
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) or (
                    isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                ):
                    yield path.relative_to(ROOT).as_posix(), node


def test_no_protocol_is_asked_by_isinstance() -> None:
    """Interpreters differ in what it says of objects that wrap others."""
    nodes = list(sources())
    protocols = {
        node.name
        for _, node in nodes
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(b) for b in node.bases)
    }
    assert protocols > {"Embedder", "SettingsStore", "Store"}
    asked = {
        path
        for path, node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"isinstance", "issubclass"}
        and protocols & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    }
    assert asked == set()


class Wrapper:
    """An object that gives what another has."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_store_that_wraps_another_names_its_own_parts() -> None:
    with MemoryStore() as store:
        parts = {name: Wrapper(getattr(store, name)) for name in ("documents", "chunks", "layers")}
        found = attrs.asdict(Repositories.over(store, **parts).capabilities, recurse=False)
        for name, part in attrs.asdict(store.capabilities, recurse=False).items():
            if part in (store.documents, store.chunks, store.layers):
                assert found[name].inner is part, name
            else:
                assert type(found[name]) is type(part), name
        assert Repositories.over(store).documents is store.documents


def test_three_repositories_alone_can_do_nothing_beside() -> None:
    with MemoryStore() as store:
        alone = Repositories(documents=store.documents, chunks=store.chunks, layers=store.layers)
        assert alone.capabilities == Capabilities()
        assert alone.scrub() is None
