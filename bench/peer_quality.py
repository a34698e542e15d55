"""Which library finds the answer? The same chunks and vectors for all; words as each cuts them.

    python bench/peer_quality.py --work DIR scifact.zip fastapi-docs.zip rust-book.zip
    python bench/peer_quality.py --work DIR --set "identifiers celery" "code celery" scifact.zip

The sets are those of ``findability.py``, in English. Each system keeps its own defaults, is given
Triptych's chunks and one embedder's vectors of them, and answers each question with ten chunks by
keyword, by vector and by both; nDCG@10 counts the documents they are of. The difference to
Triptych's hybrid search is paired over the questions, with an interval (95%, bootstrap).
``pip install -r bench/requirements-peers.txt`` has the systems. Vectors are kept in DIR.
``--write`` puts the table into the documentation.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from findability import difference, makers, prepared
from findable.sets import QuestionSet, read_set
from findable.vectors import VectorCache
from harness.corpus import Chunk, Document, Given, document_of, key_of
from harness.machine import versions
from harness.run import missing
from harness.system import System
from harness.systems import system_of
from harness.table import markdown, replace_block
from triptych.chunking import default_chunkers, embedding_text
from triptych.chunking.specs import embedded_title
from triptych_evaluation.metrics import ndcg_at

SYSTEMS = ("triptych", "lancedb", "qdrant", "txtai", "llamaindex", "haystack", "langchain")
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "comparison.md"
K = 10


def documents_of(made: QuestionSet, cache: VectorCache) -> list[Document]:
    """The set's documents, cut as Triptych cuts them, with the embedder's vectors."""
    embedder = cache.embedder(made.embedder)
    texts = {name: _titled(made, name) for name in made.texts}
    cut = []
    for name, text in texts.items():
        specs = default_chunkers().for_document(name, {}).chunk(text)
        title = embedded_title(name, {}, (spec.heading_path for spec in specs))
        for at, spec in enumerate(specs):
            passage = text[spec.start : spec.end]
            cut.append((name, at, passage, embedding_text(title, spec.heading_path, passage)))
    rows = embedder.embed([embedded for *_, embedded in cut], kind="document")
    chunks: dict[str, list[Chunk]] = {name: [] for name in made.texts}
    for (name, at, passage, embedded), row in zip(cut, rows, strict=True):
        key = key_of(embedded)
        chunks[name].append(Chunk(id=f"{name}#{at}", text=passage, vector=row, embed_key=key))
    return [
        Document(name=name, content=text, chunks=tuple(chunks[name]))
        for name, text in texts.items()
        if chunks[name]
    ]


def _titled(made: QuestionSet, name: str) -> str:
    """A document with its title, which all systems search as they do the rest of the text."""
    title = made.titles.get(name)
    return f"{title}\n\n{made.texts[name]}" if title else made.texts[name]


def ranked(
    kind: type[System], made: QuestionSet, documents: Sequence[Document], cache: VectorCache
) -> dict[str, list[float]]:
    """nDCG@10 of each question, by lane."""
    given = Given()
    texts = [each.text for each in made.asked]
    vectors = cache.embedder(made.embedder).embed(texts, kind="query")
    given.remember(texts, vectors)
    kind.plain = False
    kind.load()
    with tempfile.TemporaryDirectory() as folder:
        system = kind(Path(folder), given)
        system.ingest(iter(documents))
        found = {
            lane: [
                _gain(system, lane, each.text, row, dict.fromkeys(each.answers, 1))
                for each, row in zip(made.asked, vectors, strict=True)
            ]
            for lane in kind.lanes
        }
        system.close()
    return found


def _gain(
    system: System, lane: str, text: str, row: NDArray[np.float32], answers: dict[str, int]
) -> float:
    hits = system.search(lane, text, row, K)
    return ndcg_at(K, list(dict.fromkeys(document_of(name) for name, _ in hits)), answers)


def measured(
    names: Sequence[str], sets: Sequence[QuestionSet], cache: VectorCache
) -> Iterator[list[str]]:
    """A row of the table for each set and system."""
    for made in sets:
        documents = documents_of(made, cache)
        chunks = sum(len(each.chunks) for each in documents)
        own: list[float] = []
        for name in names:
            kind = system_of(name)
            if module := missing(kind):
                print(f"{name} is left out: {module} is not installed", file=sys.stderr)
                continue
            began = time.monotonic()
            found = ranked(kind, made, documents, cache)
            hybrid = found["hybrid"]
            means = [f"{np.mean(found[lane]):.3f}" for lane in ("keyword", "vector", "hybrid")]
            about, told = "", "–"
            if own:
                less = difference(hybrid, own)
                told = f"{less['mean']:+.3f} [{less['low']:+.3f}, {less['high']:+.3f}]"
            else:
                own = hybrid
                about = f"{made.name} ({len(made.asked)} questions, {chunks:,} chunks)"
            version = versions(kind.packages)[kind.packages[0]]
            yield [about, f"{name} {version}", *means, told]
            took = time.monotonic() - began
            print(f"{made.name}, {name}: {' '.join(means)} ({took:.0f} s)", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("zips", type=Path, nargs="*", help="collections in BEIR layout and docs")
    parser.add_argument("--work", type=Path, required=True, help="packages, sets and vectors")
    parser.add_argument("--set", nargs="+", metavar="SET", default=[], help="beside the zips' own")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--write", action="store_true", help=f"the table into {PAGE.name}")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.zips += [Path(each) for each in options.set if each.endswith(".zip")]
    wanted = {each for each in options.set if not each.endswith(".zip")}
    wanted |= {each.stem for each in options.zips}
    made = {name: each for name, each in makers(options.zips).items() if name in wanted}
    for folder in ("packages", "sets"):
        (options.work / folder).mkdir(parents=True, exist_ok=True)
    sets = [read_set(path) for path in prepared(options.work, made, options.zips)]
    cache = VectorCache(options.work / "vectors.db")
    heads = ["set", "system", "keyword", "vector", "hybrid", "hybrid − Triptych's"]
    table = markdown(heads, list(measured(options.only, sets, cache)))
    cache.close()
    print(table)
    if options.write:
        dated = f"nDCG@10, measured on {time.strftime('%Y-%m-%d')}."
        begin, end = "<!-- peer_quality.py -->", "<!-- end of peer_quality.py -->"
        replace_block(PAGE, begin, end, f"{dated}\n\n{table}")


if __name__ == "__main__":
    main()
