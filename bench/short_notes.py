"""Are notes of short sections found better where each section is a chunk, or where they are joined?

    python bench/short_notes.py --docs FOLDER [--embedder local]

``FOLDER`` and the questions are those of bench/context.py. Of each page it makes a note: a section
for each of the page's chunks, without a title above, with the last heading and the first sentences,
up to 190 characters. Prints nDCG@10 over notes for each mode, and the difference with its interval.
"""

from __future__ import annotations

import re

import triptych
from path_context import MODES, asked_pages
from triptych.chunking import MarkdownChunker, default_chunkers
from triptych_evaluation import bootstrap
from triptych_evaluation.metrics import ndcg_at

ALONE = MarkdownChunker(joins=False)
LONGEST = 190


def note(page: str) -> str:
    """The page as short sections."""
    sections = []
    for spec in ALONE.chunk(page):
        heading = (spec.heading_path or ("Start",))[-1][:60]
        text = re.sub(r"^(#+ |```).*$", "", page[spec.start : spec.end], flags=re.MULTILINE)
        room = LONGEST - len(heading) - 6
        kept = ""
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(text.split())):
            if kept and len(kept) + len(sentence) >= room:
                break
            kept = f"{kept} {sentence}".strip()
        sections.append(f"## {heading}\n\n{kept[:room]}\n")
    return "\n".join(sections)


def main() -> None:
    """Compare the two."""
    embedder, pages, questions = asked_pages(__doc__)
    notes = {name: note(page) for name, page in pages.items()}
    found: list[dict[str, list[float]]] = []
    for chunker in (ALONE, MarkdownChunker()):
        chunkers = default_chunkers(markdown=chunker)
        with triptych.open("memory://", embedder=embedder, chunkers=chunkers) as kb:
            kb.put_documents("d", notes)
            print(f"{chunker.signature}: {kb.stats('d')[0].chunks} chunks", flush=True)
            found.append({mode: [] for mode in MODES})
            for mode in MODES:
                for question in questions:
                    hits = kb.search(question.text, dataset_id="d", mode=mode, top_k=60).hits
                    names = list(dict.fromkeys(hit.doc_name for hit in hits))
                    grades = {name: 1 for name, _ in question.evidence}
                    found[-1][mode].append(ndcg_at(10, names, grades))
    alone, joined = found
    changes = {
        mode: [after - before for before, after in zip(alone[mode], joined[mode], strict=True)]
        for mode in MODES
    }
    for mode, change in bootstrap(changes).items():
        means = [sum(each[mode]) / len(each[mode]) for each in found]
        print(f"{mode}: alone {means[0]:.3f}, joined {means[1]:.3f}, {change}")


if __name__ == "__main__":
    main()
