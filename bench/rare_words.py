"""Whether a word that one text alone holds finds that text, by the fusion of the lanes.

    python bench/build_collections.py FOLDER --data DIR
    python bench/rare_words.py FOLDER/code-web.zip FOLDER/docs-web.zip FOLDER/faq.zip

Puts each collection into a store, draws 80 words of six letters or more that one document holds,
and asks hybrid search for each, fused in every way that the library has. Prints the share whose
document came first, and among the first three.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import triptych
from triptych import RRFRanker
from triptych.contracts import Ranker
from triptych.evaluation import read_beir
from triptych.search import WeightedRanker, ZScoreRanker

WORD = re.compile(r"[A-Za-z_]{6,}")
RANKERS: dict[str, Ranker] = {
    "rrf": RRFRanker(),
    "min-max": WeightedRanker(),
    "z-score, no zeros": ZScoreRanker(dense_lanes=["bm25", "vector"]),
    "z-score": ZScoreRanker(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("collections", type=Path, nargs="+", help="zip files in BEIR layout")
    parser.add_argument("--embedder", default="local")
    parser.add_argument("--words", type=int, default=80)
    options = parser.parse_args()
    print(f"| collection | {' | '.join(RANKERS)} |\n|{'---|' * (len(RANKERS) + 1)}")
    for path in options.collections:
        collection = read_beir(path)
        assert collection.documents is not None
        documents = list(collection.documents())
        homes = {w.lower(): d.name for d in documents for w in WORD.findall(d.content)}
        held = Counter(
            word for d in documents for word in {w.lower() for w in WORD.findall(d.content)}
        )
        rare = sorted(word for word, count in held.items() if count == 1)
        words = random.Random(1).sample(rare, min(options.words, len(rare)))
        with TemporaryDirectory() as folder:
            cells = []
            for ranker in RANKERS.values():
                with triptych.open(
                    f"{folder}/kb.db", embedder=options.embedder, ranker=ranker
                ) as kb:
                    kb.put_documents("d", documents)  # once; then they are the same
                    ranked = [
                        [hit.doc_name for hit in kb.search(w, dataset_id="d", top_k=3).hits]
                        for w in words
                    ]
                first = sum(names[:1] == [homes[w]] for w, names in zip(words, ranked, strict=True))
                third = sum(homes[w] in names for w, names in zip(words, ranked, strict=True))
                cells.append(f"{first / len(words):.2f}, {third / len(words):.2f}")
        print(f"| {path.stem} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
