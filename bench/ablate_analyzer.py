"""What each part of the analyzer is worth: nDCG@10 of BM25 on collections in BEIR layout.

    python bench/ablate_analyzer.py --data DIR [--data DIR ...]

``DIR`` holds corpus.jsonl, queries.jsonl and qrels/test.tsv, or is a zip file of them. A document
is its title and its text.
Every variant is scored by brute force with Lucene's formula (k1 1.2, b 0.75), equal scores by
document id. Needs nothing but Triptych.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from math import log
from pathlib import Path
from unittest.mock import patch

from triptych.text import Analyzer, words as unspaced
from triptych.text.words import fold
from triptych_evaluation import ndcg_at, read_beir

K1, B, DEPTH = 1.2, 0.75, 10
Terms = Callable[[str], list[str]]
Judgements = Mapping[str, Mapping[str, int]]


def load(path: Path) -> tuple[dict[str, str], dict[str, str], Judgements]:
    """Return documents, queries and judgements by id."""
    collection = read_beir(path)
    assert collection.documents is not None
    documents = {document.name: document.content for document in collection.documents()}
    queries = {query.query_id: query.text for query in collection.queries}
    return documents, queries, {query.query_id: query.grades for query in collection.queries}


def mean_ndcg(
    documents: dict[str, str],
    queries: dict[str, str],
    judgements: Judgements,
    index_terms: Terms,
    query_terms: Terms,
) -> float:
    """Return the mean nDCG@10 over the judged queries (Järvelin and Kekäläinen 2002)."""
    ids = sorted(documents)
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lengths: list[int] = []
    for number, name in enumerate(ids):
        counts = Counter(index_terms(documents[name]))
        lengths.append(counts.total())
        for term, count in counts.items():
            postings[term].append((number, count))
    average = sum(lengths) / len(lengths)
    norms = [K1 * (1 - B + B * length / average) for length in lengths]
    total = 0.0
    for query, grades in judgements.items():
        scores: dict[int, float] = defaultdict(float)
        for term in query_terms(queries[query]):
            held = postings.get(term, [])
            idf = log(1 + (len(ids) - len(held) + 0.5) / (len(held) + 0.5))
            for number, count in held:
                scores[number] += idf * count / (count + norms[number])
        best = nsmallest(DEPTH, scores.items(), key=lambda item: (-round(item[1], 6), item[0]))
        total += ndcg_at(DEPTH, [ids[number] for number, _ in best], grades)
    return total / len(judgements)


def pairs(run: str) -> list[str]:
    """Return the pairs of a run, or its one character."""
    return unspaced.pairs(run) or [run]


def words_and_pairs(run: str) -> list[str]:
    """Return the pairs of a run and the words that are not pairs."""
    if len(run) == 1:
        return [run]
    return pairs(run) + [word for word in unspaced.chinese_words(run) if len(word) != 2]


def variants() -> Iterator[tuple[str, Terms, Terms]]:
    """Yield name, index terms and query terms; each holds while it is the current one."""
    for language in ("english", "porter", "none"):
        analyzer = Analyzer(language)
        yield f"as it ships, language {language}", analyzer.analyze, analyzer.analyze_query
    analyzer = Analyzer("english")
    with patch.object(Analyzer, "_stop_words", frozenset()):
        yield "stop words kept in queries", analyzer.analyze, analyzer.analyze_query
    with patch("triptych.text.analyzer._irregular", lambda _: {}):
        analyzer = Analyzer("english")
        yield "no irregular forms", analyzer.analyze, analyzer.analyze_query
    with patch("triptych.text.analyzer.split_token", lambda token: [fold(token)]):
        analyzer = Analyzer("english")
        yield "tokens whole, without parts", analyzer.analyze, analyzer.analyze_query
    for name, terms in (
        ("words alone", unspaced.chinese_words),
        ("pairs alone", pairs),
        ("words and pairs, no characters", words_and_pairs),
    ):
        with (
            patch.object(unspaced, "index_terms", terms),
            patch.object(unspaced, "query_terms", terms),
        ):
            analyzer = Analyzer("english")
            yield f"Chinese: {name}", analyzer.analyze, analyzer.analyze_query


def main() -> None:
    """Print one line for each collection and variant."""
    parser = argparse.ArgumentParser(description="nDCG@10 of BM25 by parts of the analyzer")
    parser.add_argument("--data", type=Path, action="append", required=True, metavar="DIR")
    for folder in parser.parse_args().data:
        collection = load(folder)
        for name, index_terms, query_terms in variants():
            score = mean_ndcg(*collection, index_terms, query_terms)
            print(f"{folder.name:12} {score:.4f}  {name}", flush=True)


if __name__ == "__main__":
    main()
