"""Rows as documents: a row's texts are the chunks of a document whose name is the row's id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import attrs
from psycopg import sql

from triptych.records import (
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    FilterTree,
    Metadata,
    SourceDocument,
)
from triptych.signatures import document_info, embedding_input_sig
from triptych_backends.tables.catalog import Table
from triptych_backends.tables.columns import identifier, read_value, select
from triptych_backends.tables.conditions import EPOCH, ROW_VERSION, Parameters, condition
from triptych_backends.tables.connections import Reader

__all__ = ["Row", "read_rows", "searched"]

_BETWEEN: Final = "\n\n"
"""What stands between two texts of a row in the text of its document."""


@attrs.frozen(kw_only=True)
class Row:
    """A row: its id as text, the texts of its columns (None: NULL), its metadata."""

    table: Table
    name: str
    texts: Sequence[str | None]
    metadata: Metadata
    updated_at: datetime

    @property
    def document(self) -> SourceDocument:
        """The row as a document of the dataset."""
        return SourceDocument(
            dataset_id=self.table.spec.name,
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
        """The chunk of each text, with the number of its pair of columns.

        ``sig`` is that of the set.
        """
        start = offset = position = 0
        line = 1
        for pair, text in enumerate(self.texts):
            if text is None:
                continue
            yield (
                pair,
                DerivedChunk(
                    dataset_id=self.table.spec.name,
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


def searched(table: Table, tree: FilterTree | None, values: Parameters) -> sql.Composable:
    """The condition that a row is one of the dataset's and passes ``tree``."""
    any_text = sql.SQL(" OR ").join(
        sql.SQL("{} IS NOT NULL").format(identifier(pair.text.name)) for pair in table.pairs
    )
    return sql.SQL("{} IS NOT NULL AND ({}) AND {} AND {}").format(
        identifier(table.id.name),
        any_text,
        condition(table.where, table.own, values),
        condition(tree, table.columns, values),
    )


def read_rows(
    reader: Reader,
    table: Table,
    where: sql.Composable,
    values: Parameters,
    rest: sql.Composable | None = None,
) -> list[Row]:
    """The rows that ``where`` selects, with ``rest`` of the statement after it."""
    texts = [sql.SQL("{}::text").format(identifier(pair.text.name)) for pair in table.pairs]
    updated = select(table.updated_at) if table.updated_at and table.has_times else sql.SQL("NULL")
    expressions = [
        sql.SQL("{}::text").format(identifier(table.id.name)),
        updated,
        *texts,
        *(select(column) for column in table.metadata),
    ]
    found = reader.rows(
        sql.SQL("SELECT {} FROM {} WHERE {} {}").format(
            sql.SQL(", ").join(expressions), table.name, where, rest or sql.SQL("")
        ),
        values,
    )
    return [_row(table, each) for each in found]


def _row(table: Table, found: Sequence[Any]) -> Row:
    name, updated, *rest = found
    texts, values = rest[: len(table.pairs)], rest[len(table.pairs) :]
    metadata = {
        column.name: value
        for column, raw in zip(table.metadata, values, strict=True)
        if (value := read_value(column, raw)) is not None
    }
    return Row(table=table, name=name, texts=texts, metadata=metadata, updated_at=_moment(updated))


def _moment(value: date | None) -> datetime:
    if value is None:
        return EPOCH
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
