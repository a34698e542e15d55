"""Looking up what an answer says word by word in the passages that it cites, without a model.

A changed negation, a conclusion or a paraphrase without a figure, date, name or code is out of
reach: nothing here says that a sentence is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

import attrs
import regex

from triptych.answers.citations import CitationFilter, sentences_of
from triptych.answers.claims import FoundClaim, claims_of, is_long, tokens_of, without
from triptych.answers.pieces import Piece
from triptych.answers.records import AnswerSentence, Claim, ClaimKind, ClaimPlace, ClaimStatus
from triptych.records import Hit
from triptych.text.quantities import Quantity, counts_of, dates_of, decimal_mark, figures_of

_Span = tuple[int, int]
_ATOM: Final = regex.compile(
    r"[\p{L}\p{N}_][\p{L}\p{N}_./@:-]*[\p{L}\p{N}_]|--?[\w-]+|\d", regex.V1
)
_RUN: Final = 4
"""The least words of a run by which a sentence repeats a passage."""


class Passage:
    """A text that claims are looked up in: a piece of the context, or a hit outside of it."""

    def __init__(self, place: ClaimPlace, text: str, above: str = "", names: str = "") -> None:
        """``above`` and ``names`` are what a model sees beside it; names have no figures."""
        self.place = place
        self._length = len(text)
        self._said = f"{text}\n\n{above}\n\n"
        self._text = self._said + names

    @classmethod
    def of_piece(cls, piece: Piece) -> Passage:
        """The passage of a piece."""
        cited = piece.citation
        of = ("dataset_id", "doc_name", "layer", "version", "start", "end")
        place = ClaimPlace(number=piece.number, **{name: getattr(cited, name) for name in of})
        above = "\n".join((*cited.heading_path, cited.locator or ""))
        lines = "" if cited.lines is None else f":{cited.lines[0]}-{cited.lines[-1]}"
        names = f"{cited.dataset_id}/{cited.doc_name}{lines} v{cited.version}\n{cited.doc_name}"
        return cls(place, piece.text, above, names)

    @classmethod
    def of_hit(cls, hit: Hit) -> Passage:
        """The passage of a hit outside the context."""
        place = ClaimPlace(
            dataset_id=hit.dataset_id,
            doc_name=hit.doc_name,
            layer=hit.layer,
            version=hit.sig.source_version,
            start=hit.start,
            end=hit.end,
        )
        return cls(place, hit.content)

    def at(self, span: _Span) -> ClaimPlace:
        """The place of a span; that of the text's beginning for its headings."""
        start, end = (self.place.start + min(each, self._length) for each in span)
        return attrs.evolve(self.place, start=start, end=end)

    @cached_property
    def _index(self) -> tuple[str, dict[int, int], dict[int, int]]:
        # Joined without blanks: a word may be divided at the end of a line.
        joined, starts, ends = [], {}, {}
        at = 0
        for token in tokens_of(self._text):
            starts[at] = token.start
            at += len(token.text)
            ends[at] = token.end
            joined.append(token.text)
        return "".join(joined), starts, ends

    @cached_property
    def _quantities(self) -> tuple[list[Quantity], frozenset[float]]:
        dates = list(dates_of(self._said))
        years = [Quantity(each.start, each.end, (each.date[0],)) for each in dates if each.date[0]]
        left = without(self._said, (each[:2] for each in dates))
        decimal = decimal_mark(self._said)
        figures = [*figures_of(left, decimal), *counts_of(left), *years]
        numbers = frozenset(value for each in figures for value in each.values)
        return [*dates, *figures], numbers

    def run(self, words: Sequence[str], after: int = 0) -> _Span | None:
        """Where ``words`` stand in one run, as a span of the text."""
        joined, starts, ends = self._index
        wanted = "".join(words)
        at = joined.find(wanted)
        while at >= 0:
            end = at + len(wanted)
            if at in starts and end in ends and starts[at] >= after:
                return starts[at], ends[end]
            at = joined.find(wanted, at + 1)
        return None

    def quantity(self, readings: Sequence[Quantity]) -> _Span | None:
        """Where a figure or a date stands, in any way of writing it."""
        known, numbers = self._quantities
        said = (each for each in known if any(a.is_said_by(each, numbers) for a in readings))
        return next((each[:2] for each in said), None)

    def code(self, text: str) -> _Span | None:
        """Where code stands, letter by letter; else, of a snippet, each of its words."""
        exact = self._exact(text.strip().removesuffix("()"))
        atoms = [each.group() for each in _ATOM.finditer(text)]
        if exact is None and atoms and any(each in text for each in " (=\"'"):
            spans = [self._exact(atom) for atom in atoms]
            return spans[0] if all(spans) else None
        return exact

    def _exact(self, text: str) -> _Span | None:
        words = r"\s+".join(r"\\?".join(map(regex.escape, word)) for word in text.split())
        before = r"(?<![\w-])" if text[:1].isalnum() or text[:1] in "-_" else ""
        after = r"(?!\w|-\w)" if text[-1:].isalnum() or text[-1:] == "_" else ""
        found = regex.search(before + words + after, self._text) if words else None
        return None if found is None else found.span()

    def name(self, text: str) -> _Span | None:
        """Where a name stands, or each of its words, with other endings."""
        words = [token.text for token in tokens_of(text.removesuffix("'s").removesuffix("’s"))]
        if words and (span := self.run(words)):
            return span
        spans = [self._inflected(word) for word in words]
        return spans[0] if spans and all(spans) else None

    def _inflected(self, word: str) -> _Span | None:
        joined, starts, _ = self._index
        stem = word[: max(len(word) - 2, 4)] if len(word) > 5 else word.removesuffix("s")
        at = joined.find(stem)
        while at >= 0 and at not in starts:
            at = joined.find(stem, at + 1)
        return None if at < 0 else (starts[at], starts[at] + len(stem))

    def look(self, claim: FoundClaim, text: str) -> _Span | None:
        """Where the passage has a claim; ``text`` is the claim's."""
        if claim.quantities:
            return self.quantity(claim.quantities)
        if claim.kind == "quotation":
            return self._quotation(claim.parts)
        return self.code(text) if claim.kind == "code" else self.name(text)

    def _quotation(self, parts: Iterable[Sequence[str]]) -> _Span | None:
        start, end = -1, 0
        for part in parts:
            span = self.run(part, end)
            if span is None:
                return None
            start, end = span[0] if start < 0 else start, span[1]
        return start, end


Search = Callable[[FoundClaim, str], Iterable[Passage]]
"""Finds passages outside the context, for a claim and words to search for."""


def _runs(words: Sequence[str], passages: Sequence[Passage]) -> list[tuple[int, ClaimPlace | None]]:
    """``words`` cut into the longest runs that a passage has: their lengths and places."""
    runs: list[tuple[int, ClaimPlace | None]] = []
    at = 0
    while at < len(words):
        size, place = 0, None
        for passage in passages:
            while at + size < len(words) and (span := passage.run(words[at : at + size + 1])):
                size, place = size + 1, passage.at(span)
        runs.append((max(size, 1), place))
        at += max(size, 1)
    return runs


def claiming(text: str, reading: CitationFilter) -> tuple[AnswerSentence, ...]:
    """The sentences of ``text``, which ``reading`` let through, that may hold claims."""
    return sentences_of(text, reading.marks, reading.code, introductions=True)


def prove(
    text: str,
    pieces: Iterable[Piece],
    question: str = "",
    search: Search = lambda claim, words: (),
) -> tuple[Claim, ...]:
    """What the text of an answer says word by word, in order: `Answer.proof`, without a Service.

    ``pieces`` are those of its context, from `ContextPack.pieces` or `Replay.pieces`. Names and
    code of ``question`` are no claims. Equal arguments give equal claims.
    """
    pieces = tuple(pieces)
    reading = CitationFilter({each.number for each in pieces})
    text = reading.feed(text) + reading.end()
    return Prover(pieces, question).prove(text, claiming(text, reading), search)


class Prover:
    """Looks up the claims of an answer in the pieces of its context.

    Equal texts, sentences and pieces give equal claims.
    """

    def __init__(self, pieces: Iterable[Piece], given: str = "") -> None:
        """``given`` is the question: its names and code are no claims."""
        self._passages = [Passage.of_piece(each) for each in sorted(pieces, key=lambda p: p.number)]
        self._given = given

    def prove(
        self,
        text: str,
        sentences: Sequence[AnswerSentence],
        search: Search = lambda claim, words: (),
    ) -> tuple[Claim, ...]:
        """The claims of an answer, in order.

        ``search`` finds passages outside the context for a claim and words; claims that no piece
        has are looked up in them.
        """
        proven: list[Claim] = []
        for found in claims_of(text, sentences, self._given):
            of = sentences[slice(*found.sentences)]
            numbers = tuple(dict.fromkeys(number for each in of for number in each.numbers))
            said = text[found.start : found.end]
            status, place = self._looked_up(found, said, numbers)
            if status in ("stitched", "nowhere"):
                words = of[0].text if found.quantities else said
                for passage in search(found, words):
                    if span := passage.look(found, said):
                        status, place = "elsewhere", passage.at(span)
                        break
            proven.append(_claim(said, found.start, found.kind, status, numbers, place))
        wrong = [each for each in proven if each.status != "supported"]
        for each in sentences:
            if not any(claim.start < each.end and each.start < claim.end for claim in wrong):
                proven += self._taken_over(each)
        return tuple(sorted(proven, key=lambda claim: (claim.start, claim.end)))

    def _looked_up(
        self, found: FoundClaim, said: str, numbers: Sequence[int]
    ) -> tuple[ClaimStatus, ClaimPlace | None]:
        cited = [each for each in self._passages if not numbers or each.place.number in numbers]
        others = [each for each in self._passages if each not in cited]
        ways: tuple[tuple[ClaimStatus, list[Passage]], ...]
        ways = ("supported", cited), ("elsewhere", others)
        for status, passages in ways:
            for passage in passages:
                if span := passage.look(found, said):
                    return status, passage.at(span)
        words = [word for part in found.parts for word in part]
        least = 3 if len(words) > 5 else 2
        for passages in (cited, self._passages) if words else ():
            runs = _runs(words, passages)
            if all(place for _, place in runs) and is_long(words, least * len(runs) - least + 1):
                return "stitched", runs[0][1]
        return "nowhere", None

    def _taken_over(self, sentence: AnswerSentence) -> list[Claim]:
        """The claim of a sentence that repeats another passage than those that it cites."""
        words = [token.text for token in tokens_of(sentence.text)]
        if not sentence.numbers or not is_long(words, 6):
            return []

        def share(passage: Passage) -> tuple[float, ClaimPlace | None]:
            long = [run for run in _runs(words, [passage]) if run[1] and run[0] >= _RUN]
            return sum(size for size, _ in long) / len(words), long[0][1] if long else None

        cited = [each for each in self._passages if each.place.number in sentence.numbers]
        if any(share(passage)[0] > 0.3 for passage in cited):
            return []
        others = [share(each) for each in self._passages if each not in cited]
        best, place = max(others, key=lambda each: each[0], default=(0.0, None))
        if best < 0.7:
            return []
        at, numbers = sentence.start, sentence.numbers
        return [_claim(sentence.text, at, "quotation", "elsewhere", numbers, place)]


def _claim(
    text: str,
    start: int,
    kind: ClaimKind,
    status: ClaimStatus,
    numbers: tuple[int, ...],
    found: ClaimPlace | None,
) -> Claim:
    end = start + len(text)
    return Claim(
        text=text, start=start, end=end, kind=kind, status=status, numbers=numbers, found=found
    )
