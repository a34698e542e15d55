"""What each lane, rewriter and postprocessor adds to a search, on the documentation questions.

    python bench/ablation.py --docs FOLDER [--llm openai:MODEL] [--reranker NAME] [--only WORD …]

``FOLDER`` and the questions are those of bench/context.py. Every stage is compared with hybrid
search as it ships, on the same questions: nDCG@10 of documents and the share of gold passages that
the first five hits hold whole, with p of the paired randomisation test for each, the code points
of those five, the median time of a search, and the calls of models for one question. ``--llm`` adds
the rewriters and the filter that ask a language model, ``--reranker`` a reranker by its name
(`triptych.open`), blended and not.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

import triptych
from context import DATASET, QUESTIONS, Question, read_questions
from triptych import Rerank, RRFRanker, Service
from triptych.records import Hit
from triptych.search import (
    MMR,
    ChunkFilter,
    FragmentRewriter,
    HyDE,
    NearDuplicates,
    Neighbours,
    ParaphraseRewriter,
    Parents,
    PerDocument,
    Pipeline,
    WeightedRanker,
)
from triptych_evaluation import randomisation_test
from triptych_evaluation.metrics import score_ranking
from triptych_factory.llms import build_reranker

BASE = "hybrid"
SHOWN = 5
DEPTH = 10


@attrs.frozen(kw_only=True)
class Row:
    """What one stage did, question by question."""

    ndcg: list[float]
    held: list[float]
    length: float
    latency: float
    calls: float


def stages(llm: Any, reranker: Any) -> Mapping[str, Pipeline]:
    """Each stage alone on top of hybrid search."""

    def pipeline(**options: Any) -> Pipeline:
        return Pipeline(name="stage", **options)

    found = {
        "keyword": pipeline(search={"mode": "bm25"}),
        "vector": pipeline(search={"mode": "vector"}),
        BASE: pipeline(),
        "hybrid by RRF": pipeline(ranker=RRFRanker()),
        "hybrid by min-max": pipeline(ranker=WeightedRanker()),
        "+ keyword boost 0.1": pipeline(search={"keyword_boost": 0.1}),
        "+ fragments": pipeline(rewriter=FragmentRewriter()),
        "+ near duplicates": pipeline(postprocessors=[NearDuplicates()]),
        "+ MMR 0.7": pipeline(postprocessors=[MMR(0.7)]),
        "+ MMR 0.5": pipeline(postprocessors=[MMR(0.5)]),
        "+ two a document": pipeline(postprocessors=[PerDocument(2)]),
        "+ neighbours": pipeline(postprocessors=[Neighbours()]),
        "+ parents": pipeline(postprocessors=[Parents()]),
        "+ parents of 1,600": pipeline(postprocessors=[Parents(limit=1600)]),
    }
    if reranker is not None:
        found["+ reranker"] = pipeline(postprocessors=[Rerank(reranker)])
        found["+ reranker, blended"] = pipeline(postprocessors=[Rerank(reranker, blend="position")])
    if llm is not None:
        found["+ paraphrases"] = pipeline(rewriter=ParaphraseRewriter(llm))
        found["+ HyDE"] = pipeline(rewriter=HyDE(llm))
        found["+ HyDE, adaptive"] = pipeline(rewriter=HyDE(llm, adaptive=True))
        found["+ filter"] = pipeline(postprocessors=[ChunkFilter(llm)])
    return found


def held(question: Question, hits: Sequence[Hit]) -> float:
    """The share of the question's gold passages that stand in the hits, each as a whole."""
    count = 0
    for name, places in question.evidence:
        missing = set(places)
        for hit in hits:
            if hit.doc_name == name:
                missing -= set(range(hit.start, hit.end))
        count += not missing
    return count / len(question.evidence)


def measure(kb: Service, pipeline: Pipeline, questions: Sequence[Question]) -> Row:
    """Ask every question once; the first is asked before, unmeasured."""
    searched = Service(kb.store, attrs.evolve(kb.options, pipelines=[pipeline]))
    by = searched.pipeline(pipeline.name)
    by.search(questions[0].text, dataset_id=DATASET, top_k=DEPTH)
    ndcg, found, lengths, seconds, calls = [], [], [], [], 0
    for question in questions:
        began = time.perf_counter()
        result = by.search(question.text, dataset_id=DATASET, top_k=DEPTH)
        seconds.append(time.perf_counter() - began)
        calls += sum(usage.calls for usage in result.usage)
        names = list(dict.fromkeys(hit.doc_name for hit in result))
        grades = {name: 1 for name, _ in question.evidence}
        ndcg.append(score_ranking(names, grades, cutoffs=(DEPTH,))[f"ndcg@{DEPTH}"])
        found.append(held(question, result.hits[:SHOWN]))
        lengths.append(sum(len(hit.content) for hit in result.hits[:SHOWN]))
    by.close()  # not the other: the store is kb's
    return Row(
        ndcg=ndcg,
        held=found,
        length=statistics.fmean(lengths),
        latency=statistics.median(seconds) * 1e3,
        calls=calls / len(questions),
    )


def compared(ours: Sequence[float], base: Sequence[float]) -> str:
    """The mean, and how it differs from the base's."""
    mean = f"{statistics.fmean(ours):.3f}"
    if ours == base:
        return mean
    difference = statistics.fmean(ours) - statistics.fmean(base)
    return f"{mean} ({difference:+.3f}, p {randomisation_test(ours, base):.3f})"


def main() -> None:
    """Measure the stages, and print a table."""
    parser = argparse.ArgumentParser(description="each stage of a search, on 183 questions")
    parser.add_argument("--docs", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--store", type=Path, metavar="FILE")
    parser.add_argument("--llm")
    parser.add_argument("--reranker")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--limit", type=int, help="only so many questions")
    options = parser.parse_args()
    documents = {
        path.relative_to(options.docs).as_posix(): path.read_bytes().decode()
        for path in sorted(options.docs.rglob("*.md"))
    }
    questions = read_questions(QUESTIONS, documents)[: options.limit]
    with (
        TemporaryDirectory() as folder,
        triptych.open(
            options.store or Path(folder, "kb.db"), embedder="local", llm=options.llm
        ) as kb,
    ):
        kb.put_documents(DATASET, documents)
        reranker = build_reranker(options.reranker) if options.reranker else None
        chosen = {
            name: each
            for name, each in stages(kb.llm, reranker).items()
            if name == BASE or not options.only or any(word in name for word in options.only)
        }
        base = measure(kb, chosen[BASE], questions)
        print(f"{len(questions)} questions, {kb.stats(DATASET)[0].chunks:,} chunks\n")
        print("| stage | nDCG@10 of documents | passages in 5 hits | code points | ms | calls |")
        print("|---|---|---|---|---|---|")
        for name, pipeline in chosen.items():
            row = base if name == BASE else measure(kb, pipeline, questions)
            print(
                f"| {name} | {compared(row.ndcg, base.ndcg)} | {compared(row.held, base.held)} "
                f"| {row.length:,.0f} | {row.latency:.1f} | {row.calls:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
