"""Tests that a store's declared capabilities match its methods.

That the methods keep their contracts is for the tests of each capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args, get_type_hints

import attrs

from triptych.contracts import Capabilities, Store, VectorRepo
from triptych.records import AnySpace
from triptych.records.spaces import dense, sparse
from triptych.testing.builders import CONFIG, SPARSE, fill, sparse_of, vector_of
from triptych.testing.harness import HarnessTests


def lacking(part: object, contract: type) -> set[str]:
    """Those members of ``contract``, a Protocol, that ``part`` has not."""
    members = {name for kind in contract.__mro__ for name in vars(kind) if name[0] != "_"}
    return {name for name in members if getattr(part, name, None) is None}


def _contracts() -> Mapping[str, type]:
    """The contract of each capability."""
    return {name: get_args(hint)[0] for name, hint in get_type_hints(Capabilities).items()}


def _keeps(store: Store, name: str) -> bool:
    """Whether vectors are kept: sparse ones, or those of a dense space that does not serve."""
    fill(store, "d", {"a": "text"}, attrs.evolve(CONFIG, sparse_sig=SPARSE))
    (digest,) = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
    space: AnySpace = sparse(SPARSE) if name == "sparse" else dense("space/2")
    vector = sparse_of("text") if name == "sparse" else vector_of("text", "space/2")
    store.chunks.put_vectors("d", space, ["a"], {digest: vector}, serves=name == "sparse")
    return bool(store.chunks.known_vectors("d", space, [digest]))


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
            if said[name] is None and contract is VectorRepo:  # which every repository of chunks is
                assert not _keeps(store, name), f"the chunks can do {name}: say so"
            elif said[name] is None:
                for part in (store, store.documents, store.chunks, store.layers):
                    assert lacking(part, contract), f"{type(part).__name__} can do {name}: say so"
