"""A chunk's row, and its set's signature, between the database and the records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from triptych.records import DerivedChunk, DerivedSig, Vector
from triptych_backends.sql.checksums import text_checksum
from triptych_backends.sql.deferred import tables as t

_c = t.chunk.c
COLUMNS = (
    _c.position,
    _c.span_start,
    _c.span_end,
    _c.byte_offset,
    _c.start_line,
    _c.window_start,
    _c.window_end,
    _c.locator,
    _c.heading_path,
    _c.input_sig,
    _c.content,
    _c.checksum,
    _c.occurrence,
)
"""What `chunk_of` takes, in its order."""

_v = t.derivation.c
SIG_COLUMNS = (_v.source_version, _v.chunker_sig, _v.prompt_sig, _v.embed_sig, _v.input_sig)
"""What `sig_of` takes, in its order."""


@lru_cache(maxsize=4096)
def headings_text(headings: tuple[str, ...]) -> str | None:
    """A heading path as it is stored."""
    return json.dumps(headings, ensure_ascii=False) if headings else None


@lru_cache(maxsize=4096)
def headings_of(text: str | None) -> tuple[str, ...]:
    """A heading path from what is stored."""
    return tuple(json.loads(text)) if text else ()


def sig_of(row: Sequence[Any]) -> DerivedSig:
    """The signature in the columns `SIG_COLUMNS`."""
    return DerivedSig(
        source_version=row[0],
        chunker_sig=row[1],
        prompt_sig=row[2],
        embed_sig=row[3],
        input_sig=row[4],
    )


def row_of(
    pk: int, document: int, name: str, chunk: DerivedChunk, vector: int | None
) -> tuple[Any, ...]:
    """A row of `chunk`, in the table's order."""
    content, headings = chunk.content.encode(), headings_text(chunk.heading_path)
    return (
        pk,
        document,
        chunk.index,
        chunk.start,
        chunk.end,
        chunk.offset,
        chunk.start_line,
        chunk.window_start,
        chunk.window_end,
        chunk.locator,
        headings,
        chunk.sig.input_sig,
        vector,
        content,
        text_checksum(content, name, chunk.index, headings),
        chunk.occurrence,
    )


def chunk_of(
    dataset: str,
    name: str,
    row: Sequence[Any],
    sig: DerivedSig,
    vector: Vector | None = None,
) -> DerivedChunk:
    """The chunk in the columns `COLUMNS`, of the set with signature ``sig``.

    Raises:
        ValueError: the row is damaged.
    """
    if row[11] != text_checksum(row[10], name, row[0], row[8]):
        raise ValueError("its text fails its checksum")
    return DerivedChunk(
        dataset_id=dataset,
        doc_name=name,
        index=row[0],
        start=row[1],
        end=row[2],
        offset=row[3],
        start_line=row[4],
        content=row[10].decode(),
        sig=DerivedSig(
            source_version=sig.source_version,
            chunker_sig=sig.chunker_sig,
            prompt_sig=sig.prompt_sig,
            embed_sig=sig.embed_sig,
            input_sig=row[9],
        ),
        vector=vector,
        heading_path=headings_of(row[8]),
        window_start=row[5],
        window_end=row[6],
        locator=row[7],
        occurrence=row[12],
    )
