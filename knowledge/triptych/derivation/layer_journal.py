"""What making layers cost, what could not be made, and notes on parts of long texts.

They are settings of the store, one for each entry. Their keys name the dataset, and the digest of a
document, folder or model.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Final, TypeVar

import attrs

from triptych._internal.digests import digest
from triptych.contracts import DocumentRepo, SettingsStore
from triptych.contracts.rules import LAYER_SETTINGS
from triptych.derivation.folder_tree import is_folder, parent_of
from triptych.errors import TriptychError
from triptych.records import Layer, ModelUsage, QuarantinedLayer
from triptych.records.serialization import from_dict, to_dict

_USAGE: Final = f"{LAYER_SETTINGS}usage/"
_QUARANTINE: Final = f"{LAYER_SETTINGS}quarantine/"
_NOTES: Final = f"{LAYER_SETTINGS}notes/"
_LONGEST = 900  # code points of a dataset's id that is in a key

T = TypeVar("T")


def dataset_of_layers(key: str) -> str | None:
    """Return the dataset that a setting of `LayerJournal` is of, None for another setting."""
    is_ours = key.startswith(LAYER_SETTINGS)
    return key.partition("/")[2].rpartition("/")[0] if is_ours else None


def _shown(dataset_id: str) -> str:
    """The dataset in a key, which has at most 1,000 code points."""
    return dataset_id if len(dataset_id) <= _LONGEST else digest(dataset_id)


@attrs.frozen(kw_only=True, slots=True)
class _Note:
    """A note on a part of the text of ``name``."""

    name: str
    key: str
    text: str


@attrs.frozen(eq=False)
class LayerJournal:
    """The entries of making layers in a store's settings. Thread-safe, as the settings are.

    Names are those of layers: of a document, a folder ("name/") or the dataset (""). Entries stay
    when their document is deleted, until `forget_gone`. An entry that cannot be read is missing.
    """

    _settings: SettingsStore

    def quarantine(self, entry: QuarantinedLayer) -> None:
        """Record a failed layer, replacing an entry for this name and kind."""
        self._set(_quarantine_key(entry.dataset_id, entry.doc_name, entry.layer), _text(entry))

    def release_quarantined(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        """Remove the entry of a failed layer. Idempotent."""
        self._set(_quarantine_key(dataset_id, doc_name, layer), None)

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        """Return all failed layers, sorted by name and kind."""
        found = self._read(_QUARANTINE, dataset_id, QuarantinedLayer)
        of_dataset = [each for each in found if each.dataset_id == dataset_id]
        return sorted(of_dataset, key=lambda each: (each.doc_name, each.layer))

    def record_usage(self, dataset_id: str, usage: ModelUsage) -> None:
        """Add ``usage`` to the total of its model."""
        key = f"{_USAGE}{_shown(dataset_id)}/{digest(usage.model)}"
        while True:
            text = self._settings.get_setting(key)
            old = None if text is None else _parsed(ModelUsage, text)
            total = usage if old is None else old + usage
            if self._settings.set_setting(key, _text(total), expected=text):
                return

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        """Return the total usage of each model in this dataset, sorted by model."""
        found = (each for each in self._read(_USAGE, dataset_id, ModelUsage) if isfinite(each.cost))
        return sorted(found, key=lambda each: each.model)

    def put_note(self, dataset_id: str, name: str, key: str, text: str) -> None:
        """Keep a note under a name, replacing one with the same key."""
        self._set(_note_key(dataset_id, name, key), _text(_Note(name=name, key=key, text=text)))

    def drop_note(self, dataset_id: str, name: str, key: str) -> None:
        """Remove a note. Idempotent."""
        self._set(_note_key(dataset_id, name, key), None)

    def notes(self, dataset_id: str) -> dict[str, dict[str, str]]:
        """Return all notes, by name and key."""
        found: dict[str, dict[str, str]] = {}
        for note in self._read(_NOTES, dataset_id, _Note):
            found.setdefault(note.name, {})[note.key] = note.text
        return found

    def forget_gone(self, dataset_id: str, documents: DocumentRepo) -> None:
        """Remove the failed layers and notes of names that no layer can be of any more."""
        failed = {each.doc_name for each in self.quarantined(dataset_id)}
        names = failed | self.notes(dataset_id).keys()
        gone = [name for name in names if not has_source(documents, dataset_id, name)]
        if gone:
            self.forget(dataset_id, gone)

    def forget(self, dataset_id: str, names: Collection[str] | None = None) -> None:
        """Remove the failed layers and notes of ``names``; of None all entries, usage too."""
        digests = None if names is None else {digest(each) for each in names}
        kinds = (_QUARANTINE, _NOTES, *((_USAGE,) if names is None else ()))
        for kind in kinds:
            for key in self._found(kind, dataset_id):
                if digests is None or key.rpartition("/")[2].partition(".")[0] in digests:
                    self._set(key, None)

    def forget_document(self, dataset_id: str, name: str) -> None:
        """Remove the failed layers and notes of a document and of the folders that it is in."""
        names = [name]
        while names[-1]:
            names.append(parent_of(names[-1]))
        self.forget(dataset_id, names)

    def _found(self, kind: str, dataset_id: str) -> Mapping[str, str]:
        """The settings of a kind; not those of another dataset whose id begins likewise."""
        shown = _shown(dataset_id)
        found = self._settings.list_settings(f"{kind}{shown}/")
        return {key: text for key, text in found.items() if dataset_of_layers(key) == shown}

    def _read(self, kind: str, dataset_id: str, record: type[T]) -> list[T]:
        found = (_parsed(record, text) for text in self._found(kind, dataset_id).values())
        return [entry for entry in found if entry is not None]

    def _set(self, key: str, text: str | None) -> None:
        while not self._settings.set_setting(key, text, expected=self._settings.get_setting(key)):
            pass


def has_source(documents: DocumentRepo, dataset_id: str, name: str) -> bool:
    """Return whether there is what layers of ``name`` are made from: a document, or a folder or
    dataset with one in it."""
    if not name or is_folder(name):
        return bool(documents.list(dataset_id, prefix=name, limit=1))
    return documents.get_info(dataset_id, name) is not None


class MemorySettings:
    """`SettingsStore` in this object's memory. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, str] = {}

    def get_setting(self, key: str) -> str | None:
        with self._lock:
            return self._kept.get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        with self._lock:
            if self._kept.get(key) != expected:
                return False
            self._kept.pop(key, None)
            if value is not None:
                self._kept[key] = value
            return True

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        with self._lock:
            return {key: self._kept[key] for key in sorted(self._kept) if key.startswith(prefix)}


def _quarantine_key(dataset_id: str, name: str, layer: Layer) -> str:
    return f"{_QUARANTINE}{_shown(dataset_id)}/{digest(name)}.{Layer(layer)}"


def _note_key(dataset_id: str, name: str, key: str) -> str:
    return f"{_NOTES}{_shown(dataset_id)}/{digest(name)}.{digest(key)}"


def _text(entry: object) -> str:
    return json.dumps(to_dict(entry), ensure_ascii=False)


def _parsed(record: type[T], text: str) -> T | None:
    """The entry in a setting; None of one that others wrote, such as into a backup."""
    try:
        return from_dict(record, json.loads(text))
    except (ValueError, TypeError, RecursionError, TriptychError):
        return None
