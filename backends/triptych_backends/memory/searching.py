"""Queries on the way to the local index, and its answers on the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray
from triptych.records import NO_CHUNK, Candidate, ChunkQuery, DerivedSig, LayerQuery, Mode
from triptych.text import get_analyzer

from triptych_backends.index.feed import Field, Scored
from triptych_backends.index.local import LocalIndex
from triptych_backends.memory.feed import MemoryFeed
from triptych_backends.memory.truth import Dataset, Truth

__all__ = ["Searching", "fresh_sig"]


class Searching:
    """One lane over one field. The index is asked outside the truth's lock, for it takes it."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self.renew()

    def renew(self) -> None:
        """Begin with an empty index, which fills itself when it is asked."""
        self._index = LocalIndex(MemoryFeed(self._truth), analyzers=get_analyzer)

    def close(self) -> None:
        self._index.close()

    def search(self, query: ChunkQuery, field: Field) -> Sequence[Candidate]:
        datasets, owners = self._within(query)
        found: Sequence[Scored]
        limit, headings = query.top_k, query.filter.headings
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
        self, query: ChunkQuery
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
            if attrs.evolve(query.filter, headings=None).is_trivial:
                return list(states), None
            owners = {name: _owners(query, state) for name, state in states.items()}
            return list(states), owners

    def _candidates(
        self, found: Sequence[Scored], mode: Mode, *, documents: bool
    ) -> Sequence[Candidate]:
        keys = {(item.dataset, item.owner): item.key for item in found}
        if documents:
            with self._truth as truth:
                for dataset, owner in list(keys):
                    state = truth.read(dataset)
                    stored = state.documents.get(state.names.get(owner, ""))
                    if stored is None:
                        del keys[dataset, owner]
                    else:
                        keys[dataset, owner] = stored.key
        return [
            Candidate(
                dataset_id=item.dataset,
                doc_name=item.name,
                index=NO_CHUNK if documents else item.index,
                key=keys[item.dataset, item.owner] if documents else item.key,
                score=item.score,
                source=str(mode),
                scores={str(mode): item.score},
            )
            for item in found
            if (item.dataset, item.owner) in keys
        ]


def _owners(query: ChunkQuery, state: Dataset) -> NDArray[np.int64]:
    """The owners in this dataset that pass the filter (headings aside)."""
    passing = []
    for name, owner in state.owners.items():
        stored = state.documents.get(name)
        if not query.filter.admits(name, stored.document.metadata if stored else {}):
            continue
        if query.filter.fresh is not None:
            if isinstance(query, LayerQuery):
                made = state.layers.get((name, query.layer))
                sig = made.layer.sig if made else None
            else:
                chunks = state.sets.get(name)
                sig = chunks.sig if chunks else None
            if sig is None or sig.is_stale(fresh_sig(state, name, query.filter.fresh)):
                continue
        passing.append(owner)
    return np.array(sorted(passing), dtype=np.int64)


def fresh_sig(dataset: Dataset, name: str, configuration: DerivedSig) -> DerivedSig:
    """What a fresh artifact of this name carries; a folder's input is not known here."""
    stored = dataset.documents.get(name)
    if stored is None:
        return configuration
    return attrs.evolve(
        configuration,
        source_version=stored.document.version,
        input_sig=stored.info.input_sig,
    )
