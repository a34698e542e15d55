"""Checking what is copied: only data that every store can accept and return unchanged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import numpy as np

from triptych.contracts import rules
from triptych.copies.states import DatasetHead, StoreStates, json_line
from triptych.errors import CancelledError, ModelMismatchError, StoreLockedError
from triptych.records import (
    DerivedSig,
    Layer,
    NameState,
    NewDocument,
    SourceDocument,
    Vector,
    check_identifier,
    check_text,
)
from triptych.records.serialization import from_dict
from triptych.records.spaces import further, vector_of_text, vector_text
from triptych.records.values import SpaceKind
from triptych.text import languages

_LARGEST: Final = 2**62
"""Above all numbers of a store."""
_LARGEST_VERSION: Final = 2**53
"""Above all versions of documents. From there a store counts on: none ends before 2**62."""
_MOST: Final = 1e15
_LONGEST_KEY: Final = 1_000
T = TypeVar("T")


class DamagedError(Exception):
    """What is wrong with a store, in words."""


def check_states(states: StoreStates) -> str:
    """Check everything that would be copied, which somebody else may have written.

    Returns its digest.

    Raises:
        DamagedError: something cannot be read, or no store would take it over as it is.
    """
    digest = hashlib.sha256()

    def strictly(record: T) -> T:
        """The record read again, which checks the type of each field."""
        line = json_line(record)
        digest.update(line + b"\n")
        return from_dict(type(record), json.loads(line))

    with _damage("the list of datasets"):
        datasets = list(states.datasets())
    for dataset_id in datasets:
        with _damage(f"dataset {dataset_id!r:.80}"):
            check = DatasetCheck(strictly(states.head(dataset_id)))
            for state in states.states(dataset_id):
                with _damage(f"{state.name!r:.80}"):
                    check.add(strictly(state))
    with _damage("the settings"):
        settings = states.settings()
        check_settings(settings)
        digest.update(json_line(dict(settings)))
    return digest.hexdigest()


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Raise as a `DamagedError` whatever bad data has a reader do."""
    try:
        yield
    except (CancelledError, StoreLockedError):
        raise
    except Exception as error:
        raise DamagedError(f"{what}: {error}") from error


def check_settings(settings: Mapping[str, str]) -> None:
    """Check that every store takes these settings.

    Raises:
        DamagedError, ValidationError: none would take one of them.
    """
    for key, text in settings.items():
        shown = f"the setting {key!r:.80}"
        check_text(text, shown)
        if "\0" in check_text(key, "the key of a setting") or "\0" in text:
            raise DamagedError(f"{shown} holds a NUL character")
        if len(key) > _LONGEST_KEY:
            raise DamagedError(f"{shown} has a key of more than {_LONGEST_KEY:,} characters")


class DatasetCheck:
    """Checks what a dataset holds, name by name in their order."""

    def __init__(self, head: DatasetHead) -> None:
        check_identifier(head.dataset_id, "dataset_id")
        self._dataset_id = head.dataset_id
        self._kinds = {space.kind for space in further(head.config)}
        self._widths: Mapping[str, int] = {}
        self._last: str | None = None
        _check_head(head)

    def add(self, state: NameState) -> None:
        """Check the next name.

        Raises:
            DamagedError, ValueError: it holds what no store takes over as it is.
        """
        name = state.name
        if self._last is not None and name <= self._last:
            raise DamagedError("the names are not in order")
        self._last = name
        _check_places(self._dataset_id, state)
        if not (state.versions or state.layers):
            raise DamagedError("there is nothing under it")
        _check_versions(state.versions)
        _check_chunks(state)
        _check_notes(state)
        for unit in state.units:
            _check_vector(unit.vector, unit.sig)
        try:
            vectors = [(unit.sig.embed_sig, unit.vector) for unit in state.units]
            self._widths = rules.check_widths(self._widths, vectors)
        except ModelMismatchError as error:
            raise DamagedError(str(error)) from None
        _check_further(state, self._kinds)


def _check_head(head: DatasetHead) -> None:
    _check_number(head.deleted_version, "deleted_version", limit=_LARGEST_VERSION)
    if head.config is not None:
        config = head.config
        _check_labels([config.chunker_sig, *config.sigs.values()])
        if config.language not in languages():
            raise DamagedError(f"it is in an unknown language, {config.language!r:.80}")


def _check_places(dataset_id: str, state: NameState) -> None:
    name = state.name
    if name:
        check_identifier(name, "a name")
    places = {(each.dataset_id, each.name) for each in state.versions}
    places |= {(each.dataset_id, each.doc_name) for each in state.units}
    if places - {(dataset_id, name)}:
        raise DamagedError("something in it is of another name")
    if (state.sig is not None or state.chunks) and not state.versions:
        raise DamagedError("it has chunks and no document")


def _check_versions(versions: Sequence[SourceDocument]) -> None:
    for document in versions:
        NewDocument(name=document.name, content=document.content, metadata=document.metadata)
        _check_number(document.version, "version", least=1, limit=_LARGEST_VERSION)
        _check_time(document.updated_at)
        _check_labels([document.original_sha256, document.parser_sig])
    numbers = [each.version for each in versions]
    if numbers != sorted(set(numbers)):
        raise DamagedError("its versions are not in order")


def _check_chunks(state: NameState) -> None:
    """Check a chunk set, each chunk of which has the signature of the set but for its input and
    the space of its vector."""
    own = state.sig
    if own is None:
        if state.chunks:
            raise DamagedError("it has chunks and no signature of them")
        return
    _check_sig(own)
    seen: dict[str, int] = {}
    vectors: dict[tuple[str, str], Vector] = {}
    for index, chunk in enumerate(state.chunks):
        sig, digest = chunk.sig, chunk.sig.input_sig
        occurrence = seen.get(digest, 0)
        seen[digest] = occurrence + 1
        if (chunk.index, chunk.occurrence) != (index, occurrence):
            raise DamagedError("its chunks are not in order")
        space = own.embed_sig if chunk.vector is None else sig.embed_sig
        made = (own.source_version, own.chunker_sig, own.prompt_sig, space)
        if (sig.source_version, sig.chunker_sig, sig.prompt_sig, sig.embed_sig) != made:
            raise DamagedError("a chunk has another signature than its set")
        _check_labels([digest, chunk.locator or "", sig.embed_sig])
        numbers = (chunk.start, chunk.end, chunk.offset, chunk.window_start, chunk.window_end)
        for number in numbers:
            _check_number(number or 0, "a place")
        _check_number(chunk.start_line, "start_line", least=1)
        if chunk.vector is not None:
            if not digest:
                raise DamagedError("a vector is of no text")
            first = vectors.setdefault((space, digest), chunk.vector)
            if first is not chunk.vector and first.tobytes() != chunk.vector.tobytes():
                raise DamagedError("a text has two vectors")


def _check_notes(state: NameState) -> None:
    kinds = [each.layer for each in state.layers]
    if kinds != sorted(set(kinds)) or Layer.DETAIL in kinds:
        raise DamagedError("its layers are not in order")
    for layer in state.layers:
        _check_sig(layer.sig)
        if layer.stale is not None:
            raise DamagedError("a layer says that it is stale")


def _check_vector(vector: Any, sig: DerivedSig) -> None:
    if vector is None:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        length = vector @ vector
    if not vector.size or not np.isfinite(length):
        raise DamagedError("a vector has no numbers, or some that are not finite, or too large")
    if not sig.embed_sig:
        raise DamagedError("a vector is of no space")


def _check_further(state: NameState, kinds: Collection[SpaceKind]) -> None:
    texts = {chunk.sig.input_sig for chunk in state.chunks} - {""}
    for kind, vectors in state.further.items():
        if vectors and not (kind in kinds and vectors.keys() <= texts):
            raise DamagedError(f"it has a {kind} vector of no text")
        for text in vectors.values():
            if vector_text(vector_of_text(kind, text)) != text:
                raise DamagedError(f"a {kind} vector is written in another form")


def _check_sig(sig: DerivedSig) -> None:
    _check_number(sig.source_version, "source_version", limit=_LARGEST_VERSION)
    _check_labels([sig.chunker_sig, sig.prompt_sig, sig.embed_sig, sig.input_sig])


def _check_number(number: int, what: str, *, least: int = 0, limit: int = _LARGEST) -> None:
    if not least <= number < limit:
        raise DamagedError(f"{what} is {number!r:.40}")


def _check_labels(labels: Iterable[str]) -> None:
    """Refuse what no text column takes."""
    if any("\0" in each for each in labels):
        raise DamagedError("a signature, or the like, holds a NUL character")


def _check_time(moment: datetime) -> None:
    if moment.utcoffset() != timedelta(0):
        raise DamagedError(f"the time {moment.isoformat()} is not in UTC")
