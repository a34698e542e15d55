"""The truth as search sees it: what changed, the units of an index, and what passes a filter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.records import (
    NO_CHUNK,
    Condition,
    DerivedSig,
    Filter,
    FilterTree,
    Layer,
    Subject,
    Vector,
)
from triptych.records.documents import document_subject
from triptych.records.filters import EXPIRES_AT, guard_of
from triptych.records.metadata import text_of
from triptych.text import headings_in, label_of
from triptych_backends.index.change_log import (
    Change,
    Field,
    IndexConfig,
    LogPosition,
    Rows,
    Scored,
    Unit,
)
from triptych_backends.index.selection import AT_ONCE, Owners, has_headings
from triptych_backends.memory.dataset import FIELDS, ChunkSet, Dataset, Place
from triptych_backends.memory.truth import Truth

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
            found = {key: _vector(state, key, truth.place(key)) for key in keys}
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
            yield Unit(
                owner=owner,
                key=stored.key,
                name=name,
                index=NO_CHUNK,
                text=text,
                label=label_of(name, _title(state, name)),
            )
    elif field == "chunk":
        if chunks := state.sets.get(name):
            title = _title(state, name)
            waits, entries = state.kept.waits.get(name, ()), state.kept.entries
            terms = next((each for each in state.further if each not in waits), None)
            for at, key in enumerate(chunks.keys):
                chunk = chunks.chunk(at)
                yield Unit(
                    owner=owner,
                    key=key,
                    name=name,
                    index=chunk.index,
                    text=chunk.content,
                    label=label_of(name, title, chunk.heading_path),
                    headings=chunk.heading_path,
                    vector=chunks.vector(at) if chunks.spaces[at] == space else None,
                    sparse=None if terms is None else entries.get((terms, chunk.sig.input_sig)),
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


def _title(state: Dataset, name: str) -> str:
    stored = state.documents.get(name)
    return "" if stored is None else text_of(stored.document.metadata, "title")


def _vector(state: Dataset, key: int, place: Place) -> Vector | None:
    _, name, what = place
    if isinstance(what, Layer):
        made = state.layers.get((name, what))
        return made.layer.vector if made is not None and made.key == key else None
    chunks = state.sets.get(name)
    return chunks.vector(what) if chunks is not None and key in chunks.keys else None


class MemoryFilters:
    """A `Filters` over the dicts."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def owners(
        self, unit: Field, datasets: Sequence[str], where: Filter, among: Owners | None = None
    ) -> Owners:
        with self._truth as truth:
            some = {} if among is None else {name: among.get(name, ()) for name in datasets}
            return {
                name: _passing_owners(unit, where, truth.read(name), some.get(name))
                for name in datasets
            }

    def document_keys(self, found: Sequence[Scored]) -> Mapping[int, int]:
        keys = {}
        with self._truth as truth:
            for row in found:
                state = truth.read(row.dataset)
                stored = state.documents.get(state.names.get(row.owner, ""))
                if stored is not None:
                    keys[row.owner] = stored.key
        return keys


def documents_passing(tree: FilterTree, state: Dataset) -> list[str]:
    """The names of the dataset's documents that pass."""
    return list(_passing(tree, state, state.documents))


def _passing_owners(
    unit: Field, where: Filter, state: Dataset, among: Iterable[int] | None
) -> NDArray[np.int64]:
    """The owners in this dataset that pass; under a heading are those with a chunk there."""
    names: Iterable[str] = state.owners
    if among is not None:
        names = [state.names[owner] for owner in among if owner in state.names]
    elif isinstance(where.tree, Condition) and where.tree.field == EXPIRES_AT:
        names = state.expiring.keys() & state.owners.keys()  # no other has such a field
    passing = [
        state.owners[name]
        for name in _passing(where.tree, state, names)
        if where.fresh is None or _is_fresh(unit, where.fresh, state, name)
    ]
    return np.array(sorted(passing), dtype=np.int64)


def _passing(tree: FilterTree | None, state: Dataset, names: Iterable[str]) -> Iterator[str]:
    """Those of ``names`` that pass; what a guard leaves out is looked at no further."""
    guard, rest = guard_of(tree)
    if guard is not None:
        names, tree = _passing(guard, state, names), rest
    headed = has_headings(tree)
    for count, name in enumerate(names):
        if count % AT_ONCE == 0:
            deadlines.check("the filter")
        if tree is None or tree.admits(_subject(name, state, headed)):
            yield name


def _subject(name: str, state: Dataset, headed: bool) -> Subject:
    stored, chunks = state.documents.get(name), state.sets.get(name)
    if stored is None:
        return Subject(name=name)
    return document_subject(stored.document, _headings(chunks) if headed and chunks else ())


def _headings(chunks: ChunkSet) -> set[str]:
    return headings_in(each for path in chunks.headings for each in path)


def _is_fresh(unit: Field, want: DerivedSig, state: Dataset, name: str) -> bool:
    """Whether the name's chunk set, or its layer that is searched, is there and fresh."""
    want = fresh_sig(state, name, want)
    if unit not in LAYERS:
        chunks = state.sets.get(name)
        # A set that waits for vectors is of the newest text: it is not stale.
        return chunks is not None and chunks.sig.stale_reason(want) in (None, "vector")
    if stored := state.documents.get(name):
        want = attrs.evolve(want, input_sig=stored.info.content_sha256)
    made = state.layers.get((name, LAYERS[unit]))
    if made is None:
        return False
    sig = made.layer.sig
    want = attrs.evolve(want, prompt_sig=want.prompt_sig or sig.prompt_sig)
    return sig.stale_reason(want) in (None, "vector")


def fresh_sig(dataset: Dataset, name: str, configuration: DerivedSig) -> DerivedSig:
    """What a fresh chunk set of this name carries; a folder's input is not known here."""
    stored = dataset.documents.get(name)
    if stored is None:
        return configuration
    return attrs.evolve(
        configuration, source_version=stored.document.version, input_sig=stored.info.input_sig
    )
