"""How many opposites the semantic cache serves, and how many paraphrases its guard stops.

    python bench/cache_guard.py            # the guard alone
    python bench/cache_guard.py local      # with an embedder, at the default threshold

The pairs are in bench/data/question-pairs.tsv.
"""

from __future__ import annotations

import sys
from pathlib import Path

from triptych.search import SemanticCache
from triptych.search.contrast import contrast
from triptych_factory.embedders import build_embedder

PAIRS = Path(__file__).with_name("data") / "question-pairs.tsv"


def pairs() -> list[tuple[str, str, str, str]]:
    """Part, kind, and the two questions of each pair."""
    lines = PAIRS.read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(part, kind, one, other) for part, kind, one, other in rows]


def main(name: str = "none") -> None:
    """Print a line for each part and kind, and what the guard gets wrong."""
    embedder, threshold = build_embedder(name), SemanticCache().threshold
    for part in ("tuned", "held-out"):
        for kind in ("opposite", "paraphrase"):
            some = [(a, b) for p, k, a, b in pairs() if (p, k) == (part, kind)]
            near = some
            if embedder is not None and some:
                one, two = (embedder.embed(each, kind="query") for each in zip(*some, strict=True))
                cosines = (one * two).sum(axis=1).tolist()
                near = [pair for pair, c in zip(some, cosines, strict=True) if c >= threshold]
            served = [pair for pair in near if not contrast(*pair)]
            print(
                f"{part} {kind}: {len(some)} pairs, {len(near)} near enough, {len(served)} served"
            )
            for pair in served if kind == "opposite" else set(near).difference(served):
                print("   ", " | ".join(pair), contrast(*pair))


if __name__ == "__main__":
    main(*sys.argv[1:])
