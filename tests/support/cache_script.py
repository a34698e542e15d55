"""A process that writes a document of its own and searches through a semantic cache, in turn.

It alone writes its document, so each search must show just what it wrote last. What it sees of the
other process's document must never grow older.
"""

from __future__ import annotations

import json
import random
import sys

import triptych

QUESTIONS = ("where is the kettle", "the kettle, where is it?", "kettle lid", "steam")


def main() -> None:
    """Work for so many rounds; print what went wrong, and how many answers were cached ones."""
    url, own, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    draw = random.Random(own)
    wrong: list[str] = []
    cached = 0
    value: int | None = None
    seen: dict[str, int] = {}
    with triptych.open(url, embedder="hash", semantic_cache=True) as kb:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(rounds):
            what = draw.random()
            if what < 0.1:
                kb.put_document(
                    "d", own, f"# Kettle\n\nThe kettle lid, {number}.\n", {"value": number}
                )
                value = number
            elif what < 0.15 and value is not None:
                kb.update_metadata("d", {"value": number}, names=[own])
                value = number
            elif what < 0.17 and value is not None:
                kb.delete_document("d", own)
                value = None
            elif what < 0.2:
                kb.cache_stats()
            else:
                found = kb.search(draw.choice(QUESTIONS), dataset_id="d", top_k=20)
                cached += found.cache_similarity is not None
                values = {hit.doc_name: hit.metadata.get("value") for hit in found}
                if values.get(own) != value:
                    wrong.append(f"{number}: {values} where {own} is {value}")
                for name, held in values.items():
                    if isinstance(held, int):
                        if held < seen.get(name, -1):
                            wrong.append(f"{number}: {name} was {seen[name]}, and is {held}")
                        seen[name] = held
    print(json.dumps({"wrong": wrong[:10], "cached": cached}), flush=True)


if __name__ == "__main__":
    main()
