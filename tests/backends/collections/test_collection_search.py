"""Qdrant collections that are not ours, searched where they are, in two engines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import pytest

import triptych
from triptych import (
    NotAvailableError,
    NotFoundError,
    Service,
    StoreError,
    ValidationError,
)
from triptych.access import Access
from triptych.search import Pipeline
from triptych_models import HashEmbedder

pytest.importorskip("qdrant_client")
pytest.importorskip("qdrant_edge")

from qdrant_client import models

from support.edge_points import EdgePoints, LocalPoints
from triptych.chunking import default_chunkers
from triptych.service import ServiceOptions
from triptych_factory import open_tables
from triptych_factory.tables import service_over as service_of_pipeline
from triptych_inplace import DistinctRows, InPlaceStore, TableSpec
from triptych_inplace.qdrant import CollectionSource

Engine: TypeAlias = EdgePoints | LocalPoints

EMBEDDER = HashEmbedder()
WIDTH = EMBEDDER.dimension
TEXTS = {
    "kettle": "An electric kettle of steel that boils a litre of water in two minutes.",
    "teapot": "A teapot of blue porcelain for four cups of tea.",
    "lamp": "A lighthouse keeper's lamp, made of brass, with a wick.",
    "boat": "A rowing boat for two, painted green.",
    "kettle-2": "An electric  kettle of steel that boils a litre of water in two minutes.",
    "o'neil": 'The book "Tea & water" by O\'Neil.',
}


def vector_of(text: str) -> list[float]:
    return [float(each) for each in EMBEDDER.embed([text], kind="document")[0]]


def doubled(text: str) -> list[float]:
    """A vector that is not of length 1."""
    return [2 * each for each in vector_of(text)]


def fill(engine: Engine) -> None:
    engine.make("products", {"": (WIDTH, "Cosine")}, description="text", sku="keyword")
    engine.put(
        "products",
        [
            (
                at,
                {"": vector_of(text)},
                {
                    "sku": name,
                    "description": text,
                    "brand": "Acme" if at % 2 else "O'Brand",
                    "price": at + 0.5,
                    "active": at != 1,
                },
            )
            for at, (name, text) in enumerate(TEXTS.items())
        ]
        + [
            (50, {"": vector_of("kettle")}, {"sku": "no-text", "description": None}),
            (51, {"": vector_of("kettle")}, {"description": "A kettle without a sku"}),
            (52, {"": vector_of("kettle")}, {"sku": ["x"], "description": "A kettle of two"}),
        ],
    )
    engine.make("manuals", {"dense": (WIDTH, "Dot"), "small": (8, "Euclid")})
    engine.put(
        "manuals",
        [
            (
                str(UUID(int=at + 1)),
                {"dense": doubled(text)},
                {
                    "page content": text,
                    "metadata": {"source": f"files/{name[:4]}.pdf", "a.b": at, "page": at},
                },
            )
            for at, (name, text) in enumerate(TEXTS.items())
        ]
        + [
            (
                str(UUID(int=99)),
                {"small": [1.0] * 8},
                {
                    "page content": "A kettle without vector",
                    "metadata": {"source": "x.pdf", "page": 1},
                },
            )
        ],
    )


@pytest.fixture(scope="module", params=["local", "edge"])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    made: Engine = (
        LocalPoints()
        if request.param == "local"
        else EdgePoints(tmp_path_factory.mktemp("qdrant") / "shards")
    )
    fill(made)
    yield made
    made.reader.close()


PRODUCTS = {
    "table": "products",
    "id": "sku",
    "text": "description",
    "metadata": ["brand", "price"],
}
MANUALS = {
    "table": "manuals",
    "document": "metadata.source",
    "text": '"page content"',
    "vector": "dense",
    "metadata": ["metadata.page", 'metadata."a.b"'],
    "keywords": "text-search",
}


def service_over(engine: Engine, *tables: dict[str, Any], embedder: Any = EMBEDDER) -> Service:
    """What `open_tables` makes, over either engine."""
    specs = [TableSpec.of(each) for each in tables]
    chunkers = default_chunkers()
    source = CollectionSource(
        engine.reader, specs, chunker_sig=chunkers.signature, embedder=embedder
    )
    homes = {spec.name: str(spec.path) for spec in specs}
    return Service(
        InPlaceStore(source),
        options=ServiceOptions(
            chunkers=chunkers,
            embedder=embedder,
            language="english",
            postprocessors=[DistinctRows(homes)],
        ),
    )


def names(result: triptych.Result) -> list[str]:
    return [hit.doc_name for hit in result.hits]


@pytest.mark.parametrize("mode", ["bm25", "vector", "hybrid"])
def test_points_are_found_and_shown(engine: Engine, mode: str) -> None:
    products = service_over(engine, PRODUCTS)
    result = products.search("brass lamp of a lighthouse", dataset_id="products", mode=mode)
    (hit, *_) = result.hits
    assert (hit.dataset_id, hit.doc_name) == ("products", "lamp")
    assert hit.content == TEXTS["lamp"]
    assert hit.metadata == {"brand": "O'Brand", "price": 2.5}
    assert hit.stale is None
    assert result.warnings == ()


@pytest.mark.parametrize("spec", [PRODUCTS, MANUALS], ids=["cosine", "dot"])
def test_scores_of_vectors_are_cosines(engine: Engine, spec: dict[str, Any]) -> None:
    service = service_over(engine, spec)
    result = service.search("tea for four", dataset_id=spec["table"], mode="vector", top_k=20)
    query = EMBEDDER.embed(["tea for four"], kind="query")[0]
    for hit in result.hits:
        row = EMBEDDER.embed([hit.content], kind="document")[0]
        assert hit.score == pytest.approx(float(query @ row), abs=1e-5)
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    assert len(result.hits) == len(TEXTS) - 1  # one text is there twice


def test_names_are_of_the_document_and_the_point(engine: Engine) -> None:
    service = service_over(engine, MANUALS)
    (hit, *_) = service.search("brass lamp of a lighthouse", dataset_id="manuals").hits
    assert hit.doc_name == f"files/lamp.pdf/{UUID(int=3)}"
    assert hit.metadata == {"metadata.page": 2, 'metadata."a.b"': 2}
    assert service.get_document("manuals", hit.doc_name).content == TEXTS["lamp"]
    with pytest.raises(NotFoundError):
        service.get_document("manuals", f"files/boat.pdf/{UUID(int=3)}")
    found = service.search(
        "kettle", dataset_id="manuals", mode="vector", where={"doc_prefix": "files/b"}
    )
    assert names(found) == [f"files/boat.pdf/{UUID(int=4)}"]


def test_the_same_text_is_shown_once(engine: Engine) -> None:
    found = names(service_over(engine, PRODUCTS).search("steel kettle", dataset_id="products"))
    assert ("kettle" in found) != ("kettle-2" in found)


def test_points_without_a_vector_are_found_by_keyword(engine: Engine) -> None:
    service = service_over(engine, MANUALS)
    found = names(service.search("kettle without vector", dataset_id="manuals", mode="bm25"))
    assert found[0] == f"x.pdf/{UUID(int=99)}"


def test_points_without_text_or_name_are_not_there(engine: Engine) -> None:
    products = service_over(engine, PRODUCTS)
    assert {info.name for info in products.documents.list("products")} == set(TEXTS)
    for mode in ("bm25", "vector"):
        found = products.search("kettle without a sku", dataset_id="products", mode=mode, top_k=50)
        assert set(names(found)) <= set(TEXTS)
    assert products.documents.count("products") == len(TEXTS)


@pytest.mark.parametrize("mode", ["bm25", "vector", "hybrid"])
def test_a_filtered_search_is_not_short(engine: Engine, mode: str) -> None:
    products = service_over(engine, PRODUCTS)
    for where, expected in [
        ({"brand": "O'Brand"}, {"kettle", "lamp", "kettle-2"}),
        ({"$not": {"brand": "Acme"}, "price": {"$lt": 1}}, {"kettle"}),
        ({"price": {"$gte": 4.5, "$lt": 5.5}}, {"kettle-2"}),
        ({"brand": {"$ne": "O'Brand"}}, {"teapot", "boat", "o'neil"}),
        ({"$name": {"$contains": "ttle"}}, {"kettle", "kettle-2"}),
        ({"missing": "x"}, set()),
        ({"active": True}, set()),  # not one of its metadata
    ]:
        result = products.search(
            "electric kettle of steel", dataset_id="products", mode=mode, where=where, top_k=1
        )
        if mode == "bm25" and "kettle" not in expected | {"kettle-2"}:
            continue
        assert len(result.hits) == min(1, len(expected)), where
        assert set(names(result)) <= expected


def test_the_collections_own_filter_holds_everywhere(engine: Engine) -> None:
    service = service_over(engine, {**PRODUCTS, "where": {"active": {"$ne": False}}})
    assert service.get_document("products", "kettle").metadata == {"brand": "O'Brand", "price": 0.5}
    with pytest.raises(NotFoundError):
        service.get_document("products", "teapot")
    for mode in ("bm25", "vector"):
        found = service.search("blue porcelain teapot", dataset_id="products", mode=mode, top_k=9)
        assert "teapot" not in names(found)


def test_a_point_that_stops_passing_is_not_shown(engine: Engine) -> None:
    service = service_over(engine, PRODUCTS)
    from triptych.records import ChunkQuery, Filter, Mode, parse_filter

    query = ChunkQuery(
        dataset_ids=["products"],
        text="lamp",
        vector=EMBEDDER.embed(["lamp"], kind="query")[0],
        embed_sig=EMBEDDER.signature,
        mode=Mode.VECTOR,
        top_k=3,
        filter=Filter(tree=parse_filter({"brand": "O'Brand"})),
    )
    (best, *_) = service.store.chunks.search(query)
    assert best.doc_name == "lamp"
    payload = {"sku": "lamp", "description": TEXTS["lamp"], "brand": "Other", "price": 2.5}
    engine.put("products", [(2, {"": vector_of(TEXTS["lamp"])}, payload)])
    try:
        assert service.store.chunks.fetch([best.key]) == {}
    finally:
        payload = {**payload, "brand": "O'Brand", "active": True}
        engine.put("products", [(2, {"": vector_of(TEXTS["lamp"])}, payload)])
    assert list(service.store.chunks.fetch([best.key])) == [best.key]


def test_several_collections_are_searched_as_one(engine: Engine) -> None:
    service = service_over(engine, PRODUCTS, MANUALS)
    for mode in ("bm25", "vector", "hybrid"):
        result = service.search(
            "brass lamp", dataset_ids=["products", "manuals"], mode=mode, top_k=9
        )
        assert [hit.content for hit in result.hits].count(TEXTS["lamp"]) == 1
    pipeline = Pipeline(name="shop", over=service)
    with triptych.open("memory://", embedder=None, pipelines=[pipeline]) as kb:
        assert kb.pipeline("shop").search("brass lamp").hits[0].content == TEXTS["lamp"]


def test_a_vector_that_fails_leaves_the_others() -> None:
    made = LocalPoints()

    def fill_pairs(*vectors: str) -> None:
        made.make("pairs", dict.fromkeys(vectors, (WIDTH, "Cosine")))
        points = [
            (at, {each: vector_of(text) for each in vectors}, {"name": name, "body": text})
            for at, (name, text) in enumerate(TEXTS.items())
        ]
        made.put("pairs", points)

    fill_pairs("one", "two")
    pairs = [{"text": "body", "vector": "one"}, {"text": "name", "vector": "two"}]
    service = service_over(made, {"table": "pairs", "id": "name", "columns": pairs})
    assert service.search("lamp", dataset_id="pairs", mode="vector").warnings == ()
    made.client.delete_collection("pairs")
    fill_pairs("one")
    for mode in ("vector", "hybrid"):
        found = service.search(TEXTS["lamp"], dataset_id="pairs", mode=mode)
        assert found.hits[0].doc_name == "lamp"
        (warning,) = found.warnings
        assert warning.startswith(
            "a pair of columns was not searched by vector: 'name' of 'pairs': "
        )
    made.client.delete_collection("pairs")
    fill_pairs("three")
    with pytest.raises(StoreError):
        service.search("lamp", dataset_id="pairs", mode="vector")
    made.reader.close()


def test_scores_of_keywords_are_those_of_a_store(engine: Engine) -> None:
    ours = service_over(engine, PRODUCTS, embedder=None)
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("products", TEXTS)
        for query in ("electric kettle of steel", "tea water", "boat", "a lamp for two cups"):
            expected = kb.search(query, dataset_id="products", mode="bm25", top_k=9)
            found = ours.search(query, dataset_id="products", mode="bm25", top_k=9)
            # Qdrant finds a word as it is written, and the analyzer other forms of it.
            first = [(hit.doc_name, hit.content) for hit in expected.hits[:1]]
            assert [(hit.doc_name, hit.content) for hit in found.hits[:1]] == first


def test_an_access_sees_what_its_filter_names(engine: Engine) -> None:
    service = service_over(engine, PRODUCTS)
    seen = service.restricted(Access(dataset_ids=["products"], where={"brand": "Acme"}))
    for mode in ("bm25", "vector", "hybrid"):
        result = seen.search("electric kettle of steel tea boat", dataset_id="products", mode=mode)
        assert result.hits
        assert {hit.metadata["brand"] for hit in result.hits} == {"Acme"}
    with pytest.raises(NotFoundError):
        seen.get_document("products", "kettle")


def test_nothing_is_written(engine: Engine) -> None:
    service = service_over(engine, PRODUCTS)
    with pytest.raises(NotAvailableError, match="read-only"):
        service.put_document("products", "new", "text")
    with pytest.raises(NotAvailableError, match="read-only"):
        service.delete_document("products", "lamp")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({**MANUALS, "vector": "small"}, "have 8 numbers"),
        ({**MANUALS, "vector": "large"}, "it has 'dense', 'small'"),
        ({**PRODUCTS, "table": "nothing"}, "no collection 'nothing'"),
        ({**PRODUCTS, "text": "a..b"}, "names no field"),
    ],
)
def test_what_does_not_fit_is_named_as_no_fault_of_who_searches(
    engine: Engine, spec: dict[str, Any], message: str
) -> None:
    service = service_over(engine, spec)
    with pytest.raises(StoreError, match=message):
        service.search("lamp", dataset_id=spec["table"], mode="bm25")
    (finding,) = service.store.check()
    assert finding.check == "tables.columns"
    assert message in finding.detail


def test_one_of_several_vectors_must_be_named(engine: Engine) -> None:
    spec = {key: value for key, value in MANUALS.items() if key != "vector"}
    with pytest.raises(StoreError, match="name one of 'dense', 'small'"):
        service_over(engine, spec).search("lamp", dataset_id="manuals")
    found = service_over(engine, spec, embedder=None).search("lamp", dataset_id="manuals")
    assert found.hits[0].content == TEXTS["lamp"]


def test_keywords_are_looked_for_among_the_nearest(engine: Engine) -> None:
    spec = {**MANUALS, "keywords": "nearest"}
    result = service_over(engine, spec).search("brass lamps", dataset_id="manuals", mode="bm25")
    # The analyzer's stems: Qdrant's words are not asked.
    assert result.hits[0].content == TEXTS["lamp"]


def test_words_that_most_points_hold_do_not_hide_the_best(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triptych_inplace.keyword_lane as shared
    import triptych_inplace.qdrant.source as lane

    name = "common"
    engine.make(name, {"": (2, "Cosine")}, body="text")
    engine.put(
        name,
        [
            (
                at,
                {"": [1.0, 0.0]},
                {"body": "red apple" if at == 39 else "red" if at % 2 else "apple"},
            )
            for at in range(40)
        ],
    )
    monkeypatch.setattr(lane, "ENOUGH", 3)
    monkeypatch.setattr(lane, "_PAGE", 2)
    monkeypatch.setattr(shared, "POOL", 3)
    service = service_over(engine, {"table": name, "text": "body"}, embedder=None)
    result = service.search("red apple", dataset_id=name, mode="bm25", top_k=1)
    assert [hit.content for hit in result.hits] == ["red apple"]


@pytest.mark.parametrize("mode", ["hybrid", "bm25"])
def test_whole_documents_are_not_searched_in_place(engine: Engine, mode: str) -> None:
    with pytest.raises(NotAvailableError, match="lane is wired for document search"):
        service_over(engine, PRODUCTS).search_documents("lamp", dataset_id="products", mode=mode)


def test_keys_of_the_other_kind_are_refused(engine: Engine) -> None:
    with pytest.raises(ValidationError, match="PostgreSQL"):
        service_over(engine, {**PRODUCTS, "text_search": "tsv"})
    with pytest.raises(NotAvailableError, match="no embedder"):
        service_over(engine, MANUALS, embedder=None)


def test_open_tables_takes_a_client_or_a_url(tmp_path: Path) -> None:
    local = LocalPoints()
    fill(local)
    with open_tables(local.client, [PRODUCTS], embedder="hash") as shop:
        assert names(shop.search("brass lamp", dataset_id="products"))[0] == "lamp"
    assert local.client.get_collections().collections  # it is still open
    url = "qdrant://127.0.0.1:9"
    with open_tables(url, [PRODUCTS], embedder="hash") as away:
        with pytest.raises(StoreError, match="Qdrant at 127") as caught:
            away.search("lamp", dataset_id="products", mode="bm25")
        assert "the store itself" not in str(caught.value)
    for wrong in ("?truth=kb.db", "/path", "?exact=true"):
        with pytest.raises(ValidationError):
            open_tables(url + wrong, [PRODUCTS], embedder="hash")
    with pytest.raises(ValidationError, match="collections of Qdrant"):
        open_tables("postgresql://x@127.0.0.1:9/y", [{**MANUALS, "vector": None}])


def test_a_pipeline_over_collections_names_its_embedder() -> None:
    table = {"url": "qdrant://127.0.0.1:9", "tables": [{**PRODUCTS, "text": "description"}]}
    with pytest.raises(NotAvailableError, match="embedder = 'none'"):
        service_of_pipeline(table, lambda name: None, None)
    by_words = service_of_pipeline({**table, "embedder": "none"}, lambda name: None, None)
    assert by_words is not None
    with by_words:
        assert by_words.list_datasets() == ["products"]
    both = service_of_pipeline(table, lambda name: EMBEDDER, None)
    assert both is not None
    with both:
        (finding,) = both.store.check()  # type: ignore[attr-defined]
        assert finding.check == "tables.database"


@pytest.mark.skipif(
    "QDRANT_URL" not in os.environ,
    reason="QDRANT_URL names no server of Qdrant, such as qdrant://localhost:6333",
)
def test_a_real_server_is_searched() -> None:
    from triptych_qdrant import parse_url

    url = os.environ["QDRANT_URL"]
    client = parse_url(url, alone=True).connect()
    name = f"test-{os.getpid()}"
    client.create_collection(
        name, vectors_config=models.VectorParams(size=WIDTH, distance=models.Distance.COSINE)
    )
    try:
        client.create_payload_index(name, "body", models.PayloadSchemaType.TEXT, wait=True)
        client.create_payload_index(name, "changed", models.PayloadSchemaType.DATETIME, wait=True)
        client.upsert(
            name,
            [
                models.PointStruct(
                    id=at,
                    vector=vector_of(text),
                    payload={"body": text, "brand": at % 2, "changed": f"2026-01-0{at + 1}"},
                )
                for at, text in enumerate(TEXTS.values())
            ],
            wait=True,
        )
        spec = {"table": name, "text": "body", "metadata": ["brand"], "updated_at": "changed"}
        with open_tables(url, [spec], embedder=EMBEDDER) as service:
            for mode in ("bm25", "vector", "hybrid"):
                result = service.search(
                    "brass lamp of a lighthouse", dataset_id=name, mode=mode, where={"brand": 0}
                )
                assert result.hits[0].content == TEXTS["lamp"]
    finally:
        client.delete_collection(name)
        client.close()
