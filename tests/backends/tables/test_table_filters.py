"""Filters over columns of any type select what the memory store's filter selects."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.examples import examples
from support.foreign_tables import ForeignTables, foreign_tables
from support.postgres import PostgresServer
from triptych.records import NewDocument, document_subject, parse_filter
from triptych_backends.memory import MemoryStore

pytest.importorskip("psycopg")

from triptych_inplace import InPlaceStore, TableSpec
from triptych_inplace.postgres import ForeignDatabase, TableSource

WORDS = ("", "a", "A", "a b", "it's", 'say "hi"', "100%", "a_b", "ä", "Z", "'; DROP TABLE t; --")
UUIDS = [str(uuid.UUID(int=number)) for number in (0, 1, 255, 2**127)]
WHOLE = (-(2**63), -3, -1, 0, 1, 2, 7, 2**53, 2**53 + 1, 2**63 - 1)
FLOATS = (-1.5, -0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 7.25, 1e300)
TIMES = (
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2026, 9, 1, tzinfo=UTC),
    datetime(2026, 9, 1, 10, 30, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
)
COLUMNS = {
    "words": ("text", [*WORDS, None]),
    "letter": ("char(3)", ["a", "A", "Z", None]),
    'odd "name" 100%': ("varchar(40)", [*WORDS, None]),
    "folded": ("citext", [*WORDS, None]),
    "colour": ("colour", ["red", "green", None]),
    "small": ("int2", [-3, 0, 1, 7, None]),
    "large": ("int8", [*WHOLE, None]),
    "positive": ("positive", [1, 2, 7, None]),
    "single": ("float4", [0.1, 0.5, 2.0, None]),
    "double": ("float8", [*FLOATS, math.nan, math.inf, -math.inf, None]),
    "price": (
        "numeric",
        [
            *map(Decimal, ("0", "0.10", "7", "-1.5", "19.99", "1e30", "9007199254740993")),
            Decimal("NaN"),
            None,
        ],
    ),
    "yes": ("bool", [True, False, None]),
    "key": ("uuid", [*UUIDS, None]),
    "day": ("date", [date(1, 1, 1), date(2026, 9, 1), "infinity", "0044-03-15 BC", None]),
    "local": ("timestamp", [each.replace(tzinfo=None) for each in TIMES] + ["infinity", None]),
    "moment": ("timestamptz", [*TIMES, "-infinity", None]),
    "tags": ("text[]", [[], ["a"], ["a", None, "it's"], [["a", "b"]], None]),
    "codes": ("bigint[]", [[], [1, 2], [2**63 - 1, None], None]),
    "marks": ("bool[]", [[True], [], None]),
}
ROWS = 60

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([*WORDS, "red", "a\0b", *UUIDS, UUIDS[1].upper(), "{" + UUIDS[1] + "}"]),
    st.sampled_from([*WHOLE, *FLOATS, 0.10000000149011612, 19.99, 1.5, -1e308, 2.0**63, 2.0**70]),
    st.booleans(),
    st.sampled_from([*TIMES, date(2026, 9, 1), date(1, 1, 1), date(9999, 12, 31)]),
)
FIELDS = st.sampled_from([*COLUMNS, "words", "missing", "secret"])
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$contains"]), SCALARS),
    st.tuples(
        st.sampled_from(["$lt", "$lte", "$gt", "$gte"]),
        SCALARS.filter(lambda value: not isinstance(value, bool)),
    ),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3)),
    st.tuples(
        st.sampled_from(["$eq", "$ne"]),
        st.sampled_from([[], ["a"], ["a", "it's"], [1, 2], [1.0, 2], [True], ["a", 1]]),
    ),
    st.tuples(st.just("$exists"), st.booleans()),
).map(lambda pair: {pair[0]: pair[1]})
OWN = st.one_of(
    st.tuples(st.just("$name"), st.sampled_from(["1", "01", "12", ["3", "x"], {"$gte": "4"}])),
    st.tuples(st.just("$name"), st.sampled_from([{"$contains": "2"}, {"$lt": "2\0"}])),
    st.tuples(st.just("doc_prefix"), st.sampled_from(["1", "", ["2", "x%"]])),
    st.tuples(st.just("heading"), st.just("a")),
    st.tuples(st.just("$version"), st.sampled_from([1, 2, {"$gte": 1}])),
    st.tuples(
        st.just("$updated_at"),
        st.sampled_from(
            [
                {"$lt": datetime(2026, 9, 2, tzinfo=UTC)},
                {"$gte": date(2026, 9, 1)},
                {"$exists": True},
                {"$lt": datetime(1960, 1, 1, tzinfo=UTC)},
            ]
        ),
    ),
).map(lambda pair: {pair[0]: pair[1]})
WHERES = st.recursive(
    st.one_of(st.builds(lambda field, value: {field: value}, FIELDS, OPERATIONS), OWN),
    lambda inner: st.one_of(
        inner.map(lambda part: {"$not": part}),
        st.builds(
            lambda key, parts: {key: parts},
            st.sampled_from(["$and", "$or"]),
            st.lists(inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def tables(postgres_server: PostgresServer) -> Iterator[ForeignTables]:
    with foreign_tables(postgres_server) as made:
        made.execute(
            "CREATE EXTENSION citext",
            "CREATE TYPE colour AS ENUM ('red', 'green')",
            "CREATE DOMAIN positive AS int4 CHECK (VALUE > 0)",
        )
        columns = ", ".join(
            f'"{name.replace(chr(34), chr(34) * 2)}" {type_}'
            for name, (type_, _) in COLUMNS.items()
        )
        made.execute(f"CREATE TABLE t (id int PRIMARY KEY, body text, secret text, {columns})")
        names = ", ".join(
            '"' + name.replace('"', '""').replace("%", "%%") + '"' for name in COLUMNS
        )
        random = Random(1)
        rows = [
            (
                number,
                f"text {number}",
                "a",
                *(random.choice(values) for _, values in COLUMNS.values()),
            )
            for number in range(ROWS)
        ]
        casts = ["%s"] * 3 + [f"%s::{type_}" for type_, _ in COLUMNS.values()]
        with made.owner.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO t (id, body, secret, {names}) VALUES ({', '.join(casts)})".encode(),
                rows,
            )
        yield made


@pytest.fixture(scope="module")
def stores(tables: ForeignTables) -> Iterator[tuple[InPlaceStore, MemoryStore]]:
    spec = TableSpec(
        table="t", columns=[{"text": "body"}], metadata=list(COLUMNS), updated_at="moment"
    )
    with (
        InPlaceStore(TableSource(ForeignDatabase(tables.url), [spec], chunker_sig="rows")) as ours,
        MemoryStore() as memory,
    ):
        for info in ours.documents.list("t"):
            memory.documents.put(
                "t", NewDocument(name=info.name, content="text", metadata=dict(info.metadata))
            )
        yield ours, memory


@given(WHERES)
@settings(max_examples=examples(250), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_filter_selects_what_the_memory_store_selects(
    stores: tuple[InPlaceStore, MemoryStore], where: dict[str, Any]
) -> None:
    ours, memory = stores
    tree = parse_filter(where)
    if "$updated_at" in str(where):
        # The memory store's own time of the put: the rows' are compared one by one.
        assert tree is not None
        expected = [
            info.name for info in ours.documents.list("t") if tree.admits(document_subject(info))
        ]
    else:
        expected = [info.name for info in memory.documents.list("t", where=tree)]
    assert [info.name for info in ours.documents.list("t", where=tree)] == expected
    assert ours.documents.count("t", where=tree) == len(expected)


def test_values_of_any_type_become_metadata(stores: tuple[InPlaceStore, MemoryStore]) -> None:
    ours, _ = stores
    found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for info in ours.documents.list("t"):
        for name, value in info.metadata.items():
            found[name].append(value)

    def kept(name: str) -> set[Any]:
        return {tuple(each) if isinstance(each, list) else each for each in found[name]}

    assert kept("letter") == {"a", "A", "Z"}
    assert kept("colour") == {"red", "green"}
    assert kept("double") == set(FLOATS)
    assert kept("price") == {0, 0.1, 7, -1.5, 19.99, 1e30, 9007199254740993}
    assert kept("key") == set(UUIDS)
    assert kept("day") == {date(1, 1, 1), date(2026, 9, 1)}
    assert kept("moment") == set(TIMES)
    assert kept("tags") == {(), ("a",), ("a", "it's")}
    assert kept("codes") == {(), (1, 2), (2**63 - 1,)}
    assert "secret" not in ours.documents.list("t")[0].metadata
