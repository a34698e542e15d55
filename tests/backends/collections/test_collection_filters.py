"""Filters over payloads of any shape select what the filter itself admits, in two engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from support.examples import examples
from triptych.records import ChunkQuery, Filter, Mode, document_subject, parse_filter

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from support.edge_points import EdgePoints, LocalPoints
from triptych_inplace import InPlaceStore, TableSpec
from triptych_inplace.qdrant import CollectionSource
from triptych_models import HashEmbedder

Engine: TypeAlias = EdgePoints | LocalPoints

EMBEDDER = HashEmbedder()
POINTS = 60
WORDS = ("", "a", "A", "a b", "it's", 'say "hi"', "100%", "ä", "1", "'; DROP", "2026-09-01")
NUMBERS = (-(2**63), -3, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1, -1.5, 0.0, 0.5, 1.0, 7.25, 1e300)
TIMES = ("2026-09-01T10:30:00Z", "2026-09-01", "2026-09-01T12:30:00+02:00", "soon", None)
VALUES = [
    *WORDS,
    *NUMBERS,
    True,
    False,
    None,
    [],
    ["a", "it's"],
    [1, 2],
    [1.0, True, "a", None],
    [["a"]],
    {"a": 1},
]
KEYS = ("plain", "inner.field", 'odd."a.b c"', "words", "numbers")
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([*WORDS, "a\0b"]),
    st.sampled_from([*NUMBERS, 0.1, 2.0**70, 2**53 - 1]),
    st.booleans(),
    st.sampled_from([date(2026, 9, 1), datetime(2026, 9, 1, 10, 30, tzinfo=UTC)]),
)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "$contains"]), SCALARS),
    st.tuples(
        st.sampled_from(["$lt", "$lte", "$gt", "$gte"]),
        SCALARS.filter(lambda value: not isinstance(value, bool)),
    ),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3)),
    st.tuples(st.sampled_from(["$eq", "$ne"]), st.sampled_from([[], ["a", "it's"], [1, 2]])),
    st.tuples(st.just("$exists"), st.booleans()),
).map(lambda pair: {pair[0]: pair[1]})
NAMES = [
    "d/" + "9" * 5_000,
    f"d/{3}",
    f"e/x/{4}",
    f"d/{UUID(int=7)}",
    "d/03",
    "3",
    "d/",
    f"e/{4}",
    "e/x/-4",
]
OWN = st.one_of(
    st.tuples(st.just("$name"), st.one_of(st.sampled_from(NAMES), st.just(NAMES))),
    st.tuples(st.just("$name"), st.sampled_from([{"$contains": "x"}, {"$gte": "d/4"}])),
    st.tuples(st.just("doc_prefix"), st.sampled_from(["d/", "", ["e/x", "x%"]])),
    st.tuples(st.just("heading"), st.just("a")),
    st.tuples(st.just("$version"), st.sampled_from([1, 2, {"$gte": 1}])),
    st.tuples(
        st.just("$updated_at"),
        st.sampled_from([{"$lt": datetime(2026, 9, 2, tzinfo=UTC)}, {"$gte": date(2026, 9, 1)}]),
    ),
).map(lambda pair: {pair[0]: pair[1]})
WHERES = st.recursive(
    st.one_of(
        st.builds(
            lambda field, value: {field: value},
            st.sampled_from([*KEYS, "missing", "secret"]),
            OPERATIONS,
        ),
        OWN,
    ),
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


def fill(engine: Engine) -> None:
    random = Random(1)
    engine.make("t", {"": (EMBEDDER.dimension, "Cosine")}, words="keyword")
    row = [float(each) for each in EMBEDDER.embed(["text"], kind="document")[0]]

    def value() -> Any:
        return random.choice(VALUES)

    engine.put(
        "t",
        [
            (
                number if number % 2 else str(UUID(int=number + 7)),
                {"": row},
                {
                    "body": f"text {number}",
                    "source": "d" if number % 3 else "e/x",
                    "changed": random.choice(TIMES),
                    "plain": value(),
                    "inner": {"field": value()} if number % 5 else value(),
                    "odd": {"a.b c": value()},
                    "words": random.choice(WORDS),
                    "numbers": random.choice(NUMBERS),
                    "secret": "a",
                },
            )
            for number in range(POINTS)
        ],
    )


@pytest.fixture(scope="module", params=["local", "edge"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InPlaceStore]:
    made: Engine = (
        LocalPoints()
        if request.param == "local"
        else EdgePoints(tmp_path_factory.mktemp("qdrant") / "shards")
    )
    fill(made)
    spec = TableSpec(
        table="t",
        columns=[{"text": "body"}],
        document="source",
        metadata=list(KEYS),
        updated_at="changed",
    )
    with InPlaceStore(
        CollectionSource(made.reader, [spec], chunker_sig="points", embedder=EMBEDDER)
    ) as ours:
        yield ours


@given(WHERES)
@example({"plain": {"$eq": 2**63 - 1}})
@example({"plain": {"$gte": 2**63 - 1}})
@example({"plain": {"$lte": 2**53 + 1}})
@example({"plain": {"$eq": False}})
@example({"$name": "d/" + "9" * 5_000})
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_filter_selects_what_it_admits(store: InPlaceStore, where: dict[str, Any]) -> None:
    tree = parse_filter(where)
    assert tree is not None
    every = store.documents.list("t")
    assert len(every) == POINTS
    expected = [info.name for info in every if tree.admits(document_subject(info))]
    assert [info.name for info in store.documents.list("t", where=tree)] == expected
    query = ChunkQuery(
        dataset_ids=["t"],
        text="text",
        vector=np.asarray(EMBEDDER.embed(["text"], kind="query")[0]),
        embed_sig=EMBEDDER.signature,
        mode=Mode.VECTOR,
        top_k=POINTS,
        filter=Filter(tree=tree),
    )
    found = store.chunks.search(query)
    assert sorted(each.doc_name for each in found) == expected
    assert len(store.chunks.fetch([each.key for each in found])) == len(expected)


def test_values_become_metadata(store: InPlaceStore) -> None:
    found = [value for info in store.documents.list("t") for value in info.metadata.values()]
    assert ["a", "it's"] in found
    assert [1.0, True, "a"] in found
    assert not any(isinstance(each, dict) or each == [["a"]] for each in found)
    times = {info.updated_at for info in store.documents.list("t")}
    assert times == {
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 9, 1, tzinfo=UTC),
        datetime(2026, 9, 1, 10, 30, tzinfo=UTC),
    }
