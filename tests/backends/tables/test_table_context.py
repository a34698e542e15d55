"""Contexts and vectors over tables that are not ours: the best hits, whatever one pair does."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.asgi import Client
from support.foreign_tables import EMBEDDER, ForeignTables, foreign_tables, vector_of
from support.postgres import PostgresServer

pytest.importorskip("psycopg")

import triptych
from triptych import StoreError
from triptych.search import Pipeline
from triptych_factory import open_tables
from triptych_server.http import create_app
from triptych_testing.fakes import ScriptedLLM

WORDS = [
    *("steel", "litre", "boils", "water", "minutes", "electric", "kettle", "two", "cups", "lid"),
    *("handle", "base", "cord"),
]
PART = (
    "Spare part XJ9000 for older machines of another maker, packed in a box of ten with screws and "
    "a drawing that shows how it is put in."
)
WIDTH = EMBEDDER.dimension
UNSEARCHED = "a pair of columns was not searched by vector"
QUESTION = "which electric kettle takes the XJ9000"


@pytest.fixture
def made(postgres_server: PostgresServer) -> Iterator[ForeignTables]:
    rng = random.Random(1)
    texts = [(f"{at:03}", " ".join(rng.choices(WORDS, k=12))) for at in range(200)]
    with foreign_tables(postgres_server) as made:
        made.execute(
            f"CREATE TABLE parts (id text PRIMARY KEY, body text, vector vector({WIDTH}), "
            f"title text, title_vector vector({WIDTH}))"
        )
        made.insert(
            "parts",
            "id, body, vector, title, title_vector",
            [
                (name, text, vector_of(text), f"{text[:9]} {name}", vector_of(text[:9]))
                for name, text in [*texts, ("part", PART)]
            ],
        )
        yield made


def table(*columns: tuple[str, str], **more: Any) -> dict[str, Any]:
    pairs = [{"text": text, "vector": vector} for text, vector in columns]
    return {"table": "parts", "id": "id", "columns": pairs, **more}


def test_a_context_over_a_table_keeps_the_order_of_the_search(made: ForeignTables) -> None:
    with open_tables(made.url, [table(("body", "vector"))], embedder=EMBEDDER) as kb:
        hits = kb.search(QUESTION, dataset_id="parts", top_k=3).hits
        assert hits[0].doc_name == "part"
        best = {hit.doc_name for hit in hits[:2]}
        pipeline = Pipeline(name="shop", over=kb)
        with triptych.open("memory://", embedder=None, pipelines=[pipeline]) as shop:
            view = shop.pipeline("shop")
            for pack in (
                kb.context(QUESTION, 120, dataset_id="parts", layers=["L2"]),
                kb.context(QUESTION, 120, dataset_id="parts"),
                view.context(QUESTION, 120),
            ):
                assert best <= {piece.citation.doc_name for piece in pack.pieces}


@pytest.mark.parametrize("keywords", ["auto", "nearest"])
def test_a_pair_of_columns_that_fails_leaves_the_others(made: ForeignTables, keywords: str) -> None:
    spec = table(("body", "vector"), ("title", "title_vector"), keywords=keywords)
    with open_tables(made.url, [spec], embedder=EMBEDDER) as kb:
        assert kb.search("spare part", dataset_id="parts", mode="vector").warnings == ()
        made.execute("ALTER TABLE parts DROP COLUMN title_vector")
        for mode in ("vector", "hybrid"):
            found = kb.search(PART, dataset_id="parts", mode=mode)
            assert found.hits[0].doc_name == "part"
            assert "vector" in found.hits[0].scores
            (warning,) = found.warnings
            assert warning.startswith(f"{UNSEARCHED}: 'title' of 'parts': ")
            assert "title_vector" in warning
        made.execute("ALTER TABLE parts DROP COLUMN vector")
        with pytest.raises(StoreError, match="have changed"):
            kb.search(PART, dataset_id="parts", mode="vector")


@pytest.mark.parametrize("keywords", ["auto", "nearest"])
@pytest.mark.parametrize(
    ("broken", "repaired", "reason"),
    [
        ("DROP COLUMN title_vector", f"ADD title_vector vector({WIDTH})", "no column 'title_vec"),
        (
            "ALTER title_vector TYPE text",
            f"ALTER title_vector TYPE vector({WIDTH}) USING title_vector::vector({WIDTH})",
            "of type text, which cannot be its vector",
        ),
        (
            "DROP COLUMN title_vector, ADD title_vector vector(3)",
            f"DROP COLUMN title_vector, ADD title_vector vector({WIDTH})",
            r"is vector\(3\), but the embedder",
        ),
    ],
    ids=["missing", "type", "width"],
)
def test_a_pair_that_is_broken_at_the_start_leaves_the_others(
    made: ForeignTables,
    caplog: pytest.LogCaptureFixture,
    keywords: str,
    broken: str,
    repaired: str,
    reason: str,
) -> None:
    made.execute(f"ALTER TABLE parts {broken}")
    spec = table(("body", "vector"), ("title", "title_vector"), keywords=keywords)
    with open_tables(made.url, [spec], embedder=EMBEDDER) as kb:
        pipeline = Pipeline(name="shop", over=kb, llm=ScriptedLLM("It is [1]."))
        with triptych.open("memory://", embedder=None, pipelines=[pipeline]) as shop:
            client = Client(create_app(shop))
            for mode in ("vector", "hybrid", "bm25"):
                found = kb.search(PART, dataset_id="parts", mode=mode)
                assert found.hits[0].doc_name == "part"
                if mode == "bm25" and keywords == "auto":
                    assert found.warnings == ()
                    continue
                (warning,) = found.warnings
                assert re.match(rf"{UNSEARCHED}: 'title' of 'parts': .*{reason}", warning)
            assert re.search(reason, caplog.text)
            asked = client("POST", "/v1/pipelines/shop", json={"query": PART})
            assert asked.json()["warnings"][0] == UNSEARCHED
            (finding,) = kb.store.check()  # type: ignore[attr-defined]  # of the doctor
            assert re.search(reason, finding.detail)
            made.execute(f"ALTER TABLE parts {repaired}")
            found = kb.search(PART, dataset_id="parts")
            assert (found.hits[0].doc_name, found.warnings) == ("part", ())
            # Without any pair it is the server's failure, which names nothing of the database.
            made.execute("ALTER TABLE parts DROP COLUMN title_vector, DROP COLUMN vector")
    with open_tables(made.url, [spec], embedder=EMBEDDER) as kb:
        client = Client(create_app(kb))
        caplog.clear()
        body = {"query": PART, "dataset_id": "parts", "mode": "vector"}
        failed = client("POST", "/v1/search", json=body)
        assert (failed.status_code, failed.json()["error"]["message"]) == (500, "the store failed")
        assert "has no column 'vector'" in caplog.text
        assert failed.text.count("parts") == failed.text.count("title") == 0
