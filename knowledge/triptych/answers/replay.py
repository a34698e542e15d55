"""What a receipt describes, made again from the versions that the store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from triptych import deadlines
from triptych.answers.pieces import Piece
from triptych.answers.prompt import answer_messages
from triptych.answers.receipt import ContextReceipt, ReceiptPiece
from triptych.answers.records import AnswerReceipt, messages_sha256
from triptych.answers.rendering import check_format, whole
from triptych.contracts import LayerRepo, VersionReader
from triptych.derivation.expiration import LivingDocuments
from triptych.errors import ValidationError
from triptych.records import Layer, Message
from triptych.signatures import content_sha256


@attrs.frozen(kw_only=True, slots=True)
class MissingPiece:
    """A piece that cannot be made again; ``reason`` says why, in words."""

    piece: ReceiptPiece
    reason: str


@attrs.frozen(kw_only=True, slots=True)
class Replay:
    """A context made again.

    Attributes:
        text: the context, of the pieces that are still there.
        identical: whether it is, byte for byte, what the receipt is of; of an answer, whether the
            messages are too.
        pieces: those that are there, in reading order.
        missing: those that are not.
        messages: of an answer, what the model was sent.
    """

    text: str = attrs.field(repr=False)
    identical: bool
    pieces: tuple[Piece, ...] = ()
    missing: tuple[MissingPiece, ...] = ()
    messages: tuple[Message, ...] = attrs.field(default=(), repr=False)


def replay(
    receipt: Any,
    documents: LivingDocuments,
    layers: LayerRepo,
    versions: VersionReader | None,
) -> Replay:
    """See `Service.replay`."""
    if isinstance(receipt, AnswerReceipt):
        return _answer(receipt, documents, layers, versions)
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
    documents: LivingDocuments,
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


class _Reader:
    """Texts of pieces; each version of a document is read once."""

    def __init__(
        self, documents: LivingDocuments, layers: LayerRepo, versions: VersionReader | None
    ) -> None:
        self._documents = documents
        self._layers = layers
        self._versions = versions
        self._read: dict[tuple[str, str, int], str | None] = {}

    def text(self, piece: ReceiptPiece) -> str | MissingPiece:
        if piece.layer is not Layer.DETAIL:
            return self._layer(piece)
        content = self._content(piece.dataset_id, piece.doc_name, piece.version)
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

    def _content(self, dataset_id: str, name: str, version: int) -> str | None:
        key = dataset_id, name, version
        if key not in self._read:
            current = self._documents.get(dataset_id, name)
            found: str | None = None
            if current is None:
                pass  # its versions are gone with it
            elif current.version == version:
                found = current.content
            elif self._versions is not None:
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
