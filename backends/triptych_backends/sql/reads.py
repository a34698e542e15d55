"""Reading chunks and documents back: by key in one snapshot, or one after another."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import attrs

from triptych.records import OPENING, DerivedChunk, DerivedSig, DocumentInfo, StoredUnit
from triptych_backends.sql import chunk_rows, document_rows
from triptych_backends.sql.chunk_rows import chunk_of, sig_of
from triptych_backends.sql.database import Database
from triptych_backends.sql.deferred import bindparam, func, select, tables as t
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.document_rows import DocumentRow, info_in, info_of
from triptych_backends.sql.errors import DAMAGE, damaged_chunk
from triptych_backends.sql.session import Session
from triptych_backends.sql.vectors import decode_vector

_DOCUMENTS_AT_ONCE = 32
_document = len(document_rows.COLUMNS)
_sig = _document + len(chunk_rows.SIG_COLUMNS)
_CHUNKS = (
    select(
        *document_rows.COLUMNS,
        *chunk_rows.SIG_COLUMNS,
        *chunk_rows.COLUMNS,
        t.chunk.c.id,
        t.dataset.c.name,
    )
    .join(t.document, t.document.c.id == t.chunk.c.document_id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(in_list(t.chunk.c.id, "keys"))
)
# A code point takes at most four bytes of UTF-8: so many surely hold the opening.
_DOCUMENTS = (
    select(
        *document_rows.COLUMNS,
        *chunk_rows.SIG_COLUMNS,
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
    select(
        page.c.name,
        *chunk_rows.SIG_COLUMNS,
        *chunk_rows.COLUMNS,
        t.space.c.sig,
        t.space.c.dimension,
        t.vector.c.data,
    )
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
    """Chunks by row id, with their sets' signatures and their documents; one statement."""
    found: dict[Hashable, StoredUnit] = {}
    sets: dict[int, tuple[DocumentInfo, DerivedSig]] = {}
    for row in session.all(_CHUNKS, keys=list(keys)):
        key, dataset = row[-2:]
        try:
            known = sets.get(row[0])
            if known is None:
                info = info_in(row, dataset, where)
                known = sets[row[0]] = (info, sig_of(row[_document:_sig]))
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
    """Documents by revision, with their openings; one statement."""
    found: dict[Hashable, StoredUnit] = {}
    for row in session.all(_DOCUMENTS, keys=list(keys)):
        record = DocumentRow.read(row, where)
        # The cut may split a character, which "ignore" drops; it lies after the opening.
        opening = row[-2].decode(errors="ignore")[:OPENING]
        found[record.revision] = StoredUnit(
            key=record.revision,
            sig=DerivedSig() if row[_document] is None else sig_of(row[_document:_sig]),
            document=info_of(record, row[-1]),
            opening=opening,
        )
    return found


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
