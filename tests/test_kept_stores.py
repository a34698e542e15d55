"""Stores that earlier versions wrote are read, searched, checked and written by this one."""

from __future__ import annotations

from pathlib import Path

import pytest

import triptych
from support.kept_stores import ARCHIVES, KEPT, opened
from triptych.errors import ConflictError
from triptych_backends.sql.migrations import FIRST_VERSION, SCHEMA_VERSION

VERSIONS = sorted(int(each.name) for each in KEPT.iterdir())


def test_every_schema_has_a_store_of_each_kind() -> None:
    # Missing: a new schema. PYTHONPATH=tests .venv/bin/python -m support.kept_stores
    assert list(range(FIRST_VERSION, SCHEMA_VERSION + 1)) == VERSIONS
    for version in VERSIONS:
        files = list((KEPT / str(version)).iterdir())
        assert {each.name for each in files} == set(ARCHIVES.values())
        assert sum(each.stat().st_size for each in files) < 200_000


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_kept_store_answers_as_it_did(
    kind: str, version: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    with opened(kind, version, tmp_path, server) as url:
        # The embedder is the one that the store was filled with.
        with triptych.open(url) as kb:
            docs = kb.dataset("docs")
            assert kb.doctor().findings == ()
            assert docs.search("how often is a failed call tried").hits[0].doc_name == "http.md"
            assert docs.search("重试").hits[0].doc_name == "guide/中文.md"
            (hit, *_) = docs.search("okapi port", where={"team": "ops"}).hits
            assert (hit.doc_name, hit.start_line) == ("guide/setup.md", 1)
            assert hit.stale in (None, "chunker")  # what is derived is not migrated
            assert {"bm25", "vector"} <= set(hit.scores)
            assert docs.search("nobody reads", mode="bm25").hits == ()
            assert [each.version for each in docs.history("http.md")] == [2, 1]
            assert "three times" in docs.get("http.md", version=1).content
            layer = docs.layer("guide/setup.md", "L0")
            assert layer is not None
            assert "7700" in layer.content
            assert docs.dataset_layer("L1") is not None
            assert kb.dataset("notes").search("okapi").hits[0].doc_name == "one.txt"
            if hit.stale == "chunker":
                with pytest.raises(ConflictError, match="rebuild the dataset"):
                    docs.put("http.md", "another text")
                assert kb.rebuild(dataset_id="docs").failed == ()
            assert docs.put("http.md", "# HTTP client\n\nNo quagga is retried.\n").version == 3
        with triptych.open(url) as kb:
            assert kb.dataset("docs").search("quagga").hits[0].doc_name == "http.md"
            assert kb.doctor().clean
