"""What a context is made of: pieces, each with its citation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import attrs

from triptych.records import DerivedSig, Layer, StaleReason, to_layer

if TYPE_CHECKING:
    from triptych.text.injection import Sign


@attrs.frozen(kw_only=True, slots=True)
class Citation:
    """Where a piece of text is from, and the text itself, so that it can be verified later.

    Attributes:
        dataset_id: the dataset.
        doc_name: the document; of a layer also a folder ("guide/") or the dataset itself ("").
        layer: L2 for the document's own text, L0 or L1 for its abstract or overview.
        version: of the document that the text was read from, or that the layer was made from;
            0 for layers of folders and datasets.
        start: where the text begins, in code points of the document (or of the layer's text).
        end: where it ends: ``content[start:end] == text`` at that version.
        lines: first and last line in the document, from 1; None for layers.
        heading_path: the headings above its beginning, outermost first.
        locator: leads back to a page, cell or slide; None where there is none.
        stale: None, or why the text may no longer be true.
        text: what is cited, code point for code point.
    """

    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(default=Layer.DETAIL, converter=to_layer)
    version: int
    start: int
    end: int
    lines: tuple[int, int] | None = None
    heading_path: tuple[str, ...] = ()
    locator: str | None = None
    stale: StaleReason | None = None
    text: str = attrs.field(repr=False)

    def __str__(self) -> str:
        """Where it is from, for people: ``dataset/document:5-9  Heading > Heading``."""
        place = f"{self.dataset_id}/{self.doc_name}"
        if self.locator is not None:
            place += f", {self.locator}"
        elif self.lines is not None:
            first, last = self.lines
            place += f":{first}" if first == last else f":{first}-{last}"
        if self.layer is not Layer.DETAIL:
            place += f" {self.layer}"
        stale = f"  stale: {self.stale}" if self.stale else ""
        section = f"  {' > '.join(self.heading_path)}" if self.heading_path else ""
        return f"{place}{section}{stale}"


@attrs.frozen(kw_only=True, slots=True)
class Piece:
    """One passage of a pack.

    ``number`` is its rank: 1 is the best. ``cut`` is whether the passage goes on in its source
    and was ended at a sentence for the budget's sake. ``score`` orders the pieces of one pack
    and means nothing beyond it. ``sig`` says what the chunk, or the layer, was made from and with.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("signs",)

    number: int
    citation: Citation
    cut: bool = False
    score: float = 0.0
    sig: DerivedSig = attrs.field(factory=DerivedSig, repr=False, eq=False)

    @property
    def text(self) -> str:
        """The text of its citation."""
        return self.citation.text

    @property
    def signs(self) -> tuple[Sign, ...]:
        """What in the text looks like instructions to a model, or hides from a reader."""
        from triptych.text.injection import suspicious  # its patterns take a while to compile

        return suspicious(self.text)

    @property
    def sign_kinds(self) -> tuple[str, ...]:
        """The kinds of signs in its text, and in the names that a model is shown with it."""
        from triptych.text.injection import suspicious

        shown = "\n".join((self.citation.doc_name, *self.citation.heading_path))
        return tuple(dict.fromkeys(sign.kind for sign in (*self.signs, *suspicious(shown))))


@attrs.frozen(kw_only=True, slots=True)
class Verification:
    """What became of a citation.

    Attributes:
        status: "fresh": the text stands in its source as cited, if perhaps elsewhere in it.
            "changed": what stands there now differs, or a layer is no longer true to what it
            was made from. "gone": the document is, or nothing is left of the passage in it.
        citation: what was verified.
        version: the document's version now, 0 where it is gone.
        start: where the passage stands now, code points; None where it is gone.
        end: where it ends now.
        moved: whether it stands elsewhere than cited.
        stale: of a layer, why it is stale now.
        text: what stands there now, "" where it is gone.
        diff: from the cited text to what stands there now, as a unified diff; "" if equal.
    """

    status: Literal["fresh", "changed", "gone"]
    citation: Citation
    version: int = 0
    start: int | None = None
    end: int | None = None
    moved: bool = False
    stale: StaleReason | None = None
    text: str = attrs.field(default="", repr=False)
    diff: str = attrs.field(default="", repr=False)
