"""Notes in fifteen languages, found by another form of their words: a table by language.

    python bench/languages.py

Each of ten notes is asked for by a form that it does not hold, in a dataset of the ten: under
``english``, under ``auto`` (the default), and in the language itself; then all in one dataset under
``auto``. A note counts that is the first hit of a keyword search. ``named`` is how many notes are
taken for texts in their language.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import triptych
from triptych.text import get_analyzer, languages

Notes = list[tuple[str, str]]
NOTES = Path(__file__).parents[1] / "tests" / "fixtures" / "inflections.tsv"


def read_notes() -> dict[str, Notes]:
    """Return texts and queries by language."""
    found: dict[str, Notes] = defaultdict(list)
    for line in NOTES.read_text(encoding="utf-8").splitlines():
        language, text, query = line.split("\t")
        found[language].append((text, query))
    return found


def first_hits(notes: Notes, language: str, beside: Notes = ()) -> int:
    """Return how many notes their queries find first."""
    with triptych.open("memory://", embedder=None, language=language) as kb:
        texts = [text for text, _ in (*notes, *beside)]
        kb.put_documents("notes", {f"{at:03}": text for at, text in enumerate(texts)})
        found = 0
        for at, (_, query) in enumerate(notes):
            hits = kb.search(query, mode="bm25", top_k=1).hits
            found += bool(hits) and hits[0].doc_name == f"{at:03}"
    return found


def main() -> None:
    """Print the table."""
    every = read_notes()
    names = ["english", *({"auto"} & {*languages()})]
    print(f"{'':12}" + "".join(f"{name:>10}" for name in (*names, "own", "mixed", "named")))
    for own, notes in every.items():
        counts: list[object] = [first_hits(notes, name) for name in names]
        counts.append(first_hits(notes, own) if own in languages() else "")
        rest = [each for other, some in every.items() if other != own for each in some]
        counts.append(first_hits(notes, names[-1], rest))
        told = get_analyzer(names[-1])
        named = hasattr(told, "language_of") and sum(told.language_of(t) == own for t, _ in notes)
        counts.append(named or "")
        print(f"{own:12}" + "".join(f"{count!s:>10}" for count in counts))


if __name__ == "__main__":
    main()
