"""What a dataset holds, as a value that can be written down and read again."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Layer,
    ModelUsage,
    QuarantinedLayer,
    SourceDocument,
)


@attrs.frozen(kw_only=True, slots=True)
class ChunkSetState:
    """A document's chunk set, vectors included."""

    sig: DerivedSig
    chunks: tuple[DerivedChunk, ...]


@attrs.frozen(kw_only=True, slots=True)
class DatasetState:
    """One dataset at one moment; of a deleted one, only ``floor`` is left.

    ``floor`` is the greatest version ever deleted. ``replaced`` holds the old versions of each
    document, newest first, ``widths`` the dimension of each embedding space, and ``layers`` the
    layers by name and kind. ``entries`` has the vectors that no chunk has, as base64, by kind and
    signature of their space and by digest: sparse ones, and those of spaces that do not serve.
    `triptych.records.serialization` makes plain data of it, and it of plain data.
    """

    exists: bool = False
    floor: int = 0
    config: DatasetConfig | None = None
    widths: Mapping[str, int] = attrs.field(factory=dict)
    documents: Mapping[str, SourceDocument] = attrs.field(factory=dict)
    replaced: Mapping[str, tuple[SourceDocument, ...]] = attrs.field(factory=dict)
    sets: Mapping[str, ChunkSetState] = attrs.field(factory=dict)
    layers: Mapping[str, Mapping[Layer, DerivedLayer]] = attrs.field(factory=dict)
    quarantined: tuple[QuarantinedLayer, ...] = ()
    usage: tuple[ModelUsage, ...] = ()
    checkpoints: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    entries: Mapping[str, Mapping[str, Mapping[str, str]]] = attrs.field(factory=dict)
