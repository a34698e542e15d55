"""Queries on the way to the local index, and its answers on the way back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.records import (
    NO_CHUNK,
    Candidate,
    Candidates,
    ChunkQuery,
    DerivedSig,
    Filter,
    Finding,
    LayerQuery,
    Mode,
)
from triptych.text import get_analyzer
from triptych_backends.index.change_log import Field, Scored
from triptych_backends.index.checks import examine_index
from triptych_backends.index.local import LocalIndex
from triptych_backends.memory.change_log import MemoryChangeLog
from triptych_backends.memory.truth import ChunkSet, Dataset, Truth

__all__ = ["Searching", "fresh_sig"]


class Searching:
    """One lane over one field. The index is asked outside the truth's lock, for it takes it."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.renew()

    def renew(self) -> None:
        """Begin with an empty index, which fills itself when it is asked."""
        self._index = LocalIndex(MemoryChangeLog(self._truth), analyzers=get_analyzer)

    def close(self) -> None:
        self._index.close()

    def check_integrity(self, dataset: str) -> Iterator[Finding]:
        """See `examine_index`."""
        return examine_index(self._index, dataset)

    def search(self, query: ChunkQuery, field: Field) -> Sequence[Candidate]:
        datasets, owners = self._within(query, field)
        found: Sequence[Scored]
        limit = query.top_k
        headings = query.filter.headings if field == "chunk" else None
        if query.mode is Mode.BM25:
            found = self._index.bm25(
                datasets, field, query.text, limit=limit, owners=owners, headings=headings
            )
        elif query.vector is None:
            raise ValueError("a vector lane needs its query's vector")
        elif field == "document":
            found = self._index.document_vector(datasets, query.vector, limit=limit, owners=owners)
        else:
            found = self._index.vector(
                datasets, field, query.vector, limit=limit, owners=owners, headings=headings
            )
        return self._candidates(found, query.mode, documents=field == "document")

    def _within(
        self, query: ChunkQuery, field: Field
    ) -> tuple[list[str], Mapping[str, NDArray[np.int64]] | None]:
        """The datasets to ask, and which owners in each pass the filter (None: all do).

        Datasets that now embed into another space have no vectors to compare.
        """
        with self._truth as truth:
            states = {name: truth.read(name) for name in dict.fromkeys(query.dataset_ids)}
            if query.mode is Mode.VECTOR:
                states = {
                    name: state
                    for name, state in states.items()
                    if state.config and state.config.embed_sig == query.embed_sig
                }
            by_owner = query.filter
            if field == "chunk":
                by_owner = attrs.evolve(by_owner, headings=None)
            if by_owner.is_trivial:
                return list(states), None
            owners = {name: _owners(query, by_owner, state) for name, state in states.items()}
            return list(states), owners

    def _candidates(
        self, found: Sequence[Scored], mode: Mode, *, documents: bool
    ) -> Sequence[Candidate]:
        rows: Sequence[Scored] = found
        if documents:
            keys: dict[tuple[str, int], int] = {}
            with self._truth as truth:
                for item in found:
                    state = truth.read(item.dataset)
                    stored = state.documents.get(state.names.get(item.owner, ""))
                    if stored is not None:
                        keys[item.dataset, item.owner] = stored.key
            rows = [
                row._replace(index=NO_CHUNK, key=keys[row.dataset, row.owner])
                for row in found
                if (row.dataset, row.owner) in keys
            ]
        return Candidates(rows, str(mode))


def _owners(query: ChunkQuery, where: Filter, state: Dataset) -> NDArray[np.int64]:
    """The owners in this dataset that pass; under a heading are those with a chunk there."""
    passing = []
    for name, owner in state.owners.items():
        stored = state.documents.get(name)
        if not where.admits(name, stored.document.metadata if stored else {}):
            continue
        if where.headings is not None and not _under(where.headings, state.sets.get(name)):
            continue
        if where.fresh is None or _is_fresh(query, where.fresh, state, name):
            passing.append(owner)
    return np.array(sorted(passing), dtype=np.int64)


def _under(headings: frozenset[str], chunks: ChunkSet | None) -> bool:
    wanted = {heading.casefold() for heading in headings}
    return chunks is not None and any(
        heading.casefold() in wanted for chunk in chunks.chunks for heading in chunk.heading_path
    )


def _is_fresh(query: ChunkQuery, want: DerivedSig, state: Dataset, name: str) -> bool:
    """Whether the name's chunk set, or its layer that is searched, is there and fresh."""
    want = fresh_sig(state, name, want)
    if not isinstance(query, LayerQuery):
        chunks = state.sets.get(name)
        return chunks is not None and not chunks.sig.is_stale(want)
    if stored := state.documents.get(name):
        want = attrs.evolve(want, input_sig=stored.info.content_sha256)
    made = state.layers.get((name, query.layer))
    if made is None:
        return False
    sig = made.layer.sig
    return not sig.is_stale(attrs.evolve(want, prompt_sig=want.prompt_sig or sig.prompt_sig))


def fresh_sig(dataset: Dataset, name: str, configuration: DerivedSig) -> DerivedSig:
    """What a fresh chunk set of this name carries; a folder's input is not known here."""
    stored = dataset.documents.get(name)
    if stored is None:
        return configuration
    return attrs.evolve(
        configuration,
        source_version=stored.document.version,
        input_sig=stored.info.input_sig,
    )
