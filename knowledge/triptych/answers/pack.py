"""Pieces in a pack under a budget."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Self

import attrs

from triptych.answers.pieces import Piece
from triptych.answers.receipt import ContextReceipt, ReceiptQuery, receipt_piece
from triptych.answers.rendering import check_format, fit, render, whole
from triptych.records.serialization import NOT_PLAIN
from triptych.signatures import content_sha256
from triptych.text.tokens import ESTIMATE, default_counter


@attrs.frozen(kw_only=True, slots=True)
class ContextPack:
    """What `Service.context` found for a query, in the order in which it should be read.

    The best piece stands first and the second best last: readers, people and models alike,
    attend least to the middle (Liu et al. 2024, Lost in the Middle, TACL 12). Equal queries on
    equal stores give equal packs.

    Attributes:
        query: what was asked.
        pieces: in reading order; their numbers tell their ranks.
        budget: the maximum number of tokens that any rendering may cost.
        tokens: what the rendering in ``format`` costs.
        format: the format that the pieces were chosen for.
        counter: what counted the tokens; ``exact`` is False where it is an estimate.
        warnings: of the searches, and of what the budget left no room for.
        as_of: the moment or version that was searched, None for what is stored now.
        mark: the name of the delimiters around each text, which no document holds; "" where no
            fence was asked for. It is drawn at random for each call, and differs between equal
            packs.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("text", "receipt")

    query: str
    pieces: tuple[Piece, ...] = ()
    budget: int
    tokens: int
    format: str
    counter: str
    exact: bool
    warnings: tuple[str, ...] = ()
    as_of: int | datetime | None = None
    count: Callable[[str], int] = attrs.field(repr=False, eq=False, metadata=NOT_PLAIN)
    mark: str = attrs.field(default="", eq=False)
    trace: Callable[[ContextReceipt], ContextReceipt] | None = attrs.field(
        default=None, repr=False, eq=False, metadata=NOT_PLAIN
    )

    @classmethod
    def __from_plain__(cls, *, text: str, receipt: ContextReceipt, **fields: Any) -> Self:
        """A pack that somebody else made.

        Tokens are counted by what counts here where its counter is not: the text in the format
        that was asked for is the same either way.
        """
        ours = default_counter()
        same = fields["counter"] == ours.name

        def count(text: str) -> int:
            if same:
                return ours.count(text)
            own = whole(made.pieces, made.format, made._mark(made.format))
            return made.tokens if text == own else ESTIMATE.count(text)

        made = cls(**fields, count=count, trace=lambda plain: receipt)
        return made

    @property
    def text(self) -> str:
        """The pieces in the pack's ``format``."""
        return self.render()

    def render(self, format: str | None = None) -> str:
        """The pieces as text: "text", "markdown", "xml" or "json"; None is the pack's ``format``.

        Never above the budget: in a format that takes more room than the one the pieces were
        chosen for, the last ranks are left out (`fitted` tells which are in). Without a piece
        the format's empty frame, or "" where even that is above the budget.

        No document can forge structure: XML and JSON escape, Markdown fences each text with
        more backticks than it holds, and plain text indents it by one blank, where the lines
        that name a source begin without one. With a fence, each text stands between two lines
        ``<text-…>`` and ``</text-…>`` too, whose name is this pack's ``mark``, and plain text is
        not indented.

        Raises:
            ValidationError: there is no such format.
        """
        format = check_format(format or self.format)
        return render(self._fit(format), format, self.budget, self.count, self._mark(format))

    def fitted(self, format: str | None = None) -> tuple[Piece, ...]:
        """The pieces that `render` shows in this format, in reading order."""
        return self._fit(check_format(format or self.format))

    @property
    def receipt(self) -> ContextReceipt:
        """What was considered, taken and left out, and all that makes the text again.

        It is made when it is asked for. `Service.replay` reads it.
        """
        plain = ContextReceipt(
            query=ReceiptQuery(text=self.query),
            budget=self.budget,
            tokens=self.tokens,
            counter=self.counter,
            format=self.format,
            mark=self.mark,
            pieces=tuple(map(receipt_piece, self.pieces)),
            sha256=content_sha256(self.render()),
            warnings=self.warnings,
        )
        return plain if self.trace is None else self.trace(plain)

    def _fit(self, format: str) -> tuple[Piece, ...]:
        return fit(self.pieces, format, self.budget, self.count, self._mark(format))

    def _mark(self, format: str) -> str:
        return "" if format == "json" else self.mark
