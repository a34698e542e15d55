"""All that a store holds under one name, as another store takes it over."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from triptych.records.derived import DerivedChunk, DerivedLayer, DerivedSig
from triptych.records.documents import SourceDocument
from triptych.records.journal import QuarantinedLayer


@attrs.frozen(kw_only=True, slots=True)
class NameState:
    """What a dataset holds under the name of a document, of a folder ("name/") or its own ("").

    Attributes:
        name: the name.
        versions: the document, its kept versions first, oldest first; none under other names.
        sig: the signature of the chunk set, None without a set.
        chunks: its chunks in order, each with its vector and, in its ``sig``, the space of that.
        layers: the layers with their vectors.
        sparse: the sparse vectors of the chunks' texts, by digest, of the dataset's encoder: the
            base64 of `SparseVector.to_bytes`.
        quarantined: the layers that could not be made.
        checkpoints: the intermediate results of making layers, by key.
    """

    name: str
    versions: tuple[SourceDocument, ...] = ()
    sig: DerivedSig | None = None
    chunks: tuple[DerivedChunk, ...] = ()
    layers: tuple[DerivedLayer, ...] = ()
    sparse: Mapping[str, str] = attrs.field(factory=dict)
    quarantined: tuple[QuarantinedLayer, ...] = ()
    checkpoints: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def units(self) -> tuple[DerivedChunk | DerivedLayer, ...]:
        """What may have a vector: the chunks, then the layers. Its space is in its ``sig``."""
        return (*self.chunks, *self.layers)
