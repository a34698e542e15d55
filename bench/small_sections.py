"""Would joining small sections, or showing the section around a hit, show the whole answer?

    python bench/small_sections.py --docs FOLDER [--join 400] [--folder STORES]

``FOLDER`` and the questions are those of bench/context.py. Fills a store with the chunker that
ships, and one with the chunks of sections shorter than ``--join`` code points joined to their
neighbours under one parent heading: the cuts between them are chosen as
`triptych.chunking.markdown` chooses, so that an edit moves the cuts around it only. Then asks for
the first 1, 3 and 5 hits, as they come and with `Parents` or `Neighbours`, and prints the share of
questions for which one hit holds a whole gold passage, and for which one holds all of the evidence.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

import triptych
from context import DATASET, QUESTIONS, Question, read_questions
from triptych.chunking import ChunkSpec, MarkdownChunker, default_chunkers
from triptych.chunking.boundaries import unify_line_ends
from triptych.chunking.markdown import Unit, pack
from triptych.contracts import Postprocessor
from triptych.search import Neighbours, Parents

STEPS: tuple[Postprocessor | None, ...] = (
    None,
    Parents(limit=1600),
    Parents(),
    Neighbours(),
)


@attrs.frozen(kw_only=True)
class JoiningChunker(MarkdownChunker):
    """`MarkdownChunker`, whose small sections are joined to their neighbours."""

    join: int

    @property
    def signature(self) -> str:
        """The signature of the chunker that ships, and of the joining."""
        return f"{super().signature},join={self.join}"

    def chunk(self, content: str) -> list[ChunkSpec]:
        """Return the chunks of ``content``."""
        text = unify_line_ends(content)
        joined = [
            each for run in self._runs(super().chunk(content)) for each in self._packed(text, run)
        ]
        return [attrs.evolve(each, index=at) for at, each in enumerate(joined)]

    def _runs(self, specs: Sequence[ChunkSpec]) -> Iterator[list[ChunkSpec]]:
        """Runs of small sections under one parent; every other chunk is a run of its own."""
        chunks = Counter(each.heading_path for each in specs)
        run: list[ChunkSpec] = []
        for each in specs:
            path = each.heading_path
            small = len(path) > 1 and chunks[path] == 1 and each.end - each.start < self.join
            if run and not (small and run[-1].heading_path[:-1] == path[:-1]):
                yield run
                run = []
            if small:
                run.append(each)
            else:
                yield [each]
        if run:
            yield run

    def _packed(self, text: str, run: Sequence[ChunkSpec]) -> Iterator[ChunkSpec]:
        units = [Unit(each.start, each.end, 0) for each in run]
        for first, last in pack(text, units, self.size):
            if last - first == 1:
                yield run[first]
            else:
                path = run[first].heading_path[:-1]
                yield attrs.evolve(run[first], end=run[last - 1].end, heading_path=path)


def shares(
    kb: triptych.Service, questions: Sequence[Question], top_k: int
) -> tuple[float, float, float]:
    """The shares of questions whose passage, and whose evidence, one hit holds; code points."""
    passage = evidence = length = 0
    for question in questions:
        hits = kb.search(question.text, dataset_id=DATASET, top_k=top_k).hits
        spans = [(hit.doc_name, frozenset(range(hit.start, hit.end))) for hit in hits]
        length += sum(len(span) for _, span in spans)
        held = [
            [name == document and places <= span for document, places in question.evidence]
            for name, span in spans
        ]
        passage += any(map(any, held))
        evidence += any(map(all, held))
    count = len(questions)
    return passage / count, evidence / count, length / count


def main() -> None:
    """Fill both stores, and print what their hits hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--join", type=int, default=400)
    parser.add_argument("--folder", type=Path, default=Path("sections"))
    options = parser.parse_args()
    documents = {
        file.relative_to(options.docs).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(options.docs.rglob("*.md"))
    }
    questions = read_questions(QUESTIONS, documents)
    os.makedirs(options.folder, exist_ok=True)
    print("| chunks | hits shown | top k | a whole passage | all evidence | code points |")
    print("|---|---|---|---|---|---|")
    for join in (0, options.join):
        chunker = JoiningChunker(join=join) if join else MarkdownChunker()
        chunkers = default_chunkers(markdown=chunker)
        for step in STEPS if not join else (None,):
            with triptych.open(
                options.folder / f"join-{join}.db",
                embedder="local",
                chunkers=chunkers,
                postprocessors=[] if step is None else [step],
            ) as kb:
                kb.put_documents(DATASET, documents)
                count = kb.stats(DATASET)[0].chunks
                for top_k in (1, 3, 5):
                    passage, evidence, length = shares(kb, questions, top_k)
                    name = "as they come" if step is None else repr(step)
                    print(
                        f"| {count:,} | {name} | {top_k} | {passage:.3f} | {evidence:.3f} | "
                        f"{length:,.0f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
