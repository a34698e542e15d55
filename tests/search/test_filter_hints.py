"""A filter that finds nothing says what of it no document has."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.rows import each_row
from triptych import NewDocument, Service


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = "memory://" if request.param == "memory" else tmp_path / "kb.db"
    with triptych.open(url, embedder="hash") as kb:
        for at in range(4):
            metadata: dict[str, Any] = {
                "chapter": at,
                "tags": ["novel", "sea"],
                "draft": True,
                "on": date(2024, 5, 1 + at),
                "title": f"Part {at}",
            }
            kb.put_document("d", f"part/{at}.md", f"The ferry leaves at {at}.", metadata)
        kb.put_document("d", "plain.md", "The ferry rests.")
        yield kb


FIELDS = "the fields are chapter, draft, on, tags, title"
HINTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"chaptr": 4}, [f"no document has 'chaptr'; {FIELDS}: did you mean 'chapter'?"]),
    ({"xyz": 4}, [f"no document has 'xyz'; {FIELDS}"]),
    ({"chapter": "3"}, ["'chapter' is a number in these documents, not text"]),
    ({"chapter": {"$gte": "3"}}, ["'chapter' is a number in these documents, not text"]),
    ({"title": {"$gt": 3}}, ["'title' is text in these documents, not a number"]),
    ({"on": "2024-05-01"}, ["'on' is a date in these documents, not text"]),
    ({"draft": "true"}, ["'draft' is true or false in these documents, not text"]),
    (
        {"tags": "novel"},
        ["'tags' is a list in these documents, not text: write {'tags': {'$contains': …}}"],
    ),
    (
        {"doc_prefix": "prat/"},
        ["no document's name begins with 'prat/': list the documents to see their names"],
    ),
    (
        {"$or": [{"chapter": "3"}, {"chapter": 77}]},
        ["'chapter' is a number in these documents, not text"],
    ),
    ({"chapter": 77}, []),
    ({"title": "part 1"}, []),
    ({"tags": {"$contains": "poem"}}, []),
    ({"chapter": 77, "xyz": {"$ne": 1}}, []),
    ({"chapter": 77, "xyz": {"$exists": False}}, []),
]  # fmt: skip


@each_row(("where", "said"), HINTS)
def test_a_search_says_what_no_document_has(
    kb: Service, where: dict[str, Any], said: list[str]
) -> None:
    for text in ("ferry", ""):
        result = kb.search(text, dataset_id="d", where=where)
        assert not result.hits
        assert list(result.warnings) == said
    assert list(kb.search_documents("ferry", dataset_id="d", where=where).warnings) == said
    assert [each for each in kb.context("ferry", 300, where=where).warnings if each in said] == said


def test_nothing_is_said_where_something_is_found_or_nothing_is_there(kb: Service) -> None:
    found = kb.search("ferry", where={"$or": [{"chaptr": 4}, {"chapter": 1}]})
    assert (len(found.hits), found.warnings) == (1, ())
    kb.create_dataset("empty")
    assert kb.search("ferry", dataset_id="empty", where={"chaptr": 4}).warnings == ()


def test_what_has_expired_has_no_fields(kb: Service) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    old = NewDocument(name="old", content="A ferry.", metadata={"lapsed": 1}, expires_at=past)
    kb.put_documents("d", [old])
    assert kb.search("ferry", where={"lapsed": 1}).warnings == (
        f"no document has 'lapsed'; {FIELDS}",
    )


def test_types_are_looked_for_beyond_the_documents_that_are_read(kb: Service) -> None:
    many = [
        NewDocument(name=f"n{at:04}", content="x", metadata={"chapter": at}) for at in range(1100)
    ]
    last = NewDocument(name="z", content="x", metadata={"chapter": "one"})
    kb.put_documents("d", [*many, last], embed="later")
    warnings = kb.search("", where={"chapter": "3"}, mode="bm25").warnings
    assert not [each for each in warnings if "chapter" in each]
