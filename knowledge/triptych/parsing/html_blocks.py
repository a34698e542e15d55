"""The blocks of an HTML page, made of pieces that may be left out each for itself."""

from __future__ import annotations

import attrs

from triptych.parsing.contract import one_line
from triptych.parsing.html_signs import CONTROL, Region, weigh

_FEW_LABELS = 8


@attrs.define(slots=True, eq=False)
class Piece:
    """Text of one region within a block, and the line it begins on, 0 before its first letter.

    ``label`` is true for the text of a picture.
    """

    region: Region | None
    line: int = 0
    parts: list[str] = attrs.field(factory=list)
    linked: int = 0
    label: bool = False

    @property
    def text(self) -> str:
        """Its text."""
        return "".join(self.parts)

    @property
    def kept(self) -> bool:
        """Whether it stays in the text."""
        return self.region is None or self.region.cause is None


@attrs.define(slots=True, eq=False)
class Block:
    """A piece of a page and in what it stands.

    ``main`` is true in the ``<main>``; ``article`` is the number of the outermost ``<article>``,
    else 0; ``level`` is a heading's, else 0; ``kind`` is "pre", "item" or "".
    """

    pieces: list[Piece]
    main: bool
    article: int
    kind: str = ""
    level: int = 0
    prefix: str = ""
    size: int = 0
    linked: int = 0
    prose: int = 0

    @property
    def kept(self) -> bool:
        """Whether any of it stays in the text."""
        return any(piece.kept for piece in self.pieces)

    @property
    def line(self) -> int:
        """The line that it begins on."""
        lines = [piece.line for piece in self.pieces if piece.kept and piece.line]
        return lines[0] if lines else 1

    @property
    def text(self) -> str:
        """What is kept of it, with single spaces but in ``<pre>``; line breaks are ``<br>``."""
        text = "".join(piece.text for piece in self.pieces if piece.kept)
        if self.kind == "pre":
            text = text.strip("\r\n")
        else:
            text = "\n".join(" ".join(line.split()) for line in text.strip().split("\n"))
        return text if text.strip(" \t\r\n`") else ""

    def weigh(self) -> None:
        """Drop labels that repeat its text, add what it holds to its regions, and set its size."""
        labels = [piece for piece in self.pieces if piece.label]
        if 0 < len(labels) <= _FEW_LABELS:
            said = one_line("".join(piece.text for piece in self.pieces if not piece.label))
            for piece in labels:
                piece.parts = [" "] if one_line(piece.text) in said else piece.parts
        shown = [piece for piece in self.pieces if piece.line]
        if self.level and all(each.region and each.region.kind == CONTROL for each in shown):
            for piece in shown:  # a heading that is a button is one all the same
                piece.region = piece.region and piece.region.parent
        for piece in self.pieces:
            size, linked, prose = weigh(piece.text.strip(), piece.linked)
            self.size += size
            self.linked += linked
            self.prose += prose
            if piece.region is not None:
                piece.region.hold(size, linked, prose, headed=bool(self.level))

    def repeats_in(self, other: Block) -> bool:
        """Whether it is labels of pictures only, which the text of ``other`` says, too."""
        return all(piece.label or not piece.line for piece in self.pieces) and (
            self.text.strip() in other.text
        )
