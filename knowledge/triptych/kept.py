"""What a dataset holds, as a value: for backends that hold their datasets in memory.

`triptych.search.exhaustive` searches these values, and `triptych.reading` answers all reads of
the three repositories from them. A backend then writes what writes. A value that is handed
over is never altered: a change makes another (`attrs.evolve`), so that readers need no lock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from triptych import rules
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Layer,
    SourceDocument,
)
from triptych.signatures import document_info

__all__ = ["Kept", "KeptLayer", "KeptSet"]


def _new_state() -> str:
    return uuid.uuid4().hex


@attrs.frozen(kw_only=True, slots=True)
class KeptSet:
    """One state of a document's chunk set; its chunks are those of `triptych.rules.copy_vector`.

    ``state`` names it in the keys of its chunks. A set that replaces this one is made again and
    so has another; one that is restamped (`attrs.evolve`) keeps it, for its chunks are the same.
    """

    sig: DerivedSig
    chunks: tuple[DerivedChunk, ...]
    state: str = attrs.field(factory=_new_state)


@attrs.frozen(kw_only=True, slots=True)
class KeptLayer:
    """One state of a layer, of `triptych.rules.copy_vector`; ``state`` names it in its key."""

    layer: DerivedLayer
    state: str = attrs.field(factory=_new_state)


@attrs.frozen(kw_only=True, slots=True)
class Kept:
    """One dataset at one moment: documents and chunk sets by name, layers by name and kind.

    ``exists`` from the first document until the dataset is deleted; what is kept after that, or
    without any document, does not make it exist. A backend may inherit from this to keep more.
    """

    exists: bool = False
    config: DatasetConfig | None = None
    documents: Mapping[str, SourceDocument] = attrs.field(factory=dict)
    sets: Mapping[str, KeptSet] = attrs.field(factory=dict)
    layers: Mapping[str, Mapping[Layer, KeptLayer]] = attrs.field(factory=dict)

    def version(self, name: str) -> int:
        """The document's version, 0 when there is none."""
        document = self.documents.get(name)
        return document.version if document else 0

    def info(self, name: str) -> DocumentInfo | None:
        """The document without its content, None when there is none."""
        document = self.documents.get(name)
        if document is None:
            return None
        return document_info(attrs.evolve(document, metadata=dict(document.metadata)))

    def without(self, *names: str) -> dict[str, Any]:
        """The fields ``documents``, ``sets`` and ``layers`` without what is under these names."""
        parts = {"documents": self.documents, "sets": self.sets, "layers": self.layers}
        return {
            part: {key: value for key, value in those.items() if key not in names}
            for part, those in parts.items()
        }

    def has(self, name: str) -> bool:
        """Whether there is a document, a chunk set or a layer under this name."""
        return any(name in those for those in (self.documents, self.sets, self.layers))

    def orphans(self, names: Iterable[str]) -> list[str]:
        """Those of ``names`` under which something lies that has no source, ordered."""
        left = sorted(name for name in set(names) if self.has(name))
        return [name for name in left if not rules.has_source(name, self.documents)]
