"""Contexts and vectors over tables that are not ours: the best hits, whatever one pair does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from support.foreign_tables import EMBEDDER, ForeignTables, foreign_tables, vector_of
from support.postgres import PostgresServer

pytest.importorskip("psycopg")

import triptych
from triptych import StoreError
from triptych.search import Pipeline
from triptych_factory import open_tables

WORDS = [
    *("steel", "litre", "boils", "water", "minutes", "electric", "kettle", "two", "cups", "lid"),
    *("handle", "base", "cord"),
]
PART = (
    "Spare part XJ9000 for older machines of another maker, packed in a box of ten with screws and "
    "a drawing that shows how it is put in."
)
WIDTH = EMBEDDER.dimension
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
            assert warning.startswith("the vectors of 'title' of 'parts' were not searched: ")
            assert "title_vector" in warning
        made.execute("ALTER TABLE parts DROP COLUMN vector")
        with pytest.raises(StoreError, match="have changed"):
            kb.search(PART, dataset_id="parts", mode="vector")
