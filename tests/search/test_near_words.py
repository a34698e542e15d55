"""A query's word that no document holds: the near word that they hold is named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

import triptych
from support.examples import examples
from support.rows import each_row
from triptych import NewDocument, Service

TEXTS = {
    "jobs.md": "# Scheduler\n\nThe scheduler runs each job at night, never by day.",
    "ferry.md": "The ferry leaves at noon for Петербург, and rests in the harbour.",
    "plain.md": "Nothing else: the boats sail happily.",
}


@pytest.fixture(params=["memory", "sqlite"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    url = "memory://" if request.param == "memory" else tmp_path / "kb.db"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_documents("d", TEXTS)
        yield kb


def near(kb: Service, query: str, **options: object) -> list[str]:
    warnings = kb.search(query, **options).warnings  # type: ignore[arg-type]  # any options
    return [each for each in warnings if "no document holds" in each]


@pytest.mark.parametrize(
    ("query", "word", "meant"),
    [
        ("schedular", "schedular", "scheduler"),
        ("Schedulerr", "Schedulerr", "scheduler"),
        ("shceduler", "shceduler", "scheduler"),
        ("fery", "fery", "ferry"),
        ("harbor", "harbor", "harbour"),
        ("how does the schedular work", "schedular", "scheduler"),
        ("Петербрг", "Петербрг", "петербург"),
        ('"the schedular"', "schedular", "scheduler"),
    ],
)
def test_the_near_word_is_named(kb: Service, query: str, word: str, meant: str) -> None:
    said = [f"no document holds {word!r}; did you mean {meant!r}?"]
    for options in ({"mode": "bm25"}, {"mode": "hybrid"}, {"dataset_id": "d"}):
        assert near(kb, query, **options) == said
    assert near(kb, query, mode="vector") == said
    assert said[0] in kb.context(query, 300).warnings


@each_row(
    "query",
    [
        "scheduler",
        "schedulers",
        "happy",
        "xyzzyq",
        "jbo",
        "the",
        "ab12cd",
        "轮船轮船",
        "boot at noon",
    ],
)
def test_nothing_is_said_of_what_is_held_or_near_to_nothing(kb: Service, query: str) -> None:
    assert near(kb, query) == []


def test_a_word_of_what_has_expired_is_not_named(kb: Service) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    old = NewDocument(name="old", content="A lighthouse.", expires_at=past)
    kb.put_documents("d", [old])
    assert near(kb, "lighthose") == []


def test_no_more_than_three_words_of_a_query_are_looked_for(kb: Service) -> None:
    said = near(kb, "schedular harboar Петербрг happyly")
    assert [each.split("'")[1] for each in said] == ["schedular", "harboar", "Петербрг"]


def test_a_word_above_a_text_is_found_too(kb: Service) -> None:
    kb.put_document("d", "x.md", "# Lighthouse\n\nIt shines.", {"title": "Keepers"})
    assert near(kb, "lighthose")
    assert near(kb, "keepars")


def test_a_store_without_datasets_has_no_words() -> None:
    with triptych.open("memory://", embedder=None) as empty:
        found = empty.search("schedular", scope="all")
        assert (found.hits, found.warnings, found.evidence.level) == ((), (), "none")
        assert not empty.context("schedular", 300, scope="all").pieces


@settings(max_examples=examples(50), deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@example("\u064b")
def test_any_query_is_taken(text: str) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("d", TEXTS)
        if text.strip("\0 \t\r\n\f\v\u3000") and "\0" not in text:
            near(kb, text, syntax=False)
