"""Chunks between the database and the records: their rows, and reading them back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import attrs

from triptych._internal.turns import SEARCHES
from triptych.records import OPENING, DerivedChunk, DerivedSig, DocumentInfo, StoredUnit, Vector
from triptych.records.metadata import text_of
from triptych_backends.sql import document_rows
from triptych_backends.sql.database import Database
from triptych_backends.sql.deferred import Statement, bindparam, func, in_list, select, tables as t
from triptych_backends.sql.document_rows import info_in
from triptych_backends.sql.errors import DAMAGE, damaged_chunk
from triptych_backends.sql.transaction import Session
from triptych_backends.sql.vectors import decode_vector


def text_checksum(content: bytes, name: str, *labels: object) -> int:
    """CRC-32 of a text, its document's name, and what else says which text it is.

    It finds each change of up to 32 bits in a row, and others but for one in four billion. That is
    for damage: whoever writes to the file can write the checksum too.
    """
    return zlib.crc32(content, zlib.crc32(f"{name}\0{labels}".encode()))


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


@lru_cache(maxsize=256)
def title_in(metadata: str) -> str:
    """The title in a document's metadata as they are stored; "" for none."""
    return text_of(json.loads(metadata), "title") if '"title"' in metadata else ""


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
    dataset: str, name: str, row: Sequence[Any], sig: DerivedSig, vector: Vector | None = None
) -> DerivedChunk:
    """The chunk in the columns `COLUMNS`, of the set with signature ``sig``.

    Raises:
        ValueError: the row is damaged.
    """
    # As `text_checksum`, without a call and a tuple: ten hits of a search have ten.
    if row[11] != zlib.crc32(row[10], zlib.crc32(f"{name}\0({row[0]!r}, {row[8]!r})".encode())):
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


_DOCUMENTS_AT_ONCE = 32
FETCHED_AT_ONCE = 100
_REVISION = 4  # of `document_rows.COLUMNS`
_document = len(document_rows.COLUMNS)
_sig = _document + len(SIG_COLUMNS)
_CHUNKS = (
    select(*document_rows.COLUMNS, *SIG_COLUMNS, *COLUMNS, t.chunk.c.id, t.dataset.c.name)
    .join(t.document, t.document.c.id == t.chunk.c.document_id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(in_list(t.chunk.c.id, "keys"))
)
# A code point takes at most four bytes of UTF-8: so many surely hold the opening.
_DOCUMENTS = (
    select(
        *document_rows.COLUMNS,
        *SIG_COLUMNS,
        func.substr(t.document.c.content, 1, 4 * OPENING),
        t.dataset.c.name,
    )
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id, isouter=True)
    .where(in_list(t.document.c.revision, "keys"))
)
_page = (
    select(t.document.c.id, t.document.c.name)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"))
)
_pages = (
    _page.where(t.document.c.name > bindparam("after"))
    .order_by(t.document.c.name)
    .limit(_DOCUMENTS_AT_ONCE)
    .subquery()
)
_single = _page.where(t.document.c.name == bindparam("name")).subquery()
_SETS_OF_PAGE, _SETS_OF_ONE = (
    select(page.c.name, *SIG_COLUMNS, *COLUMNS, t.space.c.sig, t.space.c.dimension, t.vector.c.data)
    .select_from(page)
    .join(t.derivation, t.derivation.c.document_id == page.c.id, isouter=True)
    .join(t.chunk, t.chunk.c.document_id == page.c.id, isouter=True)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id, isouter=True)
    .join(t.space, t.space.c.id == t.vector.c.space_id, isouter=True)
    .order_by(page.c.name, t.chunk.c.position)
    for page in (_pages, _single)
)


def fetch_chunks(
    session: Session, keys: Sequence[int], where: str
) -> Mapping[Hashable, StoredUnit]:
    """Chunks by row id, with their sets' signatures and their documents.

    A statement reads `FETCHED_AT_ONCE` of them: for more, ``session`` is of one snapshot.
    """
    found: dict[Hashable, StoredUnit] = {}
    sets: dict[int, tuple[DocumentInfo, DerivedSig]] = {}
    for row in _rows(session, _CHUNKS, keys):
        key, dataset = row[-2:]
        try:
            known = sets.get(row[0])
            if known is None:
                known = sets[row[0]] = info_in(row, dataset, where), sig_of(row[_document:_sig])
            info, sig = known
            chunk = chunk_of(dataset, info.name, row[_sig:], sig)
        except DAMAGE as error:
            place = f"chunk {row[_sig]} of document {row[1]!r} of dataset {dataset!r}"
            raise damaged_chunk(where, f"{place}: {error}") from error
        found[key] = StoredUnit(key=key, sig=sig, document=info, chunk=chunk)
    return found


def fetch_documents(
    session: Session, keys: Sequence[int], where: str
) -> Mapping[Hashable, StoredUnit]:
    """Documents by revision, with their openings; read as `fetch_chunks` reads."""
    found: dict[Hashable, StoredUnit] = {}
    for row in _rows(session, _DOCUMENTS, keys):
        key = row[_REVISION]
        found[key] = StoredUnit(
            key=key,
            sig=DerivedSig() if row[_document] is None else sig_of(row[_document:_sig]),
            document=info_in(row, row[-1], where),
            # The cut may split a character, which "ignore" drops; it lies after the opening.
            # Of an empty text SQLite gives none.
            opening=(row[-2] or b"").decode(errors="ignore")[:OPENING],
        )
    return found


def _rows(session: Session, statement: Statement, keys: Sequence[int]) -> list[Any]:
    rows: list[Any] = []
    for start in range(0, len(keys), FETCHED_AT_ONCE):
        SEARCHES.pass_on("reading what was found")
        rows += session.all(statement, keys=list(keys[start : start + FETCHED_AT_ONCE]))
    return rows


def integers(keys: Sequence[Hashable]) -> list[int]:
    """Those of ``keys`` that a store can have given out."""
    return [key for key in keys if isinstance(key, int)]


def iter_chunks(
    database: Database, dataset: str, name: str | None, vectors: bool
) -> Iterator[DerivedChunk]:
    """See `SqlChunks.iter_chunks`."""
    after = ""
    while True:
        with database.reading() as session:
            if name is None:
                rows = session.all(_SETS_OF_PAGE, dataset=dataset, after=after)
            else:
                rows = session.all(_SETS_OF_ONE, dataset=dataset, name=name)
        for document, *row in rows:
            after = document
            if row[5] is None:
                continue
            space, width, data = row[-3:]
            try:
                vector = (
                    decode_vector(data, width, database.where)
                    if vectors and data is not None
                    else None
                )
                sig = sig_of(row)
                if vector is not None and space != sig.embed_sig:
                    sig = attrs.evolve(sig, embed_sig=space)
                yield chunk_of(dataset, document, row[5:], sig, vector)
            except DAMAGE as error:
                place = f"chunk {row[5]} of document {document!r} of dataset {dataset!r}"
                raise damaged_chunk(database.where, f"{place}: {error}") from error
        if name is not None or not rows:
            return
