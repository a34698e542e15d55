"""Does the name help, before the chunks of documents that have neither title nor headings?

    python bench/path_context.py --docs FOLDER [--embedder local]

``FOLDER`` and the questions are those of bench/context.py. Its pages become plain text without
their heading lines, once with a blank title, which keeps the name out of what is embedded, and once
without. Prints nDCG@10 over documents for each mode, and p of the paired randomisation test.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import triptych
from context import QUESTIONS, Question, read_questions
from triptych import NewDocument
from triptych_evaluation import randomisation_test
from triptych_evaluation.metrics import ndcg_at

_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t].*$\n?", re.MULTILINE)
MODES = ("bm25", "vector", "hybrid")


def values(kb: triptych.Service, questions: list[Question], mode: str) -> list[float]:
    """nDCG@10 of each question."""
    found = []
    for question in questions:
        hits = kb.search(question.text, dataset_id="d", mode=mode, top_k=40).hits
        grades = {f"{name.removesuffix('.md')}.txt": 1 for name, _ in question.evidence}
        found.append(ndcg_at(10, list(dict.fromkeys(hit.doc_name for hit in hits)), grades))
    return found


def asked_pages(about: str | None) -> tuple[str, dict[str, str], list[Question]]:
    """The embedder, FastAPI's pages and the questions on them, as the arguments name them."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--embedder", default="local")
    options = parser.parse_args()
    pages = {
        file.relative_to(options.docs).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(options.docs.rglob("*.md"))
    }
    return options.embedder, pages, read_questions(QUESTIONS, pages)


def main() -> None:
    """Compare the two."""
    embedder, pages, questions = asked_pages(__doc__)
    found: dict[bool, dict[str, list[float]]] = {}
    for named in (False, True):
        documents = [
            NewDocument(
                name=f"{page.removesuffix('.md')}.txt",
                content=_HEADING.sub("", text),
                metadata={} if named else {"title": " "},
            )
            for page, text in pages.items()
        ]
        with triptych.open("memory://", embedder=embedder) as kb:
            kb.put_documents("d", documents)
            found[named] = {mode: values(kb, questions, mode) for mode in MODES}
    for mode in MODES:
        without, name = found[False][mode], found[True][mode]
        p = randomisation_test(name, without)
        count = len(questions)
        print(
            f"{mode}: {sum(without) / count:.4f}, with the name {sum(name) / count:.4f}, p {p:.2f}"
        )


if __name__ == "__main__":
    main()
