"""Notes that only vectors tell apart, and questions to them: a heavy vector lane finds more.

The keyword lane does not look for stop words, which the hashing embedder knows as any other, and it
prefers the notes that say "valve" most often.
"""

from __future__ import annotations

from itertools import combinations

from triptych.evaluation.collections import Collection, JudgedQuery

WORDS = ("about", "above", "after", "again", "before", "below", "between", "by", "down", "from")
PAIRS = tuple(combinations(WORDS, 2))[:40]
NOTES = {f"{a}-{b}.md": f"Valve {a} {b} {a} {b}." for a, b in PAIRS}
OTHERS = {f"other{at}.md": f"Valve, valve and valve {at}." for at in range(10)}

GOLDEN = "".join(f"- {{question: valve {a} {b}, expected_files: [{a}-{b}.md]}}\n" for a, b in PAIRS)


def valve_questions(number: int = len(PAIRS)) -> Collection:
    """As many questions, each with the one note that answers it."""
    return Collection(
        name="valves",
        queries=tuple(
            JudgedQuery(query_id=f"{a}-{b}", text=f"valve {a} {b}", grades={f"{a}-{b}.md": 1})
            for a, b in PAIRS[:number]
        ),
    )
