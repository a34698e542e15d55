"""What `triptych.open` is given reaches the Service."""

from __future__ import annotations

from typing import Any

import pytest

import triptych
from triptych import ChunkConfig, OpenOptions, ValidationError
from triptych.chunking import (
    DefaultChunker,
    FixedWindowChunker,
    MarkdownChunker,
    SentenceWindowChunker,
    default_chunkers,
)
from triptych.contracts import Chunker


def test_chunkers_and_the_bound_of_embedding_are_taken_on() -> None:
    chunkers = default_chunkers(ChunkConfig(size=99, overlap=0), MarkdownChunker(size=99))
    with triptych.open("memory://", embedder=None, chunkers=chunkers, embed_concurrency=7) as kb:
        assert kb.options.chunkers is chunkers
        assert kb.options.embed_concurrency == 7
        kb.put_document("d", "a.md", "word " * 100)
        assert all(len(chunk.content) <= 99 for chunk in kb.chunks.iter_chunks("d"))
        assert kb.stats("d")[0].stale == 0


@pytest.mark.parametrize("size", [{"chunk_size": 300}, {"chunk_overlap": 3}, {"chunker": "window"}])
def test_chunkers_and_sizes_together_are_refused(size: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="chunkers"):
        triptych.open("memory://", embedder=None, chunkers=default_chunkers(), **size)  # type: ignore[arg-type]  # a test of arguments


@pytest.mark.parametrize(
    ("name", "markdown"),
    [
        ("markdown", MarkdownChunker(size=200, overlap=0)),
        ("markdown-sections", MarkdownChunker(size=200, overlap=0, joins=False)),
        ("window", DefaultChunker(config=ChunkConfig(size=200, overlap=0))),
        ("fixed-window", FixedWindowChunker(size=200, overlap=0)),
        ("sentence-window", SentenceWindowChunker(size=200)),
    ],
)
def test_a_setting_names_the_chunker(
    name: str, markdown: Chunker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPTYCH_CHUNKER", name)
    with triptych.open("memory://", embedder=None, chunk_size=200, chunk_overlap=0) as kb:
        assert kb.options.chunkers.for_document("a.md", {}).signature == markdown.signature


def test_a_chunker_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValidationError, match="no chunker is called 'line': use one of markdown,"):
        triptych.open("memory://", embedder=None, chunker="line")
    with pytest.raises(ValidationError, match="leave chunk_overlap out"):
        triptych.open("memory://", embedder=None, chunker="sentence-window", chunk_overlap=5)


@pytest.mark.parametrize(("name", "meant"), [("embeder", "embedder"), ("chunksize", "chunk_size")])
def test_an_unknown_option_is_refused_with_the_name_that_was_meant(name: str, meant: str) -> None:
    options: dict[str, Any] = {name: None if name == "embeder" else 100}
    with pytest.raises(ValidationError, match=f"no option '{name}': did you mean '{meant}'"):
        triptych.open("memory://", **options)


def test_an_option_that_is_none_is_as_if_left_out() -> None:
    options: dict[str, Any] = dict.fromkeys(OpenOptions.__annotations__)
    with triptych.open("memory://", embedder=None, llm=None, **options) as kb:
        assert kb.options.retrievers == ()
