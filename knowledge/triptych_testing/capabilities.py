"""Tests that a store's declared capabilities match its methods.

That the methods keep their contracts is for the tests of each capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args, get_type_hints

import attrs

from triptych.contracts import Capabilities, Store
from triptych.records import sparse
from triptych_testing.builders import CONFIG, SPARSE, fill, sparse_of
from triptych_testing.harness import HarnessTests


def lacking(part: object, contract: type) -> set[str]:
    """Those members of ``contract``, a Protocol, that ``part`` has not."""
    members = {name for kind in contract.__mro__ for name in vars(kind) if name[0] != "_"}
    return {name for name in members if getattr(part, name, None) is None}


def _contracts() -> Mapping[str, type]:
    """The contract of each capability."""
    return {name: get_args(hint)[0] for name, hint in get_type_hints(Capabilities).items()}


def _keeps_sparse(store: Store) -> bool:
    fill(store, "d", {"a": "text"}, attrs.evolve(CONFIG, sparse_sig=SPARSE))
    (digest,) = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
    store.chunks.put_vectors("d", sparse(SPARSE), ["a"], {digest: sparse_of("text")})
    return bool(store.chunks.known_vectors("d", sparse(SPARSE), [digest]))


class CapabilityTests(HarnessTests):
    """The record that a store returns names all it can do, and nothing else."""

    def test_the_store_has_every_method_that_it_says_it_has(self, store: Store) -> None:
        said = attrs.asdict(store.capabilities, recurse=False)
        for name, contract in _contracts().items():
            if said[name] is not None:
                assert not lacking(said[name], contract), f"capabilities.{name} lacks methods"

    def test_the_store_says_everything_that_it_can_do(self, store: Store) -> None:
        said = attrs.asdict(store.capabilities, recurse=False)
        for name, contract in _contracts().items():
            if said[name] is None:
                for part in (store, store.documents, store.chunks, store.layers):
                    assert lacking(part, contract), f"{type(part).__name__} can do {name}: say so"

    def test_the_store_keeps_the_kinds_of_vectors_that_it_says_it_keeps(self, store: Store) -> None:
        assert "dense" in store.chunks.kinds
        assert ("sparse" in store.chunks.kinds) == _keeps_sparse(store), "say which kinds it keeps"
