"""The truth as its index sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from triptych.records import NO_CHUNK, Layer, Vector
from triptych_backends.index.change_log import Change, Field, IndexConfig, LogPosition, Rows, Unit
from triptych_backends.memory.truth import FIELDS, Dataset, Truth

LAYERS: dict[Field, Layer] = {field: layer for layer, field in FIELDS.items()}


class MemoryChangeLog:
    """A `ChangeLog` over the dicts."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def head(self) -> LogPosition:
        with self._truth as truth:
            return LogPosition(nonce=truth.nonce, seq=truth.seq, epoch=truth.nonce)

    def changes(self, dataset: str, after: int) -> Sequence[Change]:
        with self._truth as truth:
            newest_first = []
            for (field, owner), seq in reversed(truth.read(dataset).log.items()):
                if seq <= after:
                    break
                newest_first.append(Change(seq=seq, field=field, owner=owner))
            return newest_first[::-1]

    def owners(self, dataset: str, field: Field, after: int, limit: int) -> Sequence[int]:
        with self._truth as truth:
            log = truth.read(dataset).log
            found = sorted(owner for of, owner in log if of == field and owner > after)
        return found[:limit]

    def units(self, dataset: str, field: Field, owners: Sequence[int]) -> Iterator[Unit]:
        with self._truth as truth:
            state = truth.read(dataset)
            names = [(owner, state.names[owner]) for owner in owners if owner in state.names]
            units = [unit for owner, name in names for unit in _units(state, field, owner, name)]
        return iter(units)

    def vectors(self, dataset: str, keys: Sequence[int]) -> Rows:
        with self._truth as truth:
            state = truth.read(dataset)
            found = {key: _vector(state, truth.places.get(key)) for key in keys}
        kept = {key: vector for key, vector in found.items() if vector is not None}
        rows = np.stack(list(kept.values())) if kept else np.empty((0, 0), np.float32)
        return Rows(list(kept), rows)

    def profile(self, dataset: str) -> IndexConfig:
        with self._truth as truth:
            config = truth.read(dataset).config
            if config is None:
                return IndexConfig(language="english", space="")
            return IndexConfig(
                language=config.language, space=config.embed_sig, sparse=config.sparse_sig
            )

    def epoch(self, seq: int) -> str | None:
        with self._truth as truth:
            return truth.nonce

    def flush(self) -> None:
        """Nothing: dicts survive nothing."""


def _units(state: Dataset, field: Field, owner: int, name: str) -> Iterator[Unit]:
    space = state.config.embed_sig if state.config else ""
    if field == "document":
        if stored := state.documents.get(name):
            text = stored.document.content
            yield Unit(owner=owner, key=stored.key, name=name, index=NO_CHUNK, text=text)
    elif field == "chunk":
        if chunks := state.sets.get(name):
            serving = None if name in state.kept.waiting else state.sparse_space
            for key, chunk in zip(chunks.keys, chunks.chunks, strict=True):
                yield Unit(
                    owner=owner,
                    key=key,
                    name=name,
                    index=chunk.index,
                    text=chunk.content,
                    headings=chunk.heading_path,
                    vector=chunk.vector if chunk.sig.embed_sig == space else None,
                    sparse=state.kept.sparse_vector(serving, chunk.sig.input_sig),
                )
    elif made := state.layers.get((name, LAYERS[field])):
        searched = made.layer.sig.embed_sig == space
        yield Unit(
            owner=owner,
            key=made.key,
            name=name,
            index=NO_CHUNK,
            text=made.layer.content,
            vector=made.layer.vector if searched else None,
        )


def _vector(state: Dataset, place: tuple[str, str, int | Layer] | None) -> Vector | None:
    if place is None:
        return None
    _, name, what = place
    if isinstance(what, Layer):
        return state.layers[name, what].layer.vector
    return None if what == NO_CHUNK else state.sets[name].chunks[what].vector
