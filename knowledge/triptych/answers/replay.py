"""Verifying citations, and rebuilding the context of a receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import attrs
import regex

from triptych import deadlines
from triptych.answers.claims import FoundClaim
from triptych.answers.options import answer_messages
from triptych.answers.pack import ContextReceipt, ReceiptPiece
from triptych.answers.pieces import Citation, Piece, Verification, check_format, whole
from triptych.answers.proof import Passage, prove
from triptych.answers.records import AnswerReceipt, Claim, messages_sha256
from triptych.contracts import DocumentReader, LayerRepo, VersionReader
from triptych.derivation.layers import LayerService
from triptych.derivation.versions import LAST_VERSION
from triptych.errors import ValidationError
from triptych.records import Layer, Message, check_text
from triptych.signatures import content_sha256
from triptych.text.sequence_diff import matching_blocks, unified_diff

_LEAST_ALIKE: Final = 0.4
"""The minimum share of a passage's words that must remain for "changed" instead of "gone"."""

_DOING: Final = "the verification of a citation"

_WORD: Final = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}]|[\p{L}\p{M}\p{N}]+|[^\s\p{L}\p{M}\p{N}]+", regex.V1
)


def verify(citation: Any, documents: DocumentReader, layers: LayerService) -> Verification:
    """See `Service.verify`."""
    if not isinstance(citation, Citation):
        raise ValidationError(
            f"verify takes the Citation of a piece, not {type(citation).__name__}: "
            "read one back with triptych.records.serialization.from_dict(Citation, …)"
        )
    if citation.layer is not Layer.DETAIL:
        return _verify_layer(citation, layers)
    document = documents.get(citation.dataset_id, citation.doc_name)
    if document is None:
        return _gone(citation, 0)
    return _compared(citation, document.content, document.version)


def _verify_layer(citation: Citation, layers: LayerService) -> Verification:
    stored = layers.get(citation.dataset_id, citation.doc_name, citation.layer)
    if stored is None:
        return _gone(citation, 0)
    found = _compared(citation, stored.content, stored.sig.source_version)
    if stored.stale is None:
        return found
    # The words may be the same, and yet no longer true to what they sum up.
    status: Literal["changed", "gone"] = "gone" if found.status == "gone" else "changed"
    return attrs.evolve(found, status=status, stale=stored.stale)


def _compared(citation: Citation, content: str, version: int) -> Verification:
    at = _standing(citation, content)
    if at is not None:
        return Verification(
            status="fresh",
            citation=citation,
            version=version,
            start=at,
            end=at + len(citation.text),
            moved=at != citation.start,
            text=citation.text,
        )
    span = _changed_span(citation, content)
    if span is None:
        return _gone(citation, version)
    start, end = span
    now = content[start:end]
    return Verification(
        status="changed",
        citation=citation,
        version=version,
        start=start,
        end=end,
        moved=start != citation.start,
        text=now,
        diff=_diff(citation, now, version),
    )


def _gone(citation: Citation, version: int) -> Verification:
    return Verification(
        status="gone", citation=citation, version=version, diff=_diff(citation, "", version)
    )


def _standing(citation: Citation, content: str) -> int | None:
    """Where the cited text stands, as near as can be to where it stood."""
    text, start = citation.text, citation.start
    if content.startswith(text, start):
        return start
    # Backwards by way of find: rfind takes quadratic time on repetitive text.
    head = content[: max(0, start) + len(text)]
    backwards = head[::-1].find(text[::-1])
    before = -1 if backwards < 0 else len(head) - backwards - len(text)
    behind = content.find(text, max(0, start))
    found = [at for at in (before, behind) if at >= 0]
    return min(found, key=lambda at: (abs(at - start), at), default=None)


def _changed_span(citation: Citation, content: str) -> tuple[int, int] | None:
    """What stands where the passage stood, around the words of it that are left.

    Those are looked for in the stretch of the document that holds most of the passage's words.
    None where too little is left.
    """
    deadlines.check(_DOING)
    was = [found.group() for found in _WORD.finditer(citation.text)]
    found = [(each.group(), each.start(), each.end()) for each in _WORD.finditer(content)]
    if not was or not found:
        return None
    deadlines.check(_DOING)
    first, last = _densest([word for word, _, _ in found], was)
    words = found[first:last]
    blocks = matching_blocks(was, [word for word, _, _ in words])
    if sum(block.size for block in blocks) < _LEAST_ALIKE * len(was):
        return None
    head, tail = blocks[0], blocks[-1]
    # Words that were put in the place of lost ones at either end belong to it.
    begin = max(0, head.b - head.a)
    until = min(len(words), tail.b + tail.size + (len(was) - tail.a - tail.size))
    return words[begin][1], words[until - 1][2]


def _densest(words: Sequence[str], was: Sequence[str]) -> tuple[int, int]:
    """The stretch of ``words``, some longer than ``was``, that holds most of its words.

    The first of equals; a word counts as often as it is in ``was``.
    """
    width = len(was) + len(was) // 2 + 8
    missing = Counter(was)
    held = most = best = 0
    for at, word in enumerate(words):
        missing[word] -= 1
        held += missing[word] >= 0
        if at >= width:
            leaving = words[at - width]
            held -= missing[leaving] >= 0
            missing[leaving] += 1
        if held > most:
            most, best = held, at
    # The stretch ends with the last of the words: leave room for one that was put after it.
    return max(0, best - width), min(len(words), best + 1 + len(was) // 2)


def _diff(citation: Citation, now: str, version: int) -> str:
    name = citation.doc_name or citation.dataset_id
    return unified_diff(
        _lines(citation.text),
        _lines(now),
        f"{name} (cited, version {citation.version})",
        f"{name} (version {version})" if version else f"{name} (gone)",
    )


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")] if text else []


@attrs.frozen(kw_only=True, slots=True)
class MissingPiece:
    """A piece that cannot be rebuilt; ``reason`` explains why."""

    piece: ReceiptPiece
    reason: str


@attrs.frozen(kw_only=True, slots=True)
class Replay:
    """A context rebuilt from a receipt.

    Attributes:
        text: the context of the pieces that still exist.
        identical: whether the context, and for an answer the messages, equal the original byte for
            byte.
        pieces: the pieces that still exist, in reading order.
        missing: the pieces that do not.
        messages: for an answer, the messages to the model.
        proof: the claims of the answer's text, where it was given, looked up again.
        proven: whether each claim has the status and the place that the receipt says; None without
            the answer's text.
    """

    text: str = attrs.field(repr=False)
    identical: bool
    pieces: tuple[Piece, ...] = ()
    missing: tuple[MissingPiece, ...] = ()
    messages: tuple[Message, ...] = attrs.field(default=(), repr=False)
    proof: tuple[Claim, ...] = ()
    proven: bool | None = None


def replay(
    receipt: Any,
    documents: DocumentReader,
    layers: LayerRepo,
    versions: VersionReader | None,
    answer: str | None = None,
) -> Replay:
    """See `Service.replay`."""
    if isinstance(receipt, AnswerReceipt):
        made = _answer(receipt, documents, layers, versions)
        reading = _Reader(documents, layers, versions)
        return made if answer is None else _proven(made, receipt, answer, reading)
    if answer is not None:
        raise ValidationError("a context has no answer: give the receipt of an answer with one")
    if not isinstance(receipt, ContextReceipt):
        raise ValidationError(
            f"replay takes the receipt of an answer or a context, not {type(receipt).__name__}: "
            "read one back with triptych.records.serialization.from_dict(AnswerReceipt, …)"
        )
    check_format(receipt.format)
    pieces: list[Piece] = []
    missing: list[MissingPiece] = []
    reading = _Reader(documents, layers, versions)
    for each in receipt.pieces:
        deadlines.check("the replay")
        found = reading.text(each)
        if isinstance(found, MissingPiece):
            missing.append(found)
        else:
            pieces.append(each.with_text(found))
    text = whole(pieces, receipt.format, receipt.mark)
    if not receipt.pieces and content_sha256("") == receipt.sha256:
        text = ""  # the empty frame was above the budget
    return Replay(
        text=text,
        identical=content_sha256(text) == receipt.sha256,
        pieces=tuple(pieces),
        missing=tuple(missing),
    )


def _answer(
    receipt: AnswerReceipt,
    documents: DocumentReader,
    layers: LayerRepo,
    versions: VersionReader | None,
) -> Replay:
    made = replay(receipt.context, documents, layers, versions)
    if not receipt.sent:
        return made
    messages = answer_messages(
        receipt.prompt,
        receipt.conversation,
        made.text,
        receipt.context.mark,
        receipt.question,
    )
    same = made.identical and messages_sha256(messages) == receipt.sent
    return attrs.evolve(made, messages=messages, identical=same)


def _proven(made: Replay, receipt: AnswerReceipt, answer: str, reading: _Reader) -> Replay:
    """``made`` with the claims of the answer, looked up where they were."""
    if content_sha256(check_text(answer, "the answer")) != receipt.text:
        raise ValidationError("this is not the text of the receipt's answer: give Answer.text")
    if receipt.abstained:
        return attrs.evolve(made, proven=True)
    places = {(each.start, each.end): each.found for each in receipt.proof}

    def outside(claim: FoundClaim, words: str) -> Iterator[Passage]:
        place = places.get((claim.start, claim.end))
        if place is not None and place.number is None:
            content = reading.content(place.dataset_id, place.doc_name, place.version)
            if content is not None:
                yield Passage(place, content[place.start : place.end])

    proof = prove(answer, made.pieces, f"{receipt.question} {receipt.standalone}", outside)
    same = tuple(attrs.evolve(each, text="") for each in proof) == receipt.proof
    return attrs.evolve(made, proof=proof, proven=same)


class _Reader:
    """Texts of pieces; each version of a document is read once."""

    def __init__(
        self, documents: DocumentReader, layers: LayerRepo, versions: VersionReader | None
    ) -> None:
        self._documents = documents
        self._layers = layers
        self._versions = versions
        self._read: dict[tuple[str, str, int], str | None] = {}

    def text(self, piece: ReceiptPiece) -> str | MissingPiece:
        if piece.layer is not Layer.DETAIL:
            return self._layer(piece)
        content = self.content(piece.dataset_id, piece.doc_name, piece.version)
        if content is None:
            return MissingPiece(piece=piece, reason=self._why(piece))
        text = content[piece.start : piece.end]
        if content_sha256(text) != piece.sha256:
            return MissingPiece(
                piece=piece,
                reason=f"version {piece.version} of {piece.doc_name!r} holds another text: the "
                "receipt is of another store, or was changed",
            )
        return text

    def _layer(self, piece: ReceiptPiece) -> str | MissingPiece:
        stored = self._layers.get(piece.dataset_id, piece.doc_name, piece.layer)
        if stored is not None:
            text = stored.content[piece.start : piece.end]
            if content_sha256(text) == piece.sha256:
                return text
        name = piece.doc_name or piece.dataset_id
        what = "is gone" if stored is None else "was written again"
        return MissingPiece(
            piece=piece,
            reason=f"the layer {piece.layer} of {name!r} {what}: stores keep no old ones",
        )

    def content(self, dataset_id: str, name: str, version: int) -> str | None:
        """The text of a version of a document; None if it is not kept."""
        key = dataset_id, name, version
        if key not in self._read:
            current = self._documents.get(dataset_id, name)
            found: str | None = None
            if current is None:
                pass  # its versions are gone with it
            elif current.version == version:
                found = current.content
            elif self._versions is not None and 0 < version <= LAST_VERSION:
                kept = self._versions.get_version(dataset_id, name, version)
                found = None if kept is None else kept.content
            self._read[key] = found
        return self._read[key]

    def _why(self, piece: ReceiptPiece) -> str:
        info = self._documents.get_info(piece.dataset_id, piece.doc_name)
        if info is None:
            return f"the document {piece.doc_name!r} is gone"
        kept: Sequence[int] = [info.version]
        if self._versions is not None:
            infos = self._versions.versions(piece.dataset_id, piece.doc_name)
            kept = [each.version for each in infos]
        return (
            f"version {piece.version} of {piece.doc_name!r} is not kept; kept are: "
            f"{', '.join(map(str, kept[:12]))}"
        )
