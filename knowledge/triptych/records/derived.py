"""What is derived from documents: chunks, layers, their signatures and configuration."""

from __future__ import annotations

import attrs

from triptych.errors import ValidationError
from triptych.records.checks import layer_content, vector_comparison
from triptych.records.chunk_ids import chunk_id
from triptych.records.values import Layer, StaleReason, Vector, to_layer


@attrs.frozen(kw_only=True, slots=True)
class DerivedSig:
    """What a derived thing was made from, and with.

    ``input_sig`` is the digest of exactly what was fed in, and decides freshness together
    with the three configurations; ``source_version`` is provenance. An empty string means
    that the part plays no role (a layer has no chunker, a chunk no prompt). A chunk set without an
    ``embed_sig``, in a dataset that has one, waits for its vectors.
    """

    source_version: int = 0
    chunker_sig: str = ""
    prompt_sig: str = ""
    embed_sig: str = ""
    input_sig: str = ""

    def stale_reason(self, want: DerivedSig) -> StaleReason | None:
        """Why this is stale when ``want`` is what a fresh one would carry; None if it is not.

        Without an input digest on both sides the source version decides. An empty
        ``want.embed_sig`` means "don't care"; where only ours is empty the reason is "vector".
        """
        if self.input_sig and want.input_sig:
            if self.input_sig != want.input_sig:
                return "source"
        elif self.source_version < want.source_version:
            return "source"
        if self.chunker_sig != want.chunker_sig:
            return "chunker"
        if self.prompt_sig != want.prompt_sig:
            return "prompt"
        if want.embed_sig and self.embed_sig != want.embed_sig:
            return "embedder" if self.embed_sig else "vector"
        return None

    def has_text_of(self, want: DerivedSig) -> bool:
        """Whether only vectors, if anything, are other than in a fresh one that ``want`` describes.

        Such a thing need not be made again: its texts are embedded where they are.
        """
        return self.stale_reason(want) in (None, "vector", "embedder")

    def is_stale(self, want: DerivedSig) -> bool:
        """Whether this was made from something else, or with something else, than ``want``."""
        return self.stale_reason(want) is not None


@attrs.frozen(kw_only=True, slots=True)
class DerivedChunk:
    """One retrieval unit of a document.

    ``source.content[start:end] == content`` in code points; ``offset`` is ``start`` in UTF-8
    bytes; ``start_line`` counts from 1. ``window_start`` and ``window_end`` span the wider
    text to show with a hit, where the chunker has one. ``vector`` is a unit vector or None.
    ``sig.input_sig`` is the digest of the text that was (or would be) embedded. ``occurrence``
    counts the chunks before it in its document with the same digest; it is part of no comparison.
    """

    dataset_id: str
    doc_name: str
    index: int
    start: int
    end: int
    offset: int
    start_line: int
    content: str
    sig: DerivedSig
    vector: Vector | None = attrs.field(default=None, eq=vector_comparison, repr=False)
    heading_path: tuple[str, ...] = ()
    window_start: int | None = None
    window_end: int | None = None
    locator: str | None = None
    occurrence: int = attrs.field(default=0, eq=False)

    @property
    def chunk_id(self) -> str:
        """The chunk's stable id, a UUID (see `triptych.signatures.chunk_id`)."""
        return chunk_id(self.dataset_id, self.doc_name, self.sig.input_sig, self.occurrence)

    def __attrs_post_init__(self) -> None:
        if self.start < 0 or self.end - self.start != len(self.content):
            raise ValidationError(
                f"chunk {self.index} of {self.doc_name!r} spans {self.start}:{self.end} but "
                f"holds {len(self.content)} code points"
            )


@attrs.frozen(kw_only=True, slots=True)
class DerivedLayer:
    """An abstract (L0) or overview (L1) of a document, a folder or a dataset.

    ``doc_name`` is "" for the dataset's own layer and ends in "/" for a folder's.
    ``stale`` is filled in by the Service when it answers.
    """

    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(converter=to_layer)
    content: str = attrs.field(converter=layer_content)
    sig: DerivedSig
    vector: Vector | None = attrs.field(default=None, eq=vector_comparison, repr=False)
    stale: StaleReason | None = None


@attrs.frozen(kw_only=True, slots=True)
class DatasetConfig:
    """With what a dataset's derived data is made; one per dataset, in the truth.

    ``embed_sig`` is "" when the dataset has no vectors, ``sparse_sig`` when it has no sparse ones.
    ``language`` is the analyzer's.
    """

    chunker_sig: str
    embed_sig: str = ""
    language: str = "english"
    sparse_sig: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DocumentContext:
    """A document's L0 and L1; "" for what was not made."""

    abstract: str = ""
    overview: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DatasetContext:
    """A dataset's L0 and L1; "" for what was not made."""

    abstract: str = ""
    overview: str = ""
