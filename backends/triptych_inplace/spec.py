"""`TableSpec`: which columns of an existing table are searched, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import attrs

from triptych.errors import ValidationError
from triptych.records import check_identifier, check_text

Distance: TypeAlias = Literal["cosine", "l2", "ip"]
Keywords: TypeAlias = Literal["auto", "text-search", "nearest"]

_DISTANCES, _KEYWORDS = get_args(Distance), get_args(Keywords)
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def parse_name(name: str) -> tuple[str, ...]:
    """The parts of a table's name, such as ``public.products``: at most a schema and a table.

    A part with a dot or a quote in it stands in double quotes, as in SQL. Case is kept either way.

    Raises:
        ValidationError: it is no name of a table.
    """
    check_text(name, "a table's name")
    parts = split_name(name)
    if parts is None or len(parts) > 2 or "\0" in name:
        raise ValidationError(
            f"{name!r:.80} names no table: write table or schema.table, and put a name with a dot "
            'or a quote into double quotes, as in public."my.table"'
        )
    return parts


def split_name(name: str) -> tuple[str, ...] | None:
    """The parts of a name between its dots; None if it is no such name.

    A part with a dot or a quote in it stands in double quotes, as in SQL.
    """
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(name, at)
        if found is None:
            return None
        parts.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        at = found.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            return None
        at += 1


def _column(value: Any) -> str:
    check_text(value, "a column's name")
    if not value or "\0" in value:
        raise ValidationError(f"{value!r:.60} names no column")
    return str(value)


def _optional_column(value: Any) -> str | None:
    return None if value is None else _column(value)


@attrs.frozen
class ColumnPair:
    """A column of texts, and the column of their vectors; None where there are no vectors."""

    text: str = attrs.field(converter=_column)
    vector: str | None = attrs.field(default=None, converter=_optional_column)


def _pairs(given: Any) -> tuple[ColumnPair, ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ValidationError(f"columns is {given!r:.60}: give a list of {{text = …, vector = …}}")
    return tuple(_pair(each) for each in given)


def _pair(given: Any) -> ColumnPair:
    if isinstance(given, ColumnPair):
        return given
    if isinstance(given, Mapping) and "text" in given and set(given) <= {"text", "vector"}:
        return ColumnPair(**given)
    raise ValidationError(
        f"columns holds {given!r:.60}: give tables such as "
        '{text = "description", vector = "embedding"}'
    )


def _names(given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ValidationError(f"metadata is {given!r:.60}: give a list of columns")
    return tuple(_column(each) for each in given)


@attrs.frozen(kw_only=True)
class TableSpec:
    """An existing table, view or materialized view that a pipeline searches.

    A row is a document whose name is the row's id as text; each of its texts is a chunk. Rows
    without an id and NULL texts are not found.

    Attributes:
        table: its name, as `parse_name` reads it.
        id: the column with the unique id of a row.
        columns: one or more pairs of a text column and its vector column.
        metadata: the columns that hits have as metadata and filters of queries may use.
        where: a filter that every row must pass, in the form of a query's ``where``; it may use any
            column of the table.
        name: the name of the dataset; by default the table's name.
        text_search: a ``tsvector`` column over the texts, for tables with one pair.
        text_config: the server's text search configuration, such as "english", used for
            ``text_search`` or the table's text index.
        keywords: how the keyword lane finds candidates: "text-search" by the server's text search,
            "nearest" among the nearest vectors, "auto" depending on the table.
        distance: the distance of the vector index; None: of the table's index.
        updated_at: the column with the time when a row last changed.
        document: a field whose text, followed by "/" and the id, is the name of a collection's
            point, such as the file that it is a part of.

    ``text_search``, ``text_config`` and ``distance`` are only for tables of PostgreSQL,
    ``document`` only for collections of Qdrant. There the table is a collection, "id" is the
    point's id, columns are fields of the payload, and a vector is a named vector (None: the only
    vector).
    """

    table: str
    id: str = attrs.field(default="id", converter=_column)
    columns: Sequence[ColumnPair] = attrs.field(converter=_pairs)
    metadata: Sequence[str] = attrs.field(default=(), converter=_names)
    where: Mapping[str, Any] = attrs.field(factory=dict)
    name: str = ""
    text_search: str | None = attrs.field(default=None, converter=_optional_column)
    text_config: str | None = None
    keywords: Keywords = "auto"
    distance: Distance | None = None
    updated_at: str | None = attrs.field(default=None, converter=_optional_column)
    document: str | None = attrs.field(default=None, converter=_optional_column)

    def __attrs_post_init__(self) -> None:
        parts = parse_name(self.table)
        if not self.name:
            object.__setattr__(self, "name", parts[-1])
        check_identifier(self.name, "the name of a table's dataset")
        if not self.columns:
            raise ValidationError(f"the table {self.table!r} names no text column: give text = …")
        texts = [pair.text for pair in self.columns]
        if len(set(texts)) < len(texts):
            raise ValidationError(f"the table {self.table!r} names a text column twice")
        if self.text_search is not None and len(self.columns) > 1:
            raise ValidationError(
                f"the table {self.table!r} has several texts: text_search is for a table of one; "
                "an index on to_tsvector of a text is used without being named"
            )
        if self.keywords not in _KEYWORDS:
            raise ValidationError(
                f"keywords is {self.keywords!r:.60}: choose one of {', '.join(_KEYWORDS)}"
            )
        if self.distance is not None and self.distance not in _DISTANCES:
            raise ValidationError(
                f"distance is {self.distance!r:.60}: choose one of {', '.join(_DISTANCES)}"
            )
        if self.text_config is not None:
            parse_name(self.text_config)
        if not isinstance(self.where, Mapping):
            raise ValidationError(f"where is {self.where!r:.60}: give conditions on columns")

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the table's name."""
        return parse_name(self.table)

    def refuse(self, keys: Sequence[str], what: str) -> None:
        """Raise `ValidationError` if one of ``keys``, which are only for ``what``, is given."""
        for key in keys:
            if getattr(self, key) is not None:
                raise ValidationError(
                    f"the table {self.table!r} has {key}, which is for {what}: leave it out"
                )

    @classmethod
    def of(cls, given: Any) -> TableSpec:
        """Read the spec from a table of ``triptych.toml``.

        ``text`` and ``vector`` can replace ``columns`` for one pair.

        Raises:
            ValidationError: a key or a value is wrong.
        """
        if isinstance(given, TableSpec):
            return given
        if not isinstance(given, Mapping):
            raise ValidationError(
                f"tables holds {given!r:.60}: give tables such as "
                '{table = "public.products", id = "sku", text = "description"}'
            )
        options = dict(given)
        known = {field.name for field in attrs.fields(cls)} | {"text", "vector"}
        for key in options:
            if key not in known:
                raise ValidationError(
                    f"a table has the unknown key {key!r}: known are {', '.join(sorted(known))}"
                )
        if "table" not in options:
            raise ValidationError(f"{given!r:.60} names no table: give table = …")
        if "text" in options:
            if "columns" in options:
                raise ValidationError("give a table either text and vector, or columns")
            pair = {"text": options.pop("text")}
            if "vector" in options:
                pair["vector"] = options.pop("vector")
            options["columns"] = [pair]
        if "columns" not in options:
            raise ValidationError(
                f"the table {options['table']!r:.60} names no text column: give text = …"
            )
        if "vector" in options:
            raise ValidationError("a table has a vector without a text: give text = …")
        return cls(**options)
