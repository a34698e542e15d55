"""A simple, slow reference ranking, and a corpus that exercises all its rules.

Nothing here is shared with a backend but the analyzer, which is part of the contract.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime

import attrs
import pytest

from triptych.contracts import Store
from triptych.records import Candidate, DerivedChunk, Metadata, Vector, text_of
from triptych.text import get_analyzer, label_of
from triptych_testing.builders import fill_at_once, vector_of
from triptych_testing.harness import there


@attrs.frozen(kw_only=True)
class Entry:
    """One text that can be found; in answers, with its score."""

    dataset_id: str
    name: str
    index: int
    text: str = attrs.field(default="", eq=False)
    label: str = attrs.field(default="", eq=False)
    vector: Vector | None = attrs.field(default=None, eq=False)
    score: float = 0.0


def bm25(
    corpus: Sequence[Entry],
    query: str,
    *,
    top_k: int,
    language: str = "english",
    passes: Callable[[Entry], bool] = lambda entry: True,
    k1: float = 1.2,
    b: float = 0.75,
) -> list[Entry]:
    """The ``top_k`` best entries that hold a term of ``query`` and pass.

    Lucene's BM25Similarity since version 8, with exact lengths: the sum over the query's terms
    of ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 * (1 - b + b * length / average)). The
    statistics are those of the whole corpus, whatever passes. A word of a label is half a word.
    """
    analyzer = get_analyzer(language)
    counts = [term_counts(entry, language) for entry in corpus]
    variants = analyzer.variants(query)
    holding = {
        term: sum(any(v in terms for v in some) for terms in counts)
        for term, some in variants.items()
    }
    average = sum(sum(terms.values()) for terms in counts) / max(len(corpus), 1)
    scored = []
    for entry, terms in zip(corpus, counts, strict=True):
        score, length = 0.0, sum(terms.values())
        for term in analyzer.analyze_query(query):
            for frequency in filter(None, map(terms.get, variants[term])):
                idf = math.log(1 + (len(corpus) - holding[term] + 0.5) / (holding[term] + 0.5))
                norm = k1 * (1 - b + b * length / average)
                score += idf * frequency / (frequency + norm)
        if score > 0 and passes(entry):
            scored.append(attrs.evolve(entry, score=score))
    return _ranked(scored)[:top_k]


def term_counts(entry: Entry, language: str = "english") -> dict[str, float]:
    """How often each term is in a text, those of its label a half each."""
    analyzer = get_analyzer(language)
    spoken = analyzer.language_of(entry.text)
    counts: dict[str, float] = {**Counter(analyzer.analyze(entry.text, spoken))}
    for term in analyzer.analyze(entry.label, spoken):
        counts[term] = counts.get(term, 0) + 0.5
    return counts


def dot_products(
    corpus: Sequence[Entry],
    vector: Vector,
    *,
    top_k: int,
    passes: Callable[[Entry], bool] = lambda entry: True,
) -> list[Entry]:
    """The ``top_k`` entries that have a vector and pass, by the dot product with ``vector``."""
    scored = [
        attrs.evolve(
            entry,
            score=math.fsum(
                float(left) * float(right) for left, right in zip(entry.vector, vector, strict=True)
            ),
        )
        for entry in corpus
        if entry.vector is not None and passes(entry)
    ]
    return _ranked(scored)[:top_k]


def best_documents(chunks: Sequence[Entry], *, top_k: int) -> list[Entry]:
    """Of ranked chunks, each document's best, as documents."""
    best: dict[tuple[str, str], Entry] = {}
    for entry in chunks:
        best.setdefault((entry.dataset_id, entry.name), attrs.evolve(entry, index=-1))
    return _ranked(list(best.values()))[:top_k]


def entries(candidates: Sequence[Candidate]) -> list[Entry]:
    """A backend's answer in the oracle's words."""
    return [
        Entry(
            dataset_id=candidate.dataset_id,
            name=candidate.doc_name,
            index=candidate.index,
            score=candidate.score,
        )
        for candidate in candidates
    ]


def assert_same_ranking(found: Sequence[Candidate], wanted: Sequence[Entry]) -> None:
    """Equal, but for a dot product that float32 sums put on the other side of a rounding."""
    assert [(e.dataset_id, e.name, e.index) for e in entries(found)] == [
        (e.dataset_id, e.name, e.index) for e in wanted
    ]
    assert [e.score for e in entries(found)] == pytest.approx([e.score for e in wanted], abs=1.5e-6)


def _ranked(scored: Sequence[Entry]) -> list[Entry]:
    """By score, rounded to 1e-6; ties by document name, chunk index, dataset."""
    rounded = [attrs.evolve(entry, score=round(entry.score, 6)) for entry in scored]
    return sorted(
        rounded, key=lambda entry: (-entry.score, entry.name, entry.index, entry.dataset_id)
    )


VOCABULARY = (
    "harbour lighthouse keeper storm signal lantern tide ferry captain anchor the of and is "
    "running runs run HTTPServer parse_json_file naïve café 灯塔 港口 今天天气 東京タワー 서울"
)

QUERIES = (
    "lighthouse",
    "the lighthouse keeper and the storm",
    "running",
    "the of and",
    "json server",
    "灯塔",
    "CAFÉ",
    "tide tide captain",
    "nowhere",
    "part 7 of a guide",
    "notes txt",
    "",
    "?!",
)
DATASETS = ("north", "south")
METADATA: Mapping[str, Metadata] = {
    "guide/a.md": {
        "title": "The lantern, and part 007",
        "lang": "en",
        "kind": "markdown",
        "year": 2024,
        "tags": ["sea", "light"],
    },
    "guide/b.md": {"lang": "de", "year": 2023.5, "tags": ["sea", 7], "day": date(2026, 9, 1)},
    "notes.txt": {"lang": "en", "year": "2024", "day": datetime(2026, 9, 1, 8, tzinfo=UTC)},
    "log/1": {"year": 2025, "draft": True, "tags": "sea"},
    "log/2": {"year": True, "draft": False, "day": "2026-09-01"},
}


def contents(dataset_id: str) -> dict[str, str]:
    """The documents of one dataset; some are equal in both, so that there are ties."""
    chance = random.Random(dataset_id)
    made = {}
    for name in ("guide/a.md", "guide/b.md", "notes.txt", "log/1", "log/10", "log/2"):
        blocks = []
        for number in range(6):
            words = " ".join(chance.choices(VOCABULARY.split(), k=chance.randint(1, 14)))
            blocks.append(f"# Part {number % 3}\n{words}" if number % 2 == 0 else words)
        made[name] = "\n\n".join([*blocks, "~the ferry is late", "the tide"])
    made["same"] = "the lighthouse keeper\n\nthe lighthouse keeper\n\nstorm"
    made["same too"] = made["same"]
    return made


def fill_corpus(store: Store, datasets: Sequence[str] = DATASETS) -> None:
    """Put the corpus into a store, derived."""
    for dataset_id in datasets:
        fill_at_once(store, dataset_id, contents(dataset_id), metadata=METADATA)


def chunk_entry(chunk: DerivedChunk, title: str = "") -> Entry:
    """A chunk, as the oracle takes it."""
    return Entry(
        label=label_of(chunk.doc_name, title, chunk.heading_path),
        dataset_id=chunk.dataset_id,
        name=chunk.doc_name,
        index=chunk.index,
        text=chunk.content,
        vector=chunk.vector,
    )


def chunk_entries(store: Store, *dataset_ids: str) -> list[Entry]:
    """Every stored chunk."""
    entries = []
    for dataset_id in dataset_ids:
        titles = titles_of(store, dataset_id)
        chunks = store.chunks.iter_chunks(dataset_id, vectors=True)
        entries += [chunk_entry(chunk, titles.get(chunk.doc_name, "")) for chunk in chunks]
    return entries


def titles_of(store: Store, dataset_id: str) -> dict[str, str]:
    """The titles of a dataset's documents that have one."""
    titles = {
        info.name: text_of(info.metadata, "title") for info in store.documents.list(dataset_id)
    }
    return {name: title for name, title in titles.items() if title}


def document_entries(store: Store, *dataset_ids: str) -> list[Entry]:
    """Every stored document, as the oracle takes it."""
    found = []
    for dataset_id in dataset_ids:
        for info in store.documents.list(dataset_id):
            document = there(store.documents.get(dataset_id, info.name))
            label = label_of(info.name, text_of(document.metadata, "title"))
            found.append(
                Entry(
                    dataset_id=dataset_id,
                    name=info.name,
                    index=-1,
                    text=document.content,
                    label=label,
                )
            )
    return found


def layer_entries(contents: Mapping[tuple[str, str], str]) -> list[Entry]:
    """Layers of one kind by (dataset, name), as the oracle takes them."""
    return [
        Entry(dataset_id=dataset_id, name=name, index=-1, text=text, vector=vector_of(text))
        for (dataset_id, name), text in contents.items()
    ]
