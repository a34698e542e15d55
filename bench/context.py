"""Gold evidence in a prompt of so many tokens: ``service.context`` beside plain top-k chunks.

    python bench/context.py --docs FOLDER [--store FILE] [--json FILE] [--counter estimate]
    python bench/context.py --docs FOLDER --session       a prefix in the cache of a provider
    python bench/context.py --docs FOLDER --llm MODEL     layers that a model writes
    python bench/context.py --docs FOLDER --layers FILE   layers that a model wrote beforehand

``FOLDER`` holds the English Markdown files of FastAPI's documentation (``docs/en/docs`` of its
repository). The questions are in bench/data/fastapi-questions.jsonl; their evidence is given as
spans of those files, checked by SHA-256. The store is filled once, with the local embedder and
extractive layers, and used again when it is there.

Plain top-k takes the chunks of ``service.search`` in their order and skips those that no longer
fit; it is rendered, and its tokens are counted, exactly as a context is. A gold passage is held
when every visible code point of it is in the rendered pieces of its document; layers do not count.
A question's value is the share of its gold passages that are held; p is of the paired
randomisation test. Half of the questions, by a digest of their text, was used for tuning.
"L2 alone" is a context without layers.

``--layers`` takes JSON lines with ``document``, ``abstract`` and ``overview``. Only the documents
that it names are in the store, and only the questions that they answer are asked: once with
extractive layers, once with those of the file. Layers of folders are extractive, of the abstracts
below them. bench/data/fastapi-layers.jsonl was written by a large language model from each page by
itself, without sight of the questions, as the prompts that ship ask for: an abstract of at most 60
words, an overview of 115 on average.

``--session`` asks the questions of the test half in sessions of ten, each with a cold cache, and
edits a document of the prefix before the sixth. Tokens are billed as by Anthropic's list prices:
what is read from the cache at a tenth, what is written to it at five quarters, all other input
once. A question's gold documents are named where a header of the prompt names them. The store is
copied, for it is changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

import triptych
from triptych.answers import ContextPack
from triptych.answers.pieces import FORMATS, Citation, Piece, render_piece
from triptych.layers import LayerBuilder
from triptych.records import Hit
from triptych.service import Service
from triptych.text.tokens import ESTIMATE, TokenCounter, default_counter
from triptych_evaluation import bootstrap, randomisation_test

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


def read_layers(path: Path) -> dict[str, tuple[str, str]]:
    """The abstract and the overview of each document of the file."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {each["document"]: (each["abstract"], each["overview"]) for each in lines}


def open_filled(store: Path, documents: Mapping[str, str], llm: str | None) -> Service:
    """The store with the documents, their vectors and their layers, extractive without a model."""
    service = triptych.open(store, embedder="local", llm=llm)
    service.put_documents(DATASET, documents)
    build(service)
    return service


def build(service: Service) -> None:
    """Make the layers that are missing or stale."""
    builder = LayerBuilder(service)
    builder.apply(builder.plan(DATASET))


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


READ, WRITE = 0.1, 1.25
"""The price of a token that is read from a provider's cache, or written to it."""


@attrs.define
class Bill:
    """What the prompts of a session cost, and what they hold."""

    sent: int = 0
    cached: float = 0.0
    writes: int = 0
    held: float = 0.0
    named: float = 0.0
    digest: str = ""

    def add(self, question: Question, pack: ContextPack, counter: TokenCounter) -> None:
        """One prompt more: what comes before and after is the same for all."""
        prefix = 0 if pack.prefix is None else counter.count(pack.prefix.text)
        self.sent += prefix + pack.tokens
        self.cached += pack.tokens
        if pack.prefix is not None:
            unchanged = pack.prefix.digest == self.digest
            self.cached += prefix * (READ if unchanged else WRITE)
            self.writes += not unchanged
            self.digest = pack.prefix.digest
        self.held += held(question, pack.pieces)
        pieces = (*pack.pieces, *(pack.prefix.pieces if pack.prefix else ()))
        shown = {piece.citation.doc_name for piece in pieces}
        wanted = {name for name, _ in question.evidence}
        self.named += len(wanted & shown) / len(wanted)


def session(
    service: Service,
    questions: Sequence[Question],
    counter: TokenCounter,
    prefix: int,
    tail: int,
    bills: dict[str, Bill],
) -> None:
    """Ask each question in each way; a document of the prefix is edited in the middle."""
    ways: dict[str, tuple[int, int | None]] = {
        f"context of {tail:,}": (tail, None),
        f"context of {tail + prefix // 5:,}": (tail + prefix // 5, None),
        f"context of {tail + prefix:,}": (tail + prefix, None),
        f"prefix of {prefix:,}, context of {tail:,}": (tail, prefix),
    }
    for name in ways:
        bills.setdefault(name, Bill()).digest = ""
    for at, question in enumerate(questions):
        if at == len(questions) // 2:
            pieces = service.context_prefix(prefix, dataset_id=DATASET, counter=counter).pieces
            cited = next(each.citation for each in pieces if each.citation.version)
            content = service.get_document(DATASET, cited.doc_name).content
            service.put_document(DATASET, cited.doc_name, f"{content}\nEdited: {question.id}.\n")
            text = f"{cited.text} Edited: {question.id}."
            service.put_document_layer(DATASET, cited.doc_name, cited.layer, text)
        for name, (budget, before) in ways.items():
            pack = service.context(
                question.text,
                budget,
                dataset_id=DATASET,
                counter=counter,
                prefix_tokens=before,
            )
            bills[name].add(question, pack, counter)


def show_session(bills: Mapping[str, Bill], sessions: int, questions: int) -> None:
    """Print what each way cost a session, and held."""
    print("\n| prompt | tokens sent | billed | writes | gold held | gold documents named |")
    print("|---|---|---|---|---|---|")
    for name, bill in bills.items():
        print(
            f"| {name} | {bill.sent / sessions:,.0f} | {bill.cached / sessions:,.0f} "
            f"| {bill.writes / sessions:.1f} | {bill.held / questions:.3f} "
            f"| {bill.named / questions:.3f} |"
        )


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
        alone = [values[question.id, "passages", budget] for question in questions]
        estimates = bootstrap({"context": ours, "plain": theirs, "passages": alone})
        rows.append(
            {
                "budget": budget,
                "questions": len(questions),
                "plain": attrs.asdict(estimates["plain"]),
                "context": attrs.asdict(estimates["context"]),
                "passages": attrs.asdict(estimates["passages"]),
                "p of layers": randomisation_test(ours, alone),
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
    print("| tokens | plain top-k | context | difference | p | better | worse | L2 alone | p |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        means = [f"{row[system]['mean']:.3f}" for system in ("plain", "context")]  # type: ignore[index]  # JSON
        print(
            f"| {row['budget']:,} | {' | '.join(means)} | {row['difference']:+.3f} "
            f"| {row['p']:.4f} | {row['better']} | {row['worse']} "
            f"| {row['passages']['mean']:.3f} | {row['p of layers']:.4f} |"  # type: ignore[index]  # JSON
        )


def measure(
    service: Service, questions: Sequence[Question], budgets: Sequence[int], counter: TokenCounter
) -> dict[tuple[str, str, int], float]:
    """What each way holds of each question's evidence, by question, way and budget."""
    values: dict[tuple[str, str, int], float] = {}
    for question in questions:
        hits = service.search(question.text, dataset_id=DATASET, top_k=DEPTH).hits
        for budget in budgets:
            packed = service.context(question.text, budget, dataset_id=DATASET, counter=counter)
            alone = service.context(
                question.text, budget, dataset_id=DATASET, counter=counter, layers=["L2"]
            )
            values[question.id, "passages", budget] = held(question, alone.pieces)
            chunks = plain(hits, budget, counter)
            values[question.id, "context", budget] = held(question, packed.pieces)
            values[question.id, "plain", budget] = held(question, chunks)
    return values


def report(
    questions: Sequence[Question],
    values: Mapping[tuple[str, str, int], float],
    budgets: Sequence[int],
    suffix: str,
) -> dict[str, list[dict[str, object]]]:
    """Print the tables of both halves and of all; return them by title."""
    halves = {
        "the test half": [each for each in questions if not each.is_for_tuning],
        "the tuning half": [each for each in questions if each.is_for_tuning],
        "all questions": questions,
    }
    tables = {f"{name}{suffix}": compare(part, values, budgets) for name, part in halves.items()}
    for name, rows in tables.items():
        show(f"{name} ({rows[0]['questions']})", rows)
    return tables


def main() -> None:
    """Run both over all questions and print the tables."""
    parser = argparse.ArgumentParser(description="gold evidence under a budget of tokens")
    parser.add_argument("--docs", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, metavar="FILE")
    parser.add_argument("--store", type=Path, default=Path("context-kb.db"), metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--counter", choices=("default", "estimate"), default="default")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--llm", metavar="MODEL", help="that writes the layers")
    parser.add_argument("--layers", type=Path, metavar="FILE", help="that a model wrote")
    parser.add_argument("--session", action="store_true", help="what ten questions are billed")
    parser.add_argument("--prefix-tokens", type=int, default=4_000)
    options = parser.parse_args()
    documents = {
        path.relative_to(options.docs).as_posix(): path.read_bytes().decode()
        for path in sorted(options.docs.rglob("*.md"))
    }
    questions = read_questions(options.questions, documents)
    layers = read_layers(options.layers) if options.layers else {}
    if layers:
        documents = {name: documents[name] for name in layers}
        questions = [each for each in questions if all(name in layers for name, _ in each.evidence)]
    counter = ESTIMATE if options.counter == "estimate" else default_counter()
    if options.session:
        with open_filled(options.store, documents, options.llm):
            pass
        asked = [each for each in questions if not each.is_for_tuning]
        asked = asked[: len(asked) // 10 * 10]
        bills: dict[str, Bill] = {}
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(options.store, folder)
            with triptych.open(copy, embedder="local") as service:
                for at in range(0, len(asked), 10):
                    ten = asked[at : at + 10]
                    session(service, ten, counter, options.prefix_tokens, 2_000, bills)
        print(f"{len(documents)} documents, {len(asked) // 10} sessions of ten questions")
        show_session(bills, len(asked) // 10, len(asked))
        return
    with open_filled(options.store, documents, options.llm) as service:
        values = measure(service, questions, options.budgets, counter)
    print(f"{len(documents)} documents; tokens counted by {counter.name}")
    tables = report(questions, values, options.budgets, "")
    if layers:
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(options.store, folder)
            with triptych.open(copy, embedder="local") as service:
                for name, (abstract, overview) in layers.items():
                    service.put_document_layer(DATASET, name, "L0", abstract)
                    service.put_document_layer(DATASET, name, "L1", overview)
                build(service)
                written = measure(service, questions, options.budgets, counter)
        tables |= report(questions, written, options.budgets, ", layers of the file")
    if options.json:
        written_down = {
            "counter": counter.name,
            "documents": len(documents),
            "tables": tables,
            "values": [
                {"question": id, "system": system, "budget": budget, "held": value}
                for (id, system, budget), value in values.items()
            ],
        }
        options.json.write_text(json.dumps(written_down, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
