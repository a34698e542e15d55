"""Speed of the whole library, through `Service`, on generated text with vectors given.

    python bench/speed.py --chunks 100000
    python bench/speed.py --chunks 10000 --backend memory

Documents of ten 80-token sections (Zipf vocabulary of 100,000 words, fixed seeds) are put with
unit vectors of 384 dimensions from a generator; embedding is not counted. Measured: ingest,
keyword, vector and hybrid search, replacing one document until a search finds it, reopening
in a new process to the first answer (imports not counted), memory and disk. Prints a table,
and the numbers as JSON with ``--json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import triptych
from triptych import NewDocument

DIMENSION = 384
SECTIONS = 10
TOKENS = 80
VOCABULARY = 100_000


class Given:
    """An embedder whose vectors are drawn by a hash of each text."""

    signature = f"bench/{DIMENSION}"
    dimension = DIMENSION

    def __init__(self) -> None:
        self.seconds = 0.0
        self._base = np.random.default_rng(1).standard_normal((4096, DIMENSION), np.float32)

    def embed(self, texts: Sequence[str], *, kind: str) -> NDArray[np.float32]:
        began = time.perf_counter()
        numbers = np.array([zlib.crc32(text.encode()) for text in texts])
        # Two rows of a base give 16 million different vectors, close in clusters as real ones.
        rows = self._base[numbers % 4096] + 0.5 * self._base[numbers // 4096 % 4096]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        self.seconds += time.perf_counter() - began
        return rows


def words() -> tuple[list[str], NDArray[np.float64]]:
    rng = np.random.default_rng(2)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    made: dict[str, None] = {}
    while len(made) < VOCABULARY:
        made["".join(rng.choice(letters, rng.integers(3, 9)))] = None
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    return list(made), share / share.sum()


class Corpus:
    def __init__(self) -> None:
        self.words, self.share = words()
        self.rng = np.random.default_rng(3)

    def section(self) -> str:
        drawn = self.rng.choice(VOCABULARY, TOKENS - 1, p=self.share)
        return f"## section\n\n{' '.join(self.words[at] for at in drawn)}"

    def documents(self, count: int) -> Iterator[NewDocument]:
        for at in range(count):
            body = "\n\n".join(self.section() for _ in range(SECTIONS))
            yield NewDocument(name=f"doc{at:07}.md", content=body)

    def queries(self, count: int) -> list[str]:
        rng = np.random.default_rng(4)
        return [
            " ".join(self.words[at] for at in rng.choice(VOCABULARY, 8, p=self.share))
            for _ in range(count)
        ]


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50": round(1e3 * statistics.median(ordered), 3),
        "p95": round(1e3 * ordered[int(0.95 * (len(ordered) - 1))], 3),
        "p99": round(1e3 * ordered[int(0.99 * (len(ordered) - 1))], 3),
    }


def rss_mb() -> float:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def measure_search(kb: triptych.Service, given: Given, queries: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for mode in ("bm25", "vector", "hybrid"):
        for query in queries[:20]:
            kb.search(query, dataset_id="bench", mode=mode)
        taken = []
        for query in queries:
            before = given.seconds
            began = time.perf_counter()
            kb.search(query, dataset_id="bench", mode=mode)
            taken.append(time.perf_counter() - began - (given.seconds - before))
        found[f"search {mode} ms"] = percentiles(taken)
    return found


def measure_replace(kb: triptych.Service, corpus: Corpus, documents: int) -> dict[str, float]:
    rng = np.random.default_rng(5)
    taken = []
    for turn in range(60):
        name = f"doc{rng.integers(documents):07}.md"
        old = kb.get_document("bench", name).content
        sections = old.split("\n\n## ")
        sections[3] = corpus.section()[3:] + f" needle{turn}x"
        began = time.perf_counter()
        kb.put_document("bench", name, "\n\n## ".join(sections))
        hits = kb.search(f"needle{turn}x", dataset_id="bench", mode="bm25", top_k=1).hits
        taken.append(time.perf_counter() - began)
        assert hits[0].doc_name == name
    return percentiles(taken[10:])


REOPEN = """
import sys, time, json
sys.path.insert(0, {bench!r})
import numpy, sqlalchemy, triptych, triptych.service, triptych_factory, simsimd, rjieba
import triptych_backends.sql, speed
queries = {queries!r}
given = speed.Given()
began = time.perf_counter()
kb = triptych.open({url!r}, embedder=given)
first = kb.search(queries[0], dataset_id="bench", mode="hybrid")
opened = time.perf_counter() - began
assert first.hits and not first.warnings, first
for query in queries * 3:
    kb.search(query, dataset_id="bench", mode="hybrid")
    kb.search_documents(query, dataset_id="bench", mode="hybrid")
print(json.dumps({{"reopen to first answer ms": round(opened * 1e3, 1),
                  "resident after searches MB": round(speed.rss_mb(), 1)}}))
kb.close()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--backend", choices=["sqlite", "memory"], default="sqlite")
    parser.add_argument("--folder", type=Path, help="where to put the store (default: temporary)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    url = "memory://" if options.backend == "memory" else str(folder / "bench.db")
    documents = options.chunks // SECTIONS
    corpus, given = Corpus(), Given()
    prepared = list(corpus.documents(documents))
    queries = corpus.queries(300)
    base = rss_mb()
    numbers: dict[str, object] = {
        "chunks": options.chunks,
        "backend": options.backend,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
    }
    kb = triptych.open(url, embedder=given)
    began = time.perf_counter()
    report = kb.put_documents("bench", prepared)
    kb.search(queries[0], dataset_id="bench")
    took = time.perf_counter() - began - given.seconds
    assert report.chunks == options.chunks, report
    numbers["ingest chunks/s, until searchable"] = round(options.chunks / took)
    numbers["ingest peak MB above its input"] = round(
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - base, 1
    )
    numbers |= measure_search(kb, given, queries)
    numbers["replace until found ms"] = measure_replace(kb, corpus, documents)
    numbers |= {f"after replaces: {k}": v for k, v in measure_search(kb, given, queries).items()}
    kb.close()
    if options.backend == "sqlite":
        numbers["disk MB"] = round(
            sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 1
        )
        code = REOPEN.format(bench=str(Path(__file__).parent), queries=queries[:50], url=url)
        runs = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", code], check=True, text=True, capture_output=True
                ).stdout
            )
            for _ in range(3)
        ]
        for key in runs[0]:
            numbers[key] = statistics.median(run[key] for run in runs)
    shutil.rmtree(folder)
    for key, value in numbers.items():
        print(f"{key:40} {value}")
    if options.json:
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
