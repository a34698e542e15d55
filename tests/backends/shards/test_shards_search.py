"""Searches over three servers find what one store with all datasets finds, to the score."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.postgres import PostgresServer
from triptych.contracts import Store
from triptych.records import DatasetConfig, Filter, Layer
from triptych.records.filters import FilterTree
from triptych.repositories import capabilities_of
from triptych.testing import Harness, assert_backends_rank_alike
from triptych.testing.builders import (
    derive,
    fill_at_once,
    filter_of,
    keyword_query,
    layer_of,
    layer_query,
    put,
    vector_of,
    vector_query,
)
from triptych.testing.oracle import entries
from triptych.testing.search import assert_same_ranking
from triptych_backends.memory import MemoryStore

pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")

from support.shards import make_sharded
from triptych_backends.shards import ShardedStore

DATASETS = ("east", "north", "south", "west")
WORDS = [f"w{at}" for at in range(12)]


@pytest.fixture(scope="module")
def store(postgres_server: PostgresServer) -> Iterator[ShardedStore]:
    urls = [postgres_server.schema_url(f"ranked_{at}") for at in range(3)]
    with ShardedStore.open(make_sharded(urls)) as store:
        yield store


@pytest.fixture(scope="module")
def pair(store: ShardedStore) -> Iterator[tuple[Store, ShardedStore]]:
    """The same generated documents in memory and on the servers; the tests only read them."""
    here = MemoryStore()
    for each in (here, store):
        _fill(each)
    assert len({store.router.place(each).server.name for each in DATASETS}) == 3
    yield here, store
    here.close()


def _fill(store: Store) -> None:
    chance = random.Random(11)
    for dataset in DATASETS:
        # As many words as a text has, and the same texts more than once: there are many ties.
        texts = {
            f"{at:02d}.md": " ".join(
                chance.choices(WORDS, range(24, 0, -2), k=chance.randint(1, 9))
            )
            for at in range(chance.randint(4, 16))
        }
        metadata = {name: {"odd": int(name[:2]) % 2} for name in texts}
        fill_at_once(store, dataset, texts, metadata=metadata)
        for name in list(texts)[::5]:
            put(store, dataset, name, "w1 w2 w3")
            assert derive(store, dataset, name)
        assert store.documents.delete(dataset, "02.md")
        assert store.layers.put(layer_of(store, dataset, "03.md", texts["03.md"]))


@settings(max_examples=examples(60))
@given(
    text=st.lists(st.sampled_from([*WORDS, "nowhere"]), min_size=1, max_size=5).map(" ".join),
    datasets=st.lists(st.sampled_from([*DATASETS, "unknown"]), min_size=1, max_size=5),
    limit=st.sampled_from([0, 1, 3, 200]),
    where=st.sampled_from([{}, {"odd": 1}, {"odd": {"$ne": 1}}]),
    bounded=st.booleans(),
)
def test_every_lane_answers_as_one_store_does(
    pair: tuple[Store, ShardedStore],
    text: str,
    datasets: Sequence[str],
    limit: int,
    where: Mapping[str, object],
    bounded: bool,
) -> None:
    here, there = pair
    wanted = filter_of(**where) if where else Filter()
    if bounded and where:
        wanted = Filter(within=_tree(wanted))
    words = keyword_query(text, *datasets, top_k=limit, where=wanted)
    near = vector_query(vector_of(text), *datasets, top_k=limit, where=wanted)
    assert entries(there.chunks.search(words)) == entries(here.chunks.search(words))
    assert_same_ranking(there.chunks.search(near), entries(here.chunks.search(near)))
    ours, theirs = capabilities_of(here), capabilities_of(there)
    assert ours.document_search is not None
    assert theirs.document_search is not None
    assert entries(theirs.document_search.search_docs(words)) == entries(
        ours.document_search.search_docs(words)
    )
    layers = layer_query(words, Layer.ABSTRACT)
    assert entries(there.layers.search(layers)) == entries(here.layers.search(layers))
    for query in (words, near):
        found = there.chunks.search(query)
        units = there.chunks.fetch([each.key for each in found])
        assert [units[each.key].key for each in found] == [each.key for each in found]


def _tree(where: Filter) -> FilterTree:
    assert where.tree is not None
    return where.tree


def test_the_statistics_are_those_of_all_servers(pair: tuple[Store, ShardedStore]) -> None:
    ours, theirs = (capabilities_of(each).corpus_stats for each in pair)
    assert ours is not None
    assert theirs is not None
    assert theirs.corpus_stats(DATASETS, WORDS) == ours.corpus_stats(DATASETS, WORDS)


def test_datasets_in_several_languages_share_their_statistics(
    postgres_server: PostgresServer,
) -> None:
    urls = [postgres_server.schema_url(f"spoken_{at}") for at in range(2)]
    config = DatasetConfig(chunker_sig="c", embed_sig="", language="")
    with ShardedStore.open(make_sharded(urls)) as there, MemoryStore() as here:
        for store in (there, here):
            for dataset, language in (("anglais", "english"), ("deutsch", "german")):
                assert store.chunks.configure(
                    dataset,
                    DatasetConfig(chunker_sig=config.chunker_sig, embed_sig="", language=language),
                    expected=None,
                )
                for name, text in (("a", "houses and häuser, running"), ("b", "house run laufen")):
                    put(store, dataset, name, text)
                    derive(store, dataset, name)
        for text in ("house running", "häuser laufen", "Haus und houses"):
            query = keyword_query(text, "anglais", "deutsch", top_k=9)
            assert entries(there.chunks.search(query)) == entries(here.chunks.search(query))


@pytest.mark.slow
def test_the_kits_corpus_ranks_alike(postgres_server: PostgresServer) -> None:
    url = make_sharded([postgres_server.schema_url(f"kit_{at}") for at in range(3)])
    assert_backends_rank_alike(
        Harness(open=MemoryStore), Harness(open=lambda: ShardedStore.open(url))
    )
