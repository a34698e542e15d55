"""The local index with the analyzer that it has by default."""

from __future__ import annotations

from support.index_model import MemoryChangeLog
from triptych_backends.index import LocalIndex


def test_stems_case_and_chinese_words_are_found():
    feed = MemoryChangeLog()
    feed.put("x", 1, "one", ["The runners were running", "userName and HTTPServer"])
    feed.put("x", 2, "two", ["中文信息检索系统", "nothing"])
    with LocalIndex(feed) as index:
        for query, places in {
            "RUN": [("one", 0)],
            "user server": [("one", 1)],
            "信息": [("two", 0)],
            "the": [("one", 0)],
            "": [],
        }.items():
            hits = index.bm25(["x"], "chunk", query, limit=5).rows
            assert [(hit.name, hit.index) for hit in hits] == places


def test_datasets_of_two_languages_are_searched_together_by_their_own_terms():
    feed = MemoryChangeLog()
    feed.set_profile("german", language="german")
    feed.put("german", 1, "a", ["Häuser am Fluss"])
    feed.put("english", 2, "b", ["houses, Häuser"])
    with LocalIndex(feed) as index:
        hits = index.bm25(["german", "english"], "chunk", "Haus houses", limit=5).rows
        assert [(hit.dataset, hit.owner) for hit in hits] == [("english", 2), ("german", 1)]


def test_an_empty_or_unknown_dataset_has_no_hits():
    with LocalIndex(MemoryChangeLog()) as index:
        assert index.bm25(["none"], "overview", "word", limit=5).rows == []
        assert index.stats("none").units == {}
        index.drop("none")


def test_a_field_has_statistics_of_its_own():
    feed = MemoryChangeLog()
    feed.put("x", 1, "one", ["word other", "word"])
    feed.put("x", 1, "one", ["word other word"], field="document")
    with LocalIndex(feed) as index:
        (hit,) = index.bm25(["x"], "document", "word", limit=5).rows
        assert hit.index == -1
        assert len(index.bm25(["x"], "chunk", "word", limit=5).rows) == 2
        feed.delete("x", 1, field="document")
        assert index.bm25(["x"], "document", "word", limit=5).rows == []
        assert len(index.bm25(["x"], "chunk", "word", limit=5).rows) == 2
