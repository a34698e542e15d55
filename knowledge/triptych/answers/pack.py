"""Packs of pieces within a budget, and receipts from which a context can be rebuilt.

A receipt has spans, versions and digests, but no text of documents except names and headings.
Passages are plain references while a context is packed; they become records when the receipt is
read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Self

import attrs

from triptych.answers.pieces import Citation, Piece, check_format, fit, render, whole
from triptych.answers.prefix import ContextPrefix
from triptych.records import (
    NO_CHUNK,
    Candidate,
    DerivedSig,
    Evidence,
    Hit,
    Layer,
    Query,
    StaleReason,
    to_layer,
)
from triptych.records.serialization import NOT_PLAIN, from_dict, to_json
from triptych.signatures import content_sha256
from triptych.text.tokens import ESTIMATE, default_counter

if TYPE_CHECKING:
    from triptych.answers.retrieval import Retrieved, ScoredPassage

Fate = Literal["taken", "cut", "repeated", "budget", "limit", "threshold", "gone", "skipped"]
"""The decision about a passage: included; included in part; already covered by the context; no
room; more than ``max_pieces`` better pieces; fused score below the query's threshold; replaced
during the call; not considered, because the budget was spent or because other text of the layer's
document is included."""


class Offer(NamedTuple):
    """One look at a find: the hit that it stands for, and what became of it."""

    find: ScoredPassage
    hit: Hit | None
    fate: Fate


@attrs.frozen(kw_only=True, slots=True)
class ConsideredPassage:
    """A passage that the searches found.

    Attributes:
        dataset_id, doc_name, layer: where it is.
        chunk: its index; -1 for a layer.
        version: of the document that it is of; 0 for layers of folders and datasets, and below the
            threshold, where no text is read.
        start, end: its span in code points, None where nobody looked at it.
        score: what it was ordered by in this context; below the threshold the fused score.
        scores: its score by lane. A passage that stands beside a hit has the hit's.
        fate: what became of it.
        number: of the piece that it is in, None where it is in none.
    """

    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(default=Layer.DETAIL, converter=to_layer)
    chunk: int = NO_CHUNK
    version: int = 0
    start: int | None = None
    end: int | None = None
    score: float = 0.0
    scores: Mapping[str, float] = attrs.field(factory=dict)
    fate: Fate
    number: int | None = None


_CITED: Final = tuple(each.name for each in attrs.fields(Citation) if each.name != "text")
"""The fields of a citation that are in a receipt."""


@attrs.frozen(kw_only=True, slots=True)
class ReceiptPiece:
    """A piece without its text: the fields of its citation, and the SHA-256 of the text."""

    number: int
    cut: bool = False
    score: float = 0.0
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
    sig: DerivedSig = attrs.field(factory=DerivedSig)
    sha256: str

    def with_text(self, text: str) -> Piece:
        """The piece again."""
        return Piece(
            number=self.number,
            cut=self.cut,
            score=self.score,
            sig=self.sig,
            citation=Citation(text=text, **{name: getattr(self, name) for name in _CITED}),
        )


@attrs.frozen(kw_only=True, slots=True)
class ReceiptQuery:
    """The query as it was asked; ``where`` as JSON, ``as_of`` as text."""

    text: str
    dataset_id: str = ""
    dataset_ids: tuple[str, ...] = ()
    scope: str = "single"
    mode: str | None = None
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    where: str = "{}"
    fresh_only: bool = False
    keyword_boost: float = 0.0
    syntax: bool = False
    as_of: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class ContextReceipt:
    """How a context came about. `Service.replay` makes its text again.

    `triptych.records.serialization` turns it into JSON and back.

    Attributes:
        query: what was asked.
        layers: the layers that were searched.
        budget: the maximum number of tokens.
        tokens: what the text costs.
        counter: what counted them.
        format: of the text.
        mark: the name of the delimiters around each text, "" where there are none.
        configuration: signatures by name: the chunker, the embedder, the ranker, …
        pieces: what was taken, in reading order.
        considered: every passage that was found, the best first, passages before layers.
        sha256: of the text, in UTF-8.
        prefix: the digest of the prefix before it, "" without one.
        warnings: those of the context.
    """

    query: ReceiptQuery
    layers: tuple[Layer, ...] = ()
    budget: int
    tokens: int
    counter: str
    format: str
    mark: str = ""
    configuration: Mapping[str, str] = attrs.field(factory=dict)
    pieces: tuple[ReceiptPiece, ...] = ()
    considered: tuple[ConsideredPassage, ...] = attrs.field(default=(), repr=False)
    sha256: str
    prefix: str = ""
    warnings: tuple[str, ...] = ()


def receipt_query(query: Query) -> ReceiptQuery:
    """A query as a receipt keeps it."""
    return ReceiptQuery(
        text=query.text,
        dataset_id=query.dataset_id,
        dataset_ids=tuple(query.dataset_ids),
        scope=str(query.scope),
        mode=None if query.mode is None else str(query.mode),
        threshold=query.threshold,
        min_scores=dict(query.min_scores),
        where=json.dumps(dict(query.where), default=_plain, ensure_ascii=False, sort_keys=True),
        fresh_only=query.fresh_only,
        keyword_boost=query.keyword_boost,
        syntax=query.syntax,
        as_of=_moment(query),
    )


def _moment(query: Query) -> str | None:
    as_of = query.as_of
    if isinstance(as_of, datetime):
        return as_of.isoformat()
    return None if as_of is None else str(as_of)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return {"$date": value.isoformat()}
    return list(value) if isinstance(value, Iterable) else str(value)


def receipt_piece(piece: Piece) -> ReceiptPiece:
    """A piece as a receipt keeps it."""
    cited = piece.citation
    return ReceiptPiece(
        number=piece.number,
        cut=piece.cut,
        score=piece.score,
        sig=piece.sig,
        sha256=content_sha256(cited.text),
        **{name: getattr(cited, name) for name in _CITED},
    )


def considered(
    found: Retrieved,
    offers: Sequence[Offer],
    pieces: Sequence[Piece],
    max_pieces: int | None = None,
) -> tuple[ConsideredPassage, ...]:
    """What became of everything in ``found``."""
    # A find that had no room comes again where there is more, and so does what was taken.
    looks: dict[_Key, Offer] = {}
    for offer in offers:
        key = _key(offer.find)
        if key not in looks or looks[key].fate not in ("taken", "cut"):
            looks[key] = offer
    over: Fate = "limit" if len(pieces) == max_pieces else "budget"
    finds = (*found.passages, *found.abstracts, *found.overviews)
    taken = [
        _considered(find, looks.get(_key(find)), pieces, over)
        for find in finds
        # No search found what stands beside a hit: it counts where somebody looked and it exists.
        if find.index == find.hit.chunk_index
        or ((look := looks.get(_key(find))) is not None and look.hit is not None)
    ]
    return (*taken, *map(_below, found.below))


def _below(candidate: Candidate) -> ConsideredPassage:
    return ConsideredPassage(
        dataset_id=candidate.dataset_id,
        doc_name=candidate.doc_name,
        chunk=candidate.index,
        score=candidate.score,
        scores=dict(candidate.scores),
        fate="threshold",
    )


_Key = tuple[str, str, Layer | None, int]


def _key(find: ScoredPassage) -> _Key:
    return *find.place, find.hit.layer, find.index


def _considered(
    find: ScoredPassage, offer: Offer | None, pieces: Sequence[Piece], over: Fate
) -> ConsideredPassage:
    hit = find.hit
    fate: Fate = "skipped" if offer is None else offer.fate
    seen = hit if offer is None and find.index == hit.chunk_index else offer and offer.hit
    number = None
    if fate in ("taken", "cut") and seen is not None:
        number = _piece_with(seen, pieces)
        if number is None:
            fate = over  # it was taken, and is of the last ranks, which were left out
    return ConsideredPassage(
        dataset_id=hit.dataset_id,
        doc_name=hit.doc_name,
        layer=hit.layer or Layer.DETAIL,
        chunk=find.index,
        version=hit.sig.source_version,
        start=None if seen is None else seen.start,
        end=None if seen is None else seen.end,
        score=find.score,
        scores=dict(hit.scores),
        fate=fate,
        number=number,
    )


def _piece_with(hit: Hit, pieces: Sequence[Piece]) -> int | None:
    place = hit.dataset_id, hit.doc_name, hit.layer or Layer.DETAIL
    for piece in pieces:
        cited = piece.citation
        if (
            (cited.dataset_id, cited.doc_name, cited.layer) == place
            and cited.start < hit.end
            and hit.start < cited.end
        ):
            return piece.number
    return None


@attrs.frozen(kw_only=True, slots=True)
class ContextPack:
    """The result of `Service.context`: the selected pieces in reading order.

    The best piece is first and the second best last, because readers attend least to the middle
    (Liu et al. 2024, Lost in the Middle, TACL 12). Equal queries on equal stores give equal packs.

    Attributes:
        query: the text of the query.
        pieces: the pieces in reading order; their numbers are their ranks.
        budget: the maximum number of tokens of any rendering.
        tokens: the number of tokens of the rendering in ``format``.
        format: the format for which the pieces were chosen.
        counter: the counter of the tokens; ``exact`` is False if it estimates them.
        warnings: the warnings of the searches, and what did not fit the budget.
        as_of: the moment or version that was searched, None for the current state.
        evidence: `Result.evidence` of the search for chunks, None without chunks.
        prefix: the part of the prompt that precedes it and is the same for every question; None
            without ``prefix_tokens``. No piece repeats a piece of it, but sentences may recur.
        mark: the name of the delimiters around each text, which occurs in no document; "" without
            ``fence``. It is random in each call, even for equal packs.
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
    evidence: Evidence | None = None
    prefix: ContextPrefix | None = None
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

    def __reduce__(self) -> tuple[object, ...]:
        """As its plain form, with the receipt: what counts and completes it stays here."""
        return from_dict, (type(self), to_json(self))

    @property
    def text(self) -> str:
        """The pieces in the pack's ``format``, without the prefix."""
        return self.render()

    @property
    def tail(self) -> str:
        """The part of the prompt after the prefix: `text`."""
        return self.text

    def as_search_results(self) -> list[dict[str, Any]]:
        """The pieces as content blocks of Anthropic's API: `triptych.answers.as_search_results`."""
        from triptych.answers.search_results import as_search_results

        return as_search_results(self)

    def render(self, format: str | None = None) -> str:
        """Render the pieces as "text", "markdown", "xml" or "json"; None is the pack's ``format``.

        The result never exceeds the budget: if the format is longer than the one the pieces were
        chosen for, the last ranks are dropped (see `fitted`). Without pieces the result is the
        format's empty frame, or "" if even that exceeds the budget.

        No document can forge structure: XML and JSON escape texts, Markdown fences each text with
        more backticks than it contains, and plain text indents it by one space, unlike the lines
        that name a source. With ``fence`` each text is also between the lines ``<text-…>`` and
        ``</text-…>``, named by this pack's ``mark``, and plain text is not indented.

        Raises:
            ValidationError: there is no such format.
        """
        format = check_format(format or self.format)
        return render(self._fit(format), format, self.budget, self.count, self._mark(format))

    def fitted(self, format: str | None = None) -> tuple[Piece, ...]:
        """Return the pieces that `render` includes in this format, in reading order."""
        return self._fit(check_format(format or self.format))

    @property
    def receipt(self) -> ContextReceipt:
        """The receipt: all passages considered, included and left out, for `Service.replay`.

        It is created at first access.
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
            prefix="" if self.prefix is None else self.prefix.digest,
            warnings=self.warnings,
        )
        return plain if self.trace is None else self.trace(plain)

    def _fit(self, format: str) -> tuple[Piece, ...]:
        return fit(self.pieces, format, self.budget, self.count, self._mark(format))

    def _mark(self, format: str) -> str:
        return "" if format == "json" else self.mark
