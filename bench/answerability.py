"""What the judgement "enough, weak or nothing" is worth, on collections in BEIR layout.

    python bench/build_collections.py FOLDER --data DIR --only rust-book fastapi
    python bench/answerability.py FOLDER/*.zip DIR/scifact.zip --cache CACHE [--embedder local]

Each collection is asked three kinds of questions: its own (answered, if a relevant document is
among the ten hits), those of the other collections ("far": nothing answers them), and its own after
their relevant documents were deleted ("near": the subject is there, the answer is not; another
document may answer in part, which counts as an error). The deletes come in two halves, and the
questions of the other half are asked each time too. Prints how well the signals of the keyword
lane, of the vector lane and of both tell these apart, on questions that the model was not fitted
on, and what a model of one collection does on another. At last it prints how often each word of
`Result.evidence` was said, with vectors and by keywords alone, which needs no model; of questions
that are answered, those count whose relevant documents are among the hits. ``--questions`` and
``--documents`` limit what is read.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

import triptych
from triptych import Service
from triptych.records import NewDocument
from triptych.search.calibration import SIGNALS
from triptych_evaluation import read_beir
from triptych_evaluation.calibration import (
    JudgedSignals,
    area_under_curve,
    collect_signals,
    fit_model,
)
from triptych_evaluation.collections import Collection, JudgedQuery

SEED = 7
MODELS = {
    "keyword": [name for name, lane in SIGNALS.items() if lane == "bm25"],
    "vector": [name for name, lane in SIGNALS.items() if lane == "vector"],
    "both": list(SIGNALS),
}
Kinds = Mapping[str, Sequence[JudgedSignals]]
Words = dict[str, dict[str, dict[str, int]]]
"""By mode and kind of question, how often each word was said."""


def subset(path: Path, questions: int, documents: int) -> tuple[Collection, dict[str, NewDocument]]:
    """Some questions, the documents that are relevant to them, and some others."""
    whole = read_beir(path)
    assert whole.documents is not None
    texts = {each.name: each for each in whole.documents()}
    chance = random.Random(SEED)
    asked = [query for query in whole.queries if relevant(query)]
    chance.shuffle(asked)
    asked = asked[:questions]
    needed = {name for query in asked for name in relevant(query)}
    others = [name for name in texts if name not in needed]
    chance.shuffle(others)
    kept = [*sorted(needed), *others[: max(0, documents - len(needed))]]
    return attrs.evolve(whole, queries=tuple(asked)), {name: texts[name] for name in kept}


def relevant(query: JudgedQuery) -> set[str]:
    return {name for name, grade in query.grades.items() if grade > 0}


def without_answer(queries: Sequence[JudgedQuery], prefix: str) -> tuple[JudgedQuery, ...]:
    return tuple(
        JudgedQuery(query_id=f"{prefix}{at}", text=query.text, unanswerable=True)
        for at, query in enumerate(queries)
    )


def asked(
    kb: Service, name: str, queries: Sequence[JudgedQuery], kind: str, words: Words
) -> list[JudgedSignals]:
    collection = Collection(name=name, queries=tuple(queries))
    for mode in ("hybrid", "bm25"):
        counts = words.setdefault(mode, {}).setdefault(kind, {})
        for query in queries:
            found = kb.search(query.text, dataset_id=name, mode=mode)
            if query.unanswerable or relevant(query) & {hit.doc_name for hit in found}:
                word = found.evidence.level if found.evidence else "unsaid"
                counts[word] = counts.get(word, 0) + 1
    return collect_signals(kb, collection, dataset_id=name)[0]


def samples(
    kb: Service,
    name: str,
    collection: Collection,
    texts: Mapping[str, NewDocument],
    others: Sequence[JudgedQuery],
    words: Words,
) -> Kinds:
    kb.put_documents(name, list(texts.values()))
    kinds = {"own": asked(kb, name, collection.queries, "own", words)}
    kinds["far"] = asked(kb, name, without_answer(others, "far-"), "far", words)
    kinds["kept"], kinds["near"] = [], []
    halves = [collection.queries[0::2], collection.queries[1::2]]
    for at, half in enumerate(halves):
        gone = set().union(*map(relevant, half))
        for each in sorted(gone):
            kb.delete_document(name, each)
        kinds["near"] += asked(kb, name, without_answer(half, "near-"), "near", words)
        left = [query for query in halves[1 - at] if not relevant(query) & gone]
        kinds["kept"] += asked(kb, name, left, "kept", words)
        kb.put_documents(name, [texts[each] for each in sorted(gone)])
    return kinds


def table(found: Mapping[str, Kinds]) -> None:
    print("\nAUC on questions that the model was not fitted on")
    print("collection  against  answered  not   " + "  ".join(f"{name:>8}" for name in MODELS))
    for name, kinds in found.items():
        for label, good, bad in (
            ("far", ["own"], ["far"]),
            ("near", ["kept"], ["near"]),
            ("both", ["own", "kept"], ["far", "near"]),
        ):
            mixed = [sample for kind in (*good, *bad) for sample in kinds[kind]]
            usable = [each for each in mixed if SIGNALS.keys() <= each.signals.keys()]
            yes = sum(each.answered for each in usable)
            models = {model: fit_model(usable, names) for model, names in MODELS.items()}
            row = "  ".join(f"{model.held_out.auc:8.3f}" for model in models.values())
            print(f"{name:10}  {label:7}  {yes:8}  {len(usable) - yes:3}   {row}")
            if label == "both":
                print(f"{'':10}  judged: {attrs.asdict(models['both'].held_out)}")
    print("\nAUC of a model of one collection (row) on another (column), both lanes, far and near")
    every = {
        name: [s for kind in kinds.values() for s in kind if SIGNALS.keys() <= s.signals.keys()]
        for name, kinds in found.items()
    }
    for name, fitted in every.items():
        model = fit_model(fitted, MODELS["both"])
        row = []
        for other in every.values():
            scores = np.array([model.probability(each.signals) for each in other])
            was = np.array([each.answered for each in other])
            row.append(f"{area_under_curve(scores[was], scores[~was]):8.3f}")
        print(f"{name:10}  {'  '.join(row)}")


def say_words(cache: Path, names: Sequence[str]) -> None:
    print("\nHow often each word of the evidence was said")
    for name in names:
        words: Words = json.loads((cache / f"{name}.signals.words.json").read_text("utf-8"))
        for mode, kinds in words.items():
            for kind in ("own", "far", "near"):
                total = sum(kinds[kind].values())
                shares = "  ".join(
                    f"{word} {kinds[kind].get(word, 0) / total:.3f}"
                    for word in ("none", "weak", "fair", "strong")
                )
                print(f"{name:10}  {mode:6}  {kind:4} of {total:3}   {shares}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collections", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--questions", type=int, default=183)
    parser.add_argument("--documents", type=int, default=500)
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    read = {path.stem: subset(path, given.questions, given.documents) for path in given.collections}
    found: dict[str, Kinds] = {}
    with triptych.open(given.cache / "answerability.db", embedder=given.embedder) as kb:
        for name, (collection, texts) in read.items():
            kept = given.cache / f"{name}.signals.json"
            if not kept.exists():
                others = [
                    query
                    for other, (several, _) in read.items()
                    if other != name
                    for query in several.queries[:100]
                ]
                words: Words = {}
                kinds = samples(kb, name, collection, texts, others, words)
                told = kept.with_suffix(".words.json")
                told.write_text(json.dumps(words), encoding="utf-8")
                plain = {
                    kind: [attrs.asdict(s) for s in several] for kind, several in kinds.items()
                }
                kept.write_text(json.dumps(plain), encoding="utf-8")
            loaded = json.loads(kept.read_text(encoding="utf-8"))
            found[name] = {
                kind: [JudgedSignals(**each) for each in several]
                for kind, several in loaded.items()
            }
            print(name, {kind: len(several) for kind, several in found[name].items()}, flush=True)
    table(found)
    say_words(given.cache, list(found))


if __name__ == "__main__":
    main()
