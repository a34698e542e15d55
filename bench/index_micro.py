"""Times of the local index alone: Zipf text, 80-token chunks, 10 chunks a document.

    python bench/index_micro.py [chunks] [folder]

Prints minimum, median and 95th percentile in milliseconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness.corpus import VOCABULARY, Given, ZipfText, key_of
from support.index_model import MemoryChangeLog, WordAnalyzer
from triptych_backends.index import LocalIndex, OwnedBy, Under

LENGTH = 80
DOCUMENT = 10


class Corpus:
    """The harness's words and vectors, for chunks without documents around them."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)
        self.zipf = ZipfText()
        self.given = Given()

    def texts(self, count: int) -> list[str]:
        return [" ".join(self.zipf.draw(LENGTH)) for _ in range(count)]

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        return self.given.rows([key_of(text) for text in texts])

    def document(self, feed: MemoryChangeLog, owner: int, extra: str = "") -> None:
        texts = [f"{text} {extra}" for text in self.texts(DOCUMENT)]
        headings = [(f"Part {at % 3}",) for at in range(DOCUMENT)]
        vectors = list(self.vectors(texts))
        feed.put("x", owner, f"doc-{owner:06}", texts, vectors=vectors, headings=headings)


def milliseconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return (time.perf_counter() - begin) * 1e3


def timed(name: str, search: Callable[[Any], object], asked: Iterable[Any]) -> None:
    """Each query's best of five: on a machine that does other work, what the work itself takes."""
    show(name, [min(milliseconds(lambda one=one: search(one)) for _ in range(5)) for one in asked])


def show(name: str, times: Sequence[float]) -> None:
    low, middle, high = min(times), np.median(times), np.percentile(times, 95)
    print(f"{name:48} {low:9.3f} {middle:9.3f} {high:9.3f}", flush=True)


def main(chunks: int, folder: Path) -> None:
    corpus, feed = Corpus(), MemoryChangeLog()
    for owner in range(chunks // DOCUMENT):
        corpus.document(feed, owner)
    print(f"{chunks} chunks; ms: minimum, median, 95th percentile")
    index = LocalIndex(feed, folder, analyzers=WordAnalyzer)
    show(
        "rebuild until the first answer", [milliseconds(lambda: word(index, corpus.zipf.words[1]))]
    )
    show("publish all", [milliseconds(index.publish)])
    queries = corpus.zipf.queries(200)
    uniform = [
        " ".join(corpus.zipf.words[term] for term in terms)
        for terms in (corpus.generator.pareto(0.6, (200, 8)) * 40).astype(int) % VOCABULARY
    ]
    vectors = corpus.vectors(queries[:100])
    owners = OwnedBy({"x": np.arange(0, chunks // DOCUMENT, 50, dtype=np.int64)})

    thirds = Under(("part 1",))

    def searches() -> None:
        word(index, corpus.zipf.words[1])
        print(index.stats("x"))
        timed("bm25, 8 terms by Zipf, top 10", lambda q: word(index, q), queries)
        timed("bm25, 8 rarer terms, top 10", lambda q: word(index, q), uniform)
        timed("bm25, 8 terms by Zipf, top 100", lambda q: word(index, q, 100), queries)
        timed(
            "bm25, 1 document of 50 allowed",
            lambda q: index.bm25(["x"], "chunk", q, limit=10, selection=owners).rows,
            queries,
        )
        timed(
            "bm25, a third under a heading",
            lambda q: index.bm25(["x"], "chunk", q, limit=10, selection=thirds).rows,
            queries,
        )
        timed("vector, top 10", lambda v: near(index, v), vectors)
        timed("vector, top 100", lambda v: near(index, v, 100), vectors)
        timed(
            "vector, 1 document of 50 allowed",
            lambda v: index.vector(["x"], "chunk", v, limit=10, selection=owners),
            vectors,
        )
        timed(
            "documents by vector, top 10",
            lambda v: index.document_vector(["x"], v, limit=10),
            vectors,
        )

    searches()
    times = []
    for turn in range(200):
        owner = int(corpus.generator.integers(chunks // DOCUMENT))
        corpus.document(feed, owner, f"fresh{turn}")
        times.append(milliseconds(lambda turn=turn: word(index, f"fresh{turn}")))
        assert word(index, f"fresh{turn}")[0].owner == owner
    show("replace a document until found", times)
    searches()
    index.close()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        again = LocalIndex(feed, folder, analyzers=WordAnalyzer)
        word(again, queries[0])
        times.append((time.perf_counter() - begin) * 1e3)
        again.close()
    show("open until the first answer", times)
    print(f"{sum(f.stat().st_size for f in folder.rglob('*') if f.is_file()) / 1e6:.1f} MB")


def word(index: LocalIndex, query: str, limit: int = 10):
    return index.bm25(["x"], "chunk", query, limit=limit).rows


def near(index: LocalIndex, vector: np.ndarray, limit: int = 10):
    return index.vector(["x"], "chunk", vector, limit=limit)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(
            int(sys.argv[1]) if len(sys.argv) > 1 else 10_000,
            Path(sys.argv[2] if len(sys.argv) > 2 else temporary),
        )
