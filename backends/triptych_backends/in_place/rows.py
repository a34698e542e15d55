"""Rows as documents: a row's texts are the chunks of a document."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from triptych.records import (
    Candidate,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    Metadata,
    SourceDocument,
)
from triptych.signatures import document_info, embedding_input_sig

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When a row without a time of its own was updated."""

ROW_VERSION: Final = 1
"""The version of every row: no others are kept."""

_BETWEEN: Final = "\n\n"
"""What stands between two texts of a row in the text of its document."""


@attrs.frozen(kw_only=True)
class Row:
    """A document of a dataset: its name, its texts (None: there is none), its metadata."""

    dataset_id: str
    name: str
    texts: Sequence[str | None]
    metadata: Metadata
    updated_at: datetime

    @property
    def document(self) -> SourceDocument:
        """The row as a document of the dataset."""
        return SourceDocument(
            dataset_id=self.dataset_id,
            name=self.name,
            content=_BETWEEN.join(text for text in self.texts if text is not None),
            metadata=self.metadata,
            version=ROW_VERSION,
            updated_at=self.updated_at,
        )

    @property
    def info(self) -> DocumentInfo:
        """The same without its content."""
        return document_info(self.document)

    def chunks(self, sig: DerivedSig) -> Iterator[tuple[int, DerivedChunk]]:
        """The chunk of each text, with the text's number.

        ``sig`` is that of the set.
        """
        start = offset = position = 0
        line = 1
        for number, text in enumerate(self.texts):
            if text is None:
                continue
            yield (
                number,
                DerivedChunk(
                    dataset_id=self.dataset_id,
                    doc_name=self.name,
                    index=position,
                    start=start,
                    end=start + len(text),
                    offset=offset,
                    start_line=line,
                    content=text,
                    sig=attrs.evolve(sig, input_sig=embedding_input_sig(text)),
                ),
            )
            position += 1
            start += len(text) + len(_BETWEEN)
            offset += len(text.encode("utf-8")) + len(_BETWEEN)
            line += text.count("\n") + text.count("\r") - text.count("\r\n") + len(_BETWEEN)

    def sig(self, chunker_sig: str, embed_sig: str) -> DerivedSig:
        """The signature of the row's set: it is always fresh."""
        return DerivedSig(
            source_version=ROW_VERSION,
            chunker_sig=chunker_sig,
            embed_sig=embed_sig,
            input_sig=self.info.input_sig,
        )


def moment_of(microseconds: float) -> datetime:
    """The time so long after `EPOCH`; beyond what Python has, its first or its last."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.max if microseconds > 0 else datetime.min).replace(tzinfo=UTC)


def best_of(found: Iterable[Candidate], limit: int) -> list[Candidate]:
    """The ``limit`` best, each key once with its best score; equal scores by name and index."""
    best: dict[Hashable, Candidate] = {}
    for each in found:
        known = best.get(each.key)
        if known is None or each.score > known.score:
            best[each.key] = each
    return heapq.nsmallest(
        limit,
        best.values(),
        key=lambda each: (-each.score, each.doc_name, each.index, each.dataset_id),
    )
