"""Notes that only vectors tell apart.

The keyword lane does not look for stop words, which the hashing embedder knows as any other, and it
prefers the notes that say "valve" most often.
"""

from __future__ import annotations

from itertools import combinations

WORDS = ("about", "above", "after", "again", "before", "below", "between", "by", "down", "from")
PAIRS = tuple(combinations(WORDS, 2))[:40]
NOTES = {f"{a}-{b}.md": f"Valve {a} {b} {a} {b}." for a, b in PAIRS}
OTHERS = {f"other{at}.md": f"Valve, valve and valve {at}." for at in range(10)}
