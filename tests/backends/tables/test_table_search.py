"""Tables that are not ours, searched where they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.foreign_tables import EMBEDDER, ForeignTables, foreign_tables, vector_of
from support.postgres import PostgresServer
from triptych import (
    CancelledError,
    NotAvailableError,
    NotFoundError,
    StoreError,
    ValidationError,
    deadline,
)
from triptych.access import Access
from triptych.records import Candidates
from triptych.search import Pipeline
from triptych.service import Service
from triptych_testing.builders import keyword_query

pytest.importorskip("psycopg")

import triptych
from triptych_factory import open_tables
from triptych_models import HashEmbedder

TEXTS = {
    "kettle": "An electric kettle of steel that boils a litre of water in two minutes.",
    "teapot": "A teapot of blue porcelain for four cups of tea.",
    "lamp": "A lighthouse keeper's lamp, made of brass, with a wick.",
    "boat": "A rowing boat for two, painted green.",
    "kettle-2": "An electric kettle of steel that boils a litre of water in two minutes.",
    "o'neil": 'The book "Tea & water" by O\'Neil.',
}
WIDTH = EMBEDDER.dimension


@pytest.fixture(scope="module")
def tables(postgres_server: PostgresServer) -> Iterator[ForeignTables]:
    with foreign_tables(postgres_server) as made:
        made.execute(
            f"CREATE TABLE products (sku text PRIMARY KEY, description text, brand text, "
            f"price numeric, active bool, embedding vector({WIDTH}))",
            f'CREATE TABLE "Odd ""Table"" 100%" ("the id" uuid PRIMARY KEY DEFAULT '
            f'gen_random_uuid(), "a.text" varchar, "vec%" halfvec({WIDTH}), title text, '
            f"title_vec vector({WIDTH}))",
            "CREATE TABLE floats (id bigint, body text, embedding real[])",
            "CREATE VIEW active_products AS SELECT sku, description, brand, embedding "
            "FROM products WHERE active",
        )
        made.insert(
            "products",
            "sku, description, brand, price, active, embedding",
            [
                (name, text, "Acme" if at % 2 else "O'Brand", at + 0.5, at != 1, vector_of(text))
                for at, (name, text) in enumerate(TEXTS.items())
            ],
        )
        made.insert(
            "products",
            "sku, description, embedding",
            [
                ("no-text", None, vector_of("kettle")),
                ("no-vector", "A kettle without vector", None),
            ],
        )
        made.insert(
            '"Odd ""Table"" 100%%"',
            '"a.text", "vec%%", title, title_vec',
            [(text, vector_of(text), name, vector_of(name)) for name, text in TEXTS.items()]
            + [(None, None, "kettle", vector_of("kettle"))],
        )
        made.insert(
            "floats",
            "id, body, embedding",
            [
                (at, text, [float(each) for each in vector_of(text)[1:-1].split(",")])
                for at, text in enumerate(TEXTS.values())
            ]
            + [(99, "of another model", [1.0, 2.0])],
        )
        yield made


PRODUCTS = {
    "table": "public.products",
    "id": "sku",
    "text": "description",
    "vector": "embedding",
    "metadata": ["brand", "price"],
}


@pytest.fixture
def products(tables: ForeignTables) -> Iterator[Service]:
    with open_tables(tables.url, [PRODUCTS], embedder=HashEmbedder()) as service:
        yield service


def names(result: triptych.Result) -> list[str]:
    return [hit.doc_name for hit in result.hits]


@pytest.mark.parametrize("mode", ["bm25", "vector", "hybrid"])
def test_rows_are_found_and_shown(products: Service, mode: str) -> None:
    result = products.search("brass lamp of a lighthouse", dataset_id="products", mode=mode)
    (hit, *_) = result.hits
    assert (hit.dataset_id, hit.doc_name) == ("products", "lamp")
    assert hit.content == TEXTS["lamp"]
    assert hit.metadata == {"brand": "O'Brand", "price": 2.5}
    assert hit.stale is None
    assert result.warnings == ()


def test_keyword_candidates_tell_which_terms_they_hold(products: Service) -> None:
    found = products.store.chunks.search(keyword_query("blue tea kettles zebra", "products"))
    assert isinstance(found, Candidates)
    assert found.matches is not None
    told = found.matches()
    assert told.terms == ["blue", "kettl", "tea", "zebra"]
    held = dict(zip([each.doc_name for each in found], told.counts.tolist(), strict=True))
    assert held["teapot"] == [1, 0, 1, 0]
    assert held["no-vector"] == [0, 1, 0, 0]


def test_scores_of_vectors_are_cosines(products: Service) -> None:
    result = products.search("tea for four", dataset_id="products", mode="vector", top_k=20)
    query = EMBEDDER.embed(["tea for four"], kind="query")[0]
    for hit in result.hits:
        row = EMBEDDER.embed([hit.content], kind="document")[0]
        assert hit.score == pytest.approx(float(query @ row), abs=1e-5)
    assert set(names(result)) == set(TEXTS) - {"kettle-2"}


def test_the_same_text_is_shown_once(products: Service) -> None:
    found = names(products.search("electric kettle of steel", dataset_id="products"))
    assert found.count("kettle") == 1
    assert "kettle-2" not in found


def test_texts_without_a_vector_are_found_by_keyword(products: Service) -> None:
    found = names(products.search("kettle without vector", dataset_id="products", mode="bm25"))
    assert found[0] == "no-vector"
    assert "no-text" not in found


def test_filters_act_in_the_server(products: Service) -> None:
    for mode in ("bm25", "vector", "hybrid"):
        result = products.search(
            "electric kettle", dataset_id="products", mode=mode, where={"brand": "O'Brand"}
        )
        assert result.hits
        assert {hit.metadata["brand"] for hit in result.hits} == {"O'Brand"}
    cheap = products.search("", dataset_id="products", where={"price": {"$lt": 2}})
    assert names(cheap) == ["kettle", "teapot"]


def test_a_filter_of_the_table_holds_for_every_search(tables: ForeignTables) -> None:
    spec = {**PRODUCTS, "where": {"active": True, "price": {"$lte": 3}}}
    with open_tables(tables.url, [spec], embedder="hash") as service:
        assert service.count_documents("products") == 2
        found = service.search("teapot", dataset_id="products", mode="vector", top_k=10)
        assert set(names(found)) == {"kettle", "lamp"}
        assert service.get_document("products", "kettle").content == TEXTS["kettle"]
        with pytest.raises(NotFoundError):
            service.get_document("products", "teapot")


def test_several_pairs_of_columns_with_odd_names(tables: ForeignTables) -> None:
    spec = {
        "table": 'public."Odd ""Table"" 100%"',
        "id": "the id",
        "columns": [
            {"text": "title", "vector": "title_vec"},
            {"text": "a.text", "vector": "vec%"},
        ],
        "name": "odd",
    }
    with open_tables(tables.url, [spec], embedder="hash") as service:
        result = service.search("boat", dataset_id="odd")
        assert result.hits[0].content == "boat"
        rows = [hit.doc_name for hit in result.hits]
        assert len(rows) == len(set(rows))
        document = service.get_document("odd", rows[0])
        assert document.content == f"boat\n\n{TEXTS['boat']}"
        found = service.search("rowing painted green", dataset_id="odd", mode="bm25").hits[0]
        assert document.content[found.start : found.end] == TEXTS["boat"] == found.content
        assert (found.start_line, found.chunk_index) == (3, 1)
        assert service.context("green boat", 200, dataset_id="odd").pieces


def test_vectors_in_plain_arrays_and_of_other_widths(tables: ForeignTables) -> None:
    spec = {"table": "floats", "text": "body", "vector": "embedding"}
    with open_tables(tables.url, [spec], embedder="hash") as service:
        result = service.search("brass lamp", dataset_id="floats", mode="vector", top_k=20)
        assert result.hits[0].content == TEXTS["lamp"]
        assert "99" not in names(result)


def test_views_are_searched(tables: ForeignTables) -> None:
    spec = {**PRODUCTS, "table": "active_products", "metadata": []}
    with open_tables(tables.url, [spec], embedder="hash") as service:
        found = service.search("porcelain teapot", dataset_id="active_products", top_k=10)
        assert "teapot" not in names(found)
        assert "kettle" in names(found)


def test_an_index_finds_as_much_as_the_filter_lets_pass(postgres_server: PostgresServer) -> None:
    with foreign_tables(postgres_server) as made:
        made.execute(
            "CREATE TABLE many (id int PRIMARY KEY, body text, part int, v vector(3))",
            "INSERT INTO many SELECT n, 'text ' || n, n % 500, "
            "ARRAY[sin(n), cos(n), sin(n * 7)]::real[]::vector FROM generate_series(1, 4000) n",
            "CREATE INDEX ON many USING hnsw (v vector_cosine_ops) WITH (m = 4)",
            "ANALYZE many",
        )
        spec = {
            "table": "many", "text": "body", "vector": "v", "metadata": ["part"],
        }  # fmt: skip
        with open_tables(made.url, [spec], embedder=_Three()) as service:
            options = {"dataset_id": "many", "mode": "vector"}
            assert len(service.search("any", top_k=50, **options).hits) == 50
            rare = service.search("any", top_k=20, where={"part": 7}, **options)
            assert len(rare.hits) == 8
            assert not service.search("any", where={"part": 501}, **options).hits


class _Three:
    """An embedder of three dimensions."""

    signature = "three"
    dimension = 3

    def embed(self, texts, *, kind):  # type: ignore[no-untyped-def]
        import numpy as np

        return np.array([[0.6, 0.8, 0.0]] * len(texts), np.float32)


def test_the_text_search_of_the_table_is_used(postgres_server: PostgresServer) -> None:
    with foreign_tables(postgres_server) as made:
        made.execute(
            "CREATE TABLE notes (id int PRIMARY KEY, body text, tsv tsvector "
            "GENERATED ALWAYS AS (to_tsvector('english', coalesce(body, ''))) STORED)",
            "CREATE INDEX ON notes USING gin (tsv)",
            "CREATE TABLE plain (id int PRIMARY KEY, body text)",
            "CREATE INDEX ON plain USING gin (to_tsvector('simple', body))",
        )
        rows = [
            (1, "The keepers lit lamps at dusk"),
            (2, "A lamp, a lamp, and another lamp"),
            (3, "Nothing here"),
            (4, "水壶和茶壶在厨房里"),
            (5, None),
        ]
        made.insert("notes", "id, body", rows)
        made.insert("plain", "id, body", rows)
        notes = {"table": "notes", "text": "body", "text_search": "tsv"}
        with open_tables(made.url, [notes, {"table": "plain", "text": "body"}]) as service:
            found = service.search("keeper lamps", dataset_id="notes")
            assert names(found) == ["1", "2"]
            assert all(hit.score > 0 for hit in found.hits)
            assert names(service.search("lamp", dataset_id="plain")) == ["2"]
            assert names(service.search("茶壶", dataset_id="notes")) == ["4"]
            assert names(service.search("the a of", dataset_id="notes")) == []
            source = service.store.source  # type: ignore[attr-defined]
            search = source.read_one("plain", lambda opened: opened.table.pairs[0].search, None)
            assert search.indexed
            assert search.config == "simple"


def test_nothing_is_written(products: Service) -> None:
    with pytest.raises(NotAvailableError, match="read-only"):
        products.put_document("products", "new", "text")
    with pytest.raises(NotAvailableError, match="read-only"):
        products.delete_document("products", "kettle")
    with pytest.raises(NotAvailableError):
        products.search("kettle", dataset_id="products", as_of=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": "product"}, "no table 'product'"),
        ({"text": "desc"}, "no column 'desc', which is its text"),
        ({"text": "descriptoin"}, "did you mean 'description'"),
        ({"text": "price"}, "of type numeric, which cannot be its text"),
        ({"vector": "brand"}, "cannot be its vector"),
        ({"vector": "embeding"}, "did you mean 'embedding'"),
        ({"metadata": ["embedding"]}, "cannot be its metadata"),
        ({"where": {"colour": "red"}}, "names 'colour'"),
        ({"text_config": "klingon"}, "no text search configuration"),
    ],
)
def test_what_is_wrong_is_named_at_first_use_as_no_fault_of_who_searches(
    tables: ForeignTables, change: dict[str, object], said: str
) -> None:
    spec = {**PRODUCTS, "name": "products", **change}
    with open_tables(tables.url, [spec], embedder="hash") as service:
        with pytest.raises(StoreError, match=said):
            service.search("kettle", dataset_id="products", mode="vector")
        (finding,) = service.store.check()  # type: ignore[attr-defined]  # of the doctor
        assert finding.check == "tables.columns"
        assert said in finding.detail


def test_a_vector_of_another_width_is_named(tables: ForeignTables) -> None:
    with open_tables(tables.url, [PRODUCTS], embedder=_Three()) as service:
        with pytest.raises(StoreError, match="set embedder to the model"):
            service.search("kettle", dataset_id="products", mode="vector")
        (finding,) = service.store.check()  # type: ignore[attr-defined]  # of the doctor
        assert finding.check == "tables.columns"


def test_a_role_without_rights_is_told_which(tables: ForeignTables) -> None:
    tables.owner.execute("CREATE TABLE hidden (id int, body text)")
    with (
        open_tables(tables.url, [{"table": "hidden", "text": "body"}]) as service,
        pytest.raises(StoreError, match="SELECT on the table"),
    ):
        service.search("any", dataset_id="hidden")


def test_a_lost_connection_is_replaced(products: Service, tables: ForeignTables) -> None:
    assert products.search("kettle", dataset_id="products").hits
    tables.owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s",
        (tables.role,),
    )
    assert products.search("kettle", dataset_id="products").hits


def test_a_text_too_long_for_a_tsvector_is_found(tables: ForeignTables) -> None:
    """A ``tsvector`` holds 1 MB; without an index, texts longer than that may be in the table."""
    tables.execute(
        "CREATE TABLE books (id int PRIMARY KEY, body text)",
        "INSERT INTO books SELECT 1, string_agg(repeat('word', 40) || at, ' ') || ' lighthouses' "
        "FROM generate_series(10000, 17000) AS at",
        "INSERT INTO books VALUES (2, 'A keeper of the lighthouse.')",
    )
    with open_tables(tables.url, [{"table": "books", "text": "body"}]) as service:
        found = service.search("lighthouse", dataset_id="books")
        assert sorted(names(found)) == ["1", "2"]
        assert names(service.search("word" * 40 + "12345", dataset_id="books")) == ["1"]


def test_a_deadline_is_not_the_statement_timeout(tables: ForeignTables) -> None:
    tables.execute(
        "CREATE TABLE held (id int PRIMARY KEY, body text)",
        "INSERT INTO held VALUES (1, 'A text.')",
    )
    with (
        tables.connect("postgres") as holder,
        open_tables(tables.url, [{"table": "held", "text": "body"}]) as service,
    ):
        assert service.search("text", dataset_id="held").hits
        with holder.transaction():
            holder.execute("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(CancelledError), deadline(0.2):
                service.search("text", dataset_id="held")


def test_a_column_of_another_type_is_named_as_a_change(tables: ForeignTables) -> None:
    tables.execute(
        "CREATE TABLE turned (id int PRIMARY KEY, body text)",
        "INSERT INTO turned VALUES (1, 'A lamp.')",
    )
    with open_tables(tables.url, [{"table": "turned", "text": "body"}]) as service:
        assert names(service.search("lamp", dataset_id="turned")) == ["1"]
        tables.execute("ALTER TABLE turned ALTER COLUMN id TYPE text")
        with pytest.raises(StoreError, match="have changed since"):
            service.search("lamp", dataset_id="turned")


def test_a_statement_that_takes_too_long_is_ended(tables: ForeignTables) -> None:
    tables.execute(
        "CREATE VIEW slow AS SELECT 1 AS id, 'text'::text || coalesce(pg_sleep(5)::text, '') "
        "AS body"
    )
    url = f"{tables.url}&statement_timeout=0.2"
    with (
        open_tables(url, [{"table": "slow", "text": "body"}]) as service,
        pytest.raises(StoreError, match="longer than the statement timeout"),
    ):
        service.search("text", dataset_id="slow")


def test_a_row_that_changes_is_filtered_again_when_it_is_read(
    products: Service, tables: ForeignTables
) -> None:
    from triptych.records import ChunkQuery, Filter, Mode, parse_filter

    query = ChunkQuery(
        dataset_ids=("products",),
        mode=Mode.BM25,
        text="rowing boat",
        filter=Filter(tree=parse_filter({"brand": "Acme"})),
    )
    found = products.chunks.search(query)
    assert [each.doc_name for each in found] == ["boat"]
    tables.owner.execute("UPDATE products SET brand = 'Other' WHERE sku = 'boat'")
    try:
        assert products.chunks.fetch([each.key for each in found]) == {}
    finally:
        tables.owner.execute("UPDATE products SET brand = 'Acme' WHERE sku = 'boat'")


def test_a_pipeline_searches_tables_beside_a_store(products: Service) -> None:
    pipeline = Pipeline(
        name="shop",
        datasets=["products"],
        search={"top_k": 2, "where": {"brand": "Acme"}},
        over=products,
    )
    with triptych.open("memory://", embedder=None, pipelines=[pipeline]) as kb:
        kb.put_document("notes", "kettle.md", "My own kettle.")
        view = kb.pipeline("shop")
        assert names(view.search("porcelain teapot"))[0] == "teapot"
        assert {hit.metadata["brand"] for hit in view.search("kettle").hits} == {"Acme"}
        assert view.context("porcelain teapot").pieces[0].citation.doc_name == "teapot"
        with pytest.raises(ValidationError, match="searches products"):
            view.search("kettle", dataset_id="notes")
        assert names(kb.search("kettle", dataset_id="notes")) == ["kettle.md"]


def test_an_access_holds_for_tables_too(products: Service) -> None:
    pipeline = Pipeline(name="shop", over=products)
    with triptych.open("memory://", embedder=None, pipelines=[pipeline]) as kb:
        kb.put_document("notes", "kettle.md", "My own kettle.")
        assert list(kb.restricted(Access(dataset_ids=["notes"])).pipelines) == []
        some = kb.restricted(Access(dataset_ids=["products"], where={"brand": "Acme"}))
        view = some.pipeline("shop")
        for mode in ("bm25", "vector", "hybrid"):
            found = view.search("cups of tea, or a kettle", mode=mode).hits
            assert found
            assert {hit.metadata["brand"] for hit in found} == {"Acme"}
        assert some.list_datasets() == []
