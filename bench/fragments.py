"""How the rankings of a question's fragments are best made one.

    python bench/fragments.py FOLDER/fastapi-docs.zip

Joins questions of bench/data by twos, and each with a sentence that asks for nothing, and searches
for the fragments in a store with the documentation: nDCG@10 of documents, for several ways to make
one ranking of the fragments' lists.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

import triptych
from triptych import RRFRanker, Service
from triptych.contracts import Ranker
from triptych.records import Candidate, Layer, Mode, RankedList, ResolvedQuery
from triptych.search import ZScoreRanker
from triptych.search.fusion import best_of
from triptych.search.rewriting import fragments

QUESTIONS = Path(__file__).parent / "data/fastapi-questions.jsonl"
NOISE = (
    "Thanks a lot in advance",
    "I am rather new to all of this",
    "Hope you are having a nice day",
    "Sorry if this has been asked before",
)
DEPTH = 30
ASKED = ResolvedQuery(
    text="q", dataset_ids=("d",), mode=Mode.HYBRID, layer=Layer.DETAIL, top_k=10, limit=DEPTH
)
Lists = Sequence[RankedList]


def best_each(ranker: Ranker) -> Callable[[Sequence[Lists]], Sequence[Candidate]]:
    """Each fragment ranked by itself, then the best score."""
    return lambda parts: best_of([ranker.rank(ASKED, lists) for lists in parts])


def pooled(ranker: Ranker) -> Callable[[Sequence[Lists]], Sequence[Candidate]]:
    """One ranking of all pairs of fragment and chunk, then the best score of each chunk."""

    def rank(parts: Sequence[Lists]) -> Sequence[Candidate]:
        lanes: dict[str, list[Candidate]] = {}
        for at, lists in enumerate(parts):
            for ranked in lists:
                lanes.setdefault(ranked.lane, []).extend(
                    attrs.evolve(each, key=(at, each.key)) for each in ranked.candidates
                )
        together = [
            RankedList(lane=lane, candidates=sorted(found, key=lambda each: -each.score))
            for lane, found in lanes.items()
        ]
        pairs = ranker.rank(ASKED, together)
        return best_of([[attrs.evolve(each, key=each.key[1]) for each in pairs]])  # type: ignore[index]

    return rank


def summed(ranker: Ranker) -> Callable[[Sequence[Lists]], Sequence[Candidate]]:
    """The lists of all fragments fused."""
    return lambda parts: ranker.rank(ASKED, [each for lists in parts for each in lists])


WAYS: Mapping[str, Callable[[Sequence[Lists]], Sequence[Candidate]]] = {
    "z-score, best of each": best_each(ZScoreRanker()),
    "z-score, pooled, best": pooled(ZScoreRanker()),
    "z-score, all fused": summed(ZScoreRanker()),
    "rrf, best of each": best_each(RRFRanker()),
    "rrf, all fused": summed(RRFRanker()),
}


def lists_of(kb: Service, text: str) -> Lists:
    lists = []
    for lane in ("bm25", "vector"):
        found = kb.search(text, dataset_id="d", mode=lane, top_k=DEPTH).hits
        candidates = [
            Candidate(
                dataset_id="d",
                doc_name=hit.doc_name,
                index=hit.chunk_index,
                key=(hit.doc_name, hit.chunk_index),
                score=hit.score,
                source=lane,
            )
            for hit in found
        ]
        lists.append(RankedList(lane=lane, candidates=candidates))
    return lists


def ndcg(ranked: Sequence[Candidate], relevant: set[str]) -> float:
    names = list(dict.fromkeys(each.doc_name for each in ranked))[:10]
    gain = sum(1 / math.log2(at + 2) for at, name in enumerate(names) if name in relevant)
    return gain / sum(1 / math.log2(at + 2) for at in range(min(len(relevant), 10)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("documentation", type=Path, help="fastapi-docs.zip")
    parser.add_argument("--embedder", default="local")
    options = parser.parse_args()
    asked = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    questions = [
        (each["question"], {evidence["document"] for evidence in each["evidence"]})
        for each in asked
    ]
    draw = random.Random(7)
    others = draw.sample(questions, len(questions))
    sets = {
        "two questions": [
            (f"{a} {b}", x | y)
            for (a, x), (b, y) in zip(questions, others, strict=True)
            if not x & y
        ],
        "a question and a remark": [
            (f"{draw.choice(NOISE)}. {text}", relevant) for text, relevant in questions
        ],
    }
    with (
        TemporaryDirectory() as folder,
        triptych.open(f"{folder}/kb.db", embedder=options.embedder) as kb,
        zipfile.ZipFile(options.documentation) as archive,
    ):
        # The release notes are half of all text, and answer none of the questions.
        texts = {
            name.partition("docs/en/docs/")[2]: archive.read(name).decode("utf-8")
            for name in archive.namelist()
            if "docs/en/docs/" in name and name.endswith(".md") and "release-notes" not in name
        }
        kb.put_documents("d", texts)
        for title, several in sets.items():
            split = [
                ([lists_of(kb, part) for part in fragments(text)], relevant)
                for text, relevant in several
            ]
            print(f"{title} ({len(several)})")
            whole = [
                ndcg(ZScoreRanker().rank(ASKED, lists_of(kb, text)), relevant)
                for text, relevant in several
            ]
            print(f"  {'not split':<24} {sum(whole) / len(whole):.3f}")
            for name, way in WAYS.items():
                scores = [ndcg(way(parts), relevant) for parts, relevant in split]
                print(f"  {name:<24} {sum(scores) / len(scores):.3f}", flush=True)


if __name__ == "__main__":
    main()
