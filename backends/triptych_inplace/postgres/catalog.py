"""What the server says of a table: its columns and indexes, checked against a `TableSpec`.

`findings` says what makes its searches slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs
from psycopg import sql

from triptych.errors import ModelMismatchError, NotFoundError, ValidationError
from triptych.records import FilterTree, Finding, conditions_of, did_you_mean, parse_filter
from triptych_inplace.postgres.columns import Column, identifier, kind_of
from triptych_inplace.postgres.conditions import Columns
from triptych_inplace.postgres.connections import Reader
from triptych_inplace.source import MANY
from triptych_inplace.spec import ColumnPair, Distance, TableSpec, parse_name

_RELATION: Final = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.reltuples::float8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass(%(name)s) AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
"""
_COLUMNS: Final = """
WITH RECURSIVE base AS (
    SELECT a.attnum, a.attname, a.atttypid AS type, a.atttypmod AS modifier, a.attcollation
    FROM pg_attribute a
    WHERE a.attrelid = %(oid)s::int8::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT b.attnum, b.attname, t.typbasetype,
        CASE WHEN b.modifier < 0 THEN t.typtypmod ELSE b.modifier END, b.attcollation
    FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
)
SELECT b.attname, t.typname, format_type(b.type, b.modifier), b.modifier,
    coalesce(l.collisdeterministic, true) AND t.typname <> 'citext'
FROM base b JOIN pg_type t ON t.oid = b.type LEFT JOIN pg_collation l ON l.oid = b.attcollation
WHERE t.typtype <> 'd' ORDER BY b.attnum
"""
_INDEXES: Final = """
SELECT m.amname, o.opcname, pg_get_indexdef(i.indexrelid, 1, true), i.indisunique,
    i.indnkeyatts::int, i.indpred IS NOT NULL
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
JOIN pg_opclass o ON o.oid = i.indclass[0]
WHERE i.indrelid = %(oid)s::int8::oid AND i.indisvalid
"""
_EXTENSION: Final = """
SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'
"""
_CONFIG: Final = """
SELECT c.cfgname FROM pg_ts_config c JOIN pg_namespace n ON n.oid = c.cfgnamespace
WHERE c.cfgname = %(name)s AND CASE WHEN %(schema)s = '' THEN pg_ts_config_is_visible(c.oid)
ELSE n.nspname = %(schema)s END
"""
_EXPRESSION: Final = re.compile(r"to_tsvector\('((?:[^']|'')+)'::regconfig, (.+)\)", re.DOTALL)
_BY_CLASS: Final[Mapping[str, Distance]] = {
    "vector_cosine_ops": "cosine",
    "vector_l2_ops": "l2",
    "vector_ip_ops": "ip",
    "halfvec_cosine_ops": "cosine",
    "halfvec_l2_ops": "l2",
    "halfvec_ip_ops": "ip",
}
_METADATA: Final = (
    *("int", "float", "numeric", "bool", "text", "uuid", "other"),
    *("date", "timestamp", "timestamptz", "ints", "texts", "bools"),
)
_VECTORS: Final = ("vector", "halfvec", "floats")
_TEXTS: Final = ("text", "other")
_TIMES: Final = ("timestamp", "timestamptz", "date")


@attrs.frozen(kw_only=True)
class TextSearch:
    """The server's text search over a text: the ``tsvector``, its configuration, an index.

    ``kept`` says that the server keeps the ``tsvector``, so that no text is too long for one.
    """

    document: sql.Composable
    config: str
    indexed: bool
    kept: bool = True


@attrs.frozen(kw_only=True)
class Pair:
    """A text column and its vectors. ``distance`` is what the vector index compares by, if any."""

    text: Column
    vector: Column | None
    distance: Distance
    vector_index: bool
    search: TextSearch


@attrs.frozen(kw_only=True)
class Table:
    """A table as the server has it, with what a `TableSpec` says of it.

    ``rows`` is about how many there are, -1 where the server does not know. ``extension`` is the
    schema of pgvector, None without it.
    """

    spec: TableSpec
    path: tuple[str, ...]
    id: Column
    pairs: Sequence[Pair]
    metadata: Sequence[Column]
    updated_at: Column | None
    where: FilterTree | None
    own: Columns
    rows: float
    is_table: bool
    unique: bool
    extension: str | None

    @property
    def name(self) -> sql.Composable:
        """The quoted name."""
        return identifier(*self.path)

    @property
    def columns(self) -> Columns:
        """What a query's filter may name."""
        return Columns(
            id=self.id,
            fields={each.name: each for each in self.metadata},
            updated_at=self.updated_at,
        )


def load_table(reader: Reader, spec: TableSpec, language: str) -> Table:
    """What the server says of the table; `check_vector` checks the vectors.

    Raises:
        NotFoundError: there is no such table for this user.
        ValidationError: a column is missing, or its type does not serve.
    """
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in spec.path)
    found = reader.rows(_RELATION, {"name": quoted})
    if not found:
        raise NotFoundError(
            f"there is no table {spec.table!r} that this user can see: check its name (case "
            "counts), put its schema before it, and grant USAGE on that schema"
        )
    ((oid, schema, relation, kind, rows),) = found
    there = {
        name: Column(
            name=name,
            type=shown,
            kind=kind_of(type_name),
            dimension=max(modifier, 0) if type_name in ("vector", "halfvec") else 0,
            plain=plain,
        )
        for name, type_name, shown, modifier, plain in reader.rows(_COLUMNS, {"oid": oid})
    }
    find = _Finder(spec, there)
    extension = reader.rows(_EXTENSION)
    indexes = reader.rows(_INDEXES, {"oid": oid})
    id_column = find.column(spec.id, "id", (*_TEXTS, "int", "uuid", "numeric"))
    metadata = [find.column(name, "metadata", _METADATA) for name in spec.metadata]
    updated = None
    if spec.updated_at is not None:
        updated = find.column(spec.updated_at, "updated_at", _TIMES)
    own = Columns(id=id_column, fields=there, updated_at=updated)
    configs = _Configs(reader, spec, language)
    pairs = [_pair(pair, find, indexes, configs) for pair in spec.columns]
    if not extension and any(pair.vector for pair in pairs):
        raise ValidationError(
            f"{spec.table!r} names a vector column, but the database does not have the extension "
            "pgvector: leave vector out to search the table by keyword"
        )
    return Table(
        spec=spec,
        path=(schema, relation),
        id=id_column,
        pairs=pairs,
        metadata=metadata,
        updated_at=updated,
        where=_own_filter(spec, there),
        own=own,
        rows=rows,
        is_table=kind in ("r", "p", "m"),
        unique=any(
            unique and keys == 1 and not partial and _is_column(shown, spec.id)
            for _, _, shown, unique, keys, partial in indexes
        ),
        extension=extension[0][0] if extension else None,
    )


def check_vector(pair: Pair, table: Table, width: int | None) -> None:
    """Check the vectors of a pair; ``width`` is that of the embedder's, None for any.

    Raises:
        ValidationError: the column is missing, or its type does not serve.
        ModelMismatchError: it is of another width.
    """
    if pair.vector is None:
        return
    found = _Finder(table.spec, table.own.fields).column(pair.vector.name, "vector", _VECTORS)
    if width is not None and found.dimension not in (0, width):
        raise ModelMismatchError(
            f"the column {found.name!r} of {table.spec.table!r} is {found.type}, but the "
            f"embedder of the pipeline makes vectors of {width}: set embedder to the model that "
            "filled the column",
            stored=found.type,
            configured=str(width),
        )


@attrs.frozen
class _Finder:
    """Finds columns, and says what is wrong with one."""

    spec: TableSpec
    there: Mapping[str, Column]

    def column(self, name: str, role: str, kinds: Sequence[str]) -> Column:
        found = self.there.get(name)
        if found is None:
            meant = did_you_mean(name, self.there, f"it has {', '.join(map(repr, self.there))}")
            raise ValidationError(
                f"the table {self.spec.table!r} has no column {name!r}, which is its {role}: "
                f"{meant}"
            )
        if found.kind not in kinds:
            raise ValidationError(
                f"the column {name!r} of {self.spec.table!r} is of type {found.type}, which "
                f"cannot be its {role}: {_ADVICE.get(role, 'name another column')}"
            )
        return found


_ADVICE: Final = {
    "text": "name a column of texts, or make a view that has one",
    "vector": "name a column of type vector, halfvec or real[]",
    "metadata": "leave it out, or make a view with (column->>'key') or another plain value",
    "id": "name a column of numbers, texts or uuids that is unique",
    "updated_at": "name a column of type timestamptz, timestamp or date",
    "text_search": "name a column of type tsvector",
}


def _own_filter(spec: TableSpec, there: Mapping[str, Column]) -> FilterTree | None:
    try:
        tree = parse_filter(spec.where)
    except ValidationError as error:
        raise ValidationError(f"the table {spec.table!r}: {error}") from None
    for each in conditions_of(tree):
        if not each.field.startswith("$") and (
            each.field not in there or there[each.field].kind not in _METADATA
        ):
            raise ValidationError(
                f"the filter of the table {spec.table!r} names {each.field!r}, which is not a "
                "comparable column of it"
            )
    return tree


class _Configs:
    """The text search configurations that the server has."""

    def __init__(self, reader: Reader, spec: TableSpec, language: str) -> None:
        self._reader = reader
        self._spec = spec
        self._default = {"porter": "english", "none": "simple"}.get(language, language)

    def default(self) -> str:
        """The one that the spec names, else that of the language, else "simple"."""
        given = self._spec.text_config
        if given is not None:
            if not self._is_there(given):
                raise ValidationError(
                    f"text_config of {self._spec.table!r} is {given!r}, but the server has no text "
                    "search configuration of that name: `\\dF` in psql lists them"
                )
            return given
        return self._default if self._is_there(self._default) else "simple"

    def _is_there(self, name: str) -> bool:
        schema, own = ("", *parse_name(name))[-2:]
        return bool(self._reader.rows(_CONFIG, {"name": own, "schema": schema}))


def _pair(
    pair: ColumnPair, find: _Finder, indexes: Sequence[tuple[object, ...]], configs: _Configs
) -> Pair:
    spec = find.spec
    text = find.column(pair.text, "text", _TEXTS)
    vector = None
    if pair.vector is not None:
        missing = Column(name=pair.vector, type="missing", kind="none")
        vector = find.there.get(pair.vector, missing)
    distances = [
        _BY_CLASS[str(opclass)]
        for method, opclass, shown, _, _, _ in indexes
        if vector is not None
        and method in ("hnsw", "ivfflat")
        and opclass in _BY_CLASS
        and _is_column(str(shown), vector.name)
    ]
    if spec.text_search is not None:
        column = find.column(spec.text_search, "text_search", ("tsvector",))
        search = TextSearch(
            document=identifier(column.name),
            config=configs.default(),
            indexed=any(
                method in ("gin", "gist") and _is_column(str(shown), column.name)
                for method, _, shown, _, _, _ in indexes
            ),
        )
    else:
        search = _expression(text, indexes, spec) or TextSearch(
            document=_document(configs.default(), text),
            config=configs.default(),
            indexed=False,
            kept=False,
        )
    return Pair(
        text=text,
        vector=vector,
        distance=spec.distance
        or ("cosine" if "cosine" in distances else (*distances, "cosine")[0]),
        vector_index=bool(distances),
        search=search,
    )


def _expression(
    text: Column, indexes: Sequence[tuple[object, ...]], spec: TableSpec
) -> TextSearch | None:
    """The text search that an index on ``to_tsvector('…', text)`` serves."""
    for method, _, shown, _, _, _ in indexes:
        found = _EXPRESSION.fullmatch(str(shown))
        if method not in ("gin", "gist") or found is None:
            continue
        config = found[1].replace("''", "'")
        inner = found[2]
        while inner.startswith("(") and inner.endswith(")") and "::" not in inner:
            inner = inner[1:-1]
        name = inner.removesuffix("::text")
        name = name[1:-1] if name.startswith("(") and name.endswith(")") else name
        if _is_column(name, text.name) and spec.text_config in (None, config):
            return TextSearch(document=_document(config, text), config=config, indexed=True)
    return None


def _document(config: str, text: Column) -> sql.Composable:
    return sql.SQL("to_tsvector({}::regconfig, {}::text)").format(
        sql.Literal(config), identifier(text.name)
    )


def _is_column(shown: str, name: str) -> bool:
    """Whether the server's text of an expression is this column, quoted or not."""
    return shown == name or shown == '"' + name.replace('"', '""') + '"'


def findings(table: Table) -> Iterator[Finding]:
    """The findings about a table; the rows are not read."""
    if not table.is_table:
        return  # what a view is made of is not to be seen
    finding = partial(Finding, place=f"table {table.spec.table}", dataset_id=table.spec.name)
    if not table.unique:
        yield finding(
            check="tables.unique",
            detail=f"no unique index on {table.id.name!r}, which is its id",
            why="rows of one id are shown as one, and each hit is read by a scan",
            remedy="name the primary key as id, or have a unique index made",
        )
    if table.rows < MANY:
        return
    for pair in table.pairs:
        if pair.vector is not None and not pair.vector_index:
            yield finding(
                check="tables.vector-index",
                detail=f"no HNSW or IVFFlat index on {pair.vector.name!r}",
                why="each search compares the query with every vector",
                remedy=(
                    "have an index made, such as CREATE INDEX ON … USING hnsw (… "
                    f"{'halfvec' if pair.vector.kind == 'halfvec' else 'vector'}_cosine_ops)"
                ),
            )
        if not pair.search.indexed:
            yield finding(
                check="tables.text-search",
                detail=f"no GIN index for the text search of {pair.text.name!r}",
                why=(
                    "each keyword search reads every text"
                    if pair.vector is None
                    else "keywords are looked for among the nearest vectors only"
                ),
                remedy=(
                    "have an index made, such as CREATE INDEX ON … USING gin "
                    f"(to_tsvector('{pair.search.config}', …))"
                ),
            )
