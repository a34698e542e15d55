"""Comparing the keyword and vector lanes of a dataset on lines of its documents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from heapq import nsmallest
from itertools import islice

import attrs

from triptych.contracts import ChunkRepo
from triptych.records import Mode, Query, Result
from triptych.search.pipeline import SearchPipeline
from triptych.search.query import has_words
from triptych.vectors.lanes import ModelSet

MOST_DATASETS = 20
"""Datasets of a store that are asked at once; each takes up to forty searches."""

_PROBES = 20
_WORDS = 12
_FEWEST = 5  # fewer lines that both lanes answer say nothing
_USUAL = 0.25
"""The share of the first ten hits that lanes have in common, at least: docs/how-to/doctor.md has
what was measured."""


def disagreement(
    searches: SearchPipeline, chunks: ChunkRepo, models: ModelSet, dataset_id: str
) -> str | None:
    """What to try where the lanes agree less than usual; None where they do, or are not two.

    Asks each lane lines of up to 20 documents, which are embedded by one call.

    Raises:
        TriptychError: a search failed.
    """
    config = chunks.config(dataset_id)
    if config is None or models.embedder is None or config.embed_sig != models.embed_sig:
        return None
    if len(chunks.doc_names(dataset_id)) < _FEWEST:
        return None
    texts = [each for each in _lines(chunks, dataset_id) if models.coverage.admits(each)]
    found: list[list[Result]] = []
    plain = attrs.evolve(searches.derived(), observer=None)
    for mode in (Mode.BM25, Mode.VECTOR):
        asked = (Query(text=text, dataset_id=dataset_id, mode=mode) for text in texts)
        found.append(plain.search_many(list(asked)))
    pairs = [(_places(one), _places(other)) for one, other in zip(*found, strict=True)]
    shares = [len(a & b) / min(len(a), len(b)) for a, b in pairs if a and b]
    if len(shares) < _FEWEST or (mean := sum(shares) / len(shares)) >= _USUAL:
        return None
    return (
        f"dataset {dataset_id!r}: its keyword and vector lanes agree on {mean:.0%} of their first "
        f"ten hits, where {_USUAL:.0%} or more is usual: write 30 questions and the files that "
        "answer them into golden.yaml, and let `triptych eval retrieval golden.yaml` measure each"
    )


def _places(result: Result) -> set[tuple[str, int]]:
    return {(hit.doc_name, hit.chunk_index) for hit in result.hits}


def _lines(chunks: ChunkRepo, dataset_id: str) -> Iterator[str]:
    """The first line of several words of a chunk, from some documents: the same every time."""

    def digest(name: str) -> bytes:
        return hashlib.sha256(name.encode("utf-8")).digest()

    for name in nsmallest(_PROBES, chunks.doc_names(dataset_id), key=digest):
        several = list(islice(chunks.iter_chunks(dataset_id, name), 8))
        text = several[digest(name)[0] % len(several)].content if several else ""
        lines = [line.split()[:_WORDS] for line in text.splitlines()]
        line = " ".join(next((words for words in lines if len(words) > 2), text.split()[:_WORDS]))
        if has_words(line):
            yield line
