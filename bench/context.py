"""Gold evidence in a prompt of so many tokens: ``service.context`` beside plain top-k chunks.

    python bench/context.py --docs FOLDER [--store FILE] [--json FILE] [--counter estimate]

``FOLDER`` holds the English Markdown files of FastAPI's documentation (``docs/en/docs`` of its
repository). The questions are in bench/data/fastapi-questions.jsonl; their evidence is given as
spans of those files, checked by SHA-256. The store is filled once, with the local embedder and
extractive layers, and used again when it is there.

Plain top-k takes the chunks of ``service.search`` in their order and skips those that no longer
fit; it is rendered, and its tokens are counted, exactly as a context is. A gold passage is held
when every visible code point of it is in the rendered pieces of its document; layers do not count.
A question's value is the share of its gold passages that are held; p is of the paired
randomisation test. Half of the questions, by a digest of their text, was used for tuning.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

import triptych
from triptych.answers.pieces import FORMATS, Citation, Piece, render_piece
from triptych.evaluation import bootstrap, randomisation_test
from triptych.layers import ExtractiveSummarizer, LayerBuilder
from triptych.records import Hit
from triptych.service import Service
from triptych.text.tokens import ESTIMATE, TokenCounter, default_counter

DATASET = "docs"
QUESTIONS = Path(__file__).parent / "data/fastapi-questions.jsonl"
BUDGETS = (1_000, 2_000, 4_000)
DEPTH = 100


@attrs.frozen(kw_only=True)
class Question:
    """A question and what answers it: documents, and the places of visible code points in them."""

    id: str
    text: str
    evidence: tuple[tuple[str, frozenset[int]], ...]

    @property
    def is_for_tuning(self) -> bool:
        """Whether parameters were chosen with it."""
        return hashlib.sha256(self.text.encode()).digest()[0] % 2 == 0


def read_questions(path: Path, documents: Mapping[str, str]) -> list[Question]:
    """The questions, their evidence checked against the documents.

    Raises:
        SystemExit: a passage is not where it should be: the documents are of another version.
    """
    questions = []
    for line in path.read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        spans = []
        for each in given["evidence"]:
            name, start, end = each["document"], each["start"], each["end"]
            passage = documents.get(name, "")[start:end]
            if hashlib.sha256(passage.encode()).hexdigest()[:16] != each["sha256"]:
                raise SystemExit(f"{given['id']}: {name}[{start}:{end}] is another text here")
            visible = {at for at in range(start, end) if not documents[name][at].isspace()}
            spans.append((name, frozenset(visible)))
        questions.append(Question(id=given["id"], text=given["question"], evidence=tuple(spans)))
    return questions


def open_filled(store: Path, documents: Mapping[str, str]) -> Service:
    """The store with the documents, their vectors and their extractive layers."""
    service = triptych.open(store, embedder="local")
    service.put_documents(DATASET, documents)
    builder = LayerBuilder(service, ExtractiveSummarizer())
    builder.apply(builder.plan(DATASET))
    return service


def plain(hits: Sequence[Hit], budget: int, counter: TokenCounter) -> list[Piece]:
    """The chunks of a search, in their order, as far as they fit."""
    form = FORMATS["text"]
    room = budget - counter.count(form.opening + form.closing)
    joint = counter.count(form.joint)
    pieces: list[Piece] = []
    for hit in hits:
        piece = _piece(hit, len(pieces) + 1)
        cost = counter.count(render_piece(piece, "text")) + joint
        if cost <= room:
            room -= cost
            pieces.append(piece)
    return pieces


def _piece(hit: Hit, number: int) -> Piece:
    last = hit.start_line + hit.content.rstrip().count("\n")
    return Piece(
        number=number,
        citation=Citation(
            dataset_id=hit.dataset_id,
            doc_name=hit.doc_name,
            version=hit.sig.source_version,
            start=hit.start,
            end=hit.end,
            lines=(hit.start_line, last),
            heading_path=hit.heading_path,
            text=hit.content,
        ),
    )


def held(question: Question, pieces: Sequence[Piece]) -> float:
    """The share of the question's gold passages that are in the pieces, each as a whole."""
    found = 0
    for name, places in question.evidence:
        missing = set(places)
        for piece in pieces:
            cited = piece.citation
            if cited.doc_name == name and str(cited.layer) == "L2":
                missing -= set(range(cited.start, cited.end))
        found += not missing
    return found / len(question.evidence)


def compare(
    questions: Sequence[Question],
    values: Mapping[tuple[str, str, int], float],
    budgets: Sequence[int],
) -> list[dict[str, object]]:
    """A row for each budget: means with 95% intervals, the difference, p, wins and losses."""
    rows: list[dict[str, object]] = []
    for budget in budgets:
        ours = [values[question.id, "context", budget] for question in questions]
        theirs = [values[question.id, "plain", budget] for question in questions]
        estimates = bootstrap({"context": ours, "plain": theirs})
        rows.append(
            {
                "budget": budget,
                "questions": len(questions),
                "plain": attrs.asdict(estimates["plain"]),
                "context": attrs.asdict(estimates["context"]),
                "difference": estimates["context"].mean - estimates["plain"].mean,
                "p": randomisation_test(ours, theirs),
                "better": sum(a > b for a, b in zip(ours, theirs, strict=True)),
                "worse": sum(a < b for a, b in zip(ours, theirs, strict=True)),
            }
        )
    return rows


def show(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print a Markdown table."""
    print(f"\n{title}\n")
    print("| tokens | plain top-k | context | difference | p | better | worse |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        means = [f"{row[system]['mean']:.3f}" for system in ("plain", "context")]  # type: ignore[index]  # JSON
        print(
            f"| {row['budget']:,} | {' | '.join(means)} | {row['difference']:+.3f} "
            f"| {row['p']:.4f} | {row['better']} | {row['worse']} |"
        )


def main() -> None:
    """Run both over all questions and print the tables."""
    parser = argparse.ArgumentParser(description="gold evidence under a budget of tokens")
    parser.add_argument("--docs", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE")
    parser.add_argument("--store", type=Path, default=Path("context-kb.db"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--counter", choices=("default", "estimate"), default="default")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    options = parser.parse_args()
    documents = {
        path.relative_to(options.docs).as_posix(): path.read_bytes().decode()
        for path in sorted(options.docs.rglob("*.md"))
    }
    questions = read_questions(options.questions, documents)
    counter = ESTIMATE if options.counter == "estimate" else default_counter()
    values: dict[tuple[str, str, int], float] = {}
    with open_filled(options.store, documents) as service:
        for question in questions:
            hits = service.search(question.text, dataset_id=DATASET, top_k=DEPTH).hits
            for budget in options.budgets:
                packed = service.context(question.text, budget, dataset_id=DATASET, counter=counter)
                chunks = plain(hits, budget, counter)
                values[question.id, "context", budget] = held(question, packed.pieces)
                values[question.id, "plain", budget] = held(question, chunks)
    halves = {
        "the test half": [each for each in questions if not each.is_for_tuning],
        "the tuning half": [each for each in questions if each.is_for_tuning],
        "all questions": questions,
    }
    tables = {name: compare(part, values, options.budgets) for name, part in halves.items()}
    print(f"{len(documents)} documents; tokens counted by {counter.name}")
    for name, rows in tables.items():
        show(f"{name} ({rows[0]['questions']})", rows)
    if options.json:
        report = {
            "counter": counter.name,
            "documents": len(documents),
            "tables": tables,
            "values": [
                {"question": id, "system": system, "budget": budget, "held": value}
                for (id, system, budget), value in values.items()
            ],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
