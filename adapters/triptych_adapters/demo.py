"""A guided tour: ``python -m triptych_adapters.demo``.

Puts this project's own documentation into a knowledge base, fills its layers, searches it,
then edits one paragraph (in memory: no file is touched) and shows what that cost.
"""

from __future__ import annotations

import argparse
import io
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import triptych
from triptych.errors import NotFoundError, TriptychError
from triptych.sync import FileSet
from triptych_adapters.cli.hits import HitView, matched_line, render_hits
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.session import Exit, exit_for

DATASET = "triptych-docs"
QUESTIONS = (
    "What happens to a put when the embedding model fails?",
    "Why is a hit stale?",
    "restore an old version of a document",
)
ADDED = "The quick brown okapi was here, and only this paragraph knows about it."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tour; the exit code is the command line's (`Exit`)."""
    parser = argparse.ArgumentParser(
        prog="python -m triptych_adapters.demo",
        description="Put this project's own documentation into a knowledge base and show "
        "search, layers, freshness, and what an edit costs.",
    )
    parser.add_argument("--store", help="keep the knowledge base here (default: a temporary one)")
    parser.add_argument("--folder", type=Path, help="another folder of text files to use")
    parser.add_argument("--embedder", default="auto", help="default: local where it is installed")
    options = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character shows a replacement rather than a failure.
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False)
    try:
        documents = read_documents(options.folder)
        with _store(options.store) as store:
            run(console, documents, store=store, embedder=options.embedder)
    except TriptychError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_for(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return Exit.OK


def read_documents(folder: Path | None) -> dict[str, str]:
    """Names and contents: of ``folder``, else of README.md and docs/ here or in the checkout.

    Raises:
        NotFoundError: there is nothing of the kind.
    """
    if folder is not None:
        paths = [folder]
        root = folder
    else:
        places = (Path.cwd(), Path(__file__).resolve().parents[2])
        found = next((each for each in places if (each / "docs").is_dir()), None)
        if found is None:
            raise NotFoundError(
                "there is no docs folder here, nor beside the installed package: name a folder "
                "of text files with --folder"
            )
        root = found
        paths = [each for each in (found / "README.md", found / "docs") if each.exists()]
    documents = {}
    for path in paths:
        files = FileSet()
        files.add(path)
        for document in files.documents():
            name = files.paths[document.name].resolve().relative_to(root.resolve()).as_posix()
            documents[name] = document.content
    if not documents:
        raise NotFoundError(f"there are no text files in {root}")
    return documents


def run(console: Console, documents: dict[str, str], *, store: str, embedder: str) -> None:
    """The tour itself, over ``documents`` (name to content)."""
    # The page that says what Triptych does; of somebody's own folder, the longest.
    shown = "docs/concepts.md"
    if shown not in documents:
        shown = max(documents, key=lambda name: (documents[name].count("\n\n"), name))
    with triptych.open(store, embedder=embedder) as kb:
        docs = kb.dataset(DATASET)
        _put_documents(console, kb, docs, documents)
        _make_layers(console, kb, docs, shown)
        _chapter(console, "3. Search")
        _say(
            console,
            "Keyword (BM25) and vector search are fused by their scores. Each hit says where it "
            "is, its rank (#1 is the best), and whether it has become stale.",
        )
        for question in QUESTIONS:
            _hits(console, question, docs.search(question, top_k=3))
        _edit_document(console, docs, shown)
    _chapter(console, "Next")
    command = _command()
    _say(console, f"Your own files:  {command} add FOLDER")
    _say(console, f"                 {command} search YOUR QUESTION")
    _say(console, f"In the browser:  {command} console")
    _say(console, 'In a program:    import triptych; kb = triptych.open("notes.db")')


def _put_documents(
    console: Console, kb: triptych.KnowledgeBase, docs: triptych.Dataset, documents: dict[str, str]
) -> None:
    used = kb.options.embedder
    model = "no model: keyword search only" if used is None else used.signature.partition("@")[0]
    size = sum(len(text.encode("utf-8")) for text in documents.values())
    _chapter(console, "1. Documents go in")
    _say(
        console,
        f"{len(documents)} documents ({size:,} bytes) are stored, cut into chunks along their "
        f"headings, and embedded by {model}.",
    )
    started = time.perf_counter()
    report = docs.put_many(documents)
    seconds = time.perf_counter() - started
    for failure in report.failed:
        _say(console, f"{failure.name} failed: {failure.error}", style="red")
    _counts(
        console,
        **{
            done: count
            for done in ("added", "updated", "unchanged")
            if (count := getattr(report, done))
        },
        chunks=report.chunks,
        embedded=report.embedded,
        seconds=round(seconds, 1),
    )


def _make_layers(
    console: Console, kb: triptych.KnowledgeBase, docs: triptych.Dataset, shown: str
) -> None:
    from triptych.layers import ExtractiveSummarizer, LayerBuilder

    _chapter(console, "2. Layers: the same text in fewer tokens")
    _say(
        console,
        "Every document gets an abstract (L0, a sentence) and an overview (L1), and so does "
        "the dataset. Here they are extracted without a language model.",
    )
    builder = LayerBuilder(kb, ExtractiveSummarizer())
    builder.apply(builder.plan(DATASET))
    _layer(console, "L0 of the dataset", docs.dataset_layer("L0"))
    _layer(console, f"L0 of {shown}", docs.layer(shown, "L0"))
    _layer(console, f"L1 of {shown}", docs.layer(shown, "L1"), lines=14)


def _edit_document(console: Console, docs: triptych.Dataset, shown: str) -> None:
    _chapter(console, "4. One paragraph changes")
    before = docs.get(shown)
    edited = edit_one_paragraph(before.content)
    _say(console, f"A sentence is added to one paragraph of {shown} (in memory only).")
    report = docs.put_many({shown: edited})
    after = docs.get(shown)
    _counts(
        console,
        version=f"{before.version} -> {after.version}",
        chunks=report.chunks,
        embedded=report.embedded,
        reused=report.reused,
    )
    _say(
        console,
        f"Of {report.chunks} chunks {report.embedded} went to the model again; the others "
        "kept their vectors. The very next search sees the new text:",
    )
    _hits(console, "quick brown okapi", docs.search("quick brown okapi", top_k=1))
    layer = docs.layer(shown, "L0")
    if layer is not None:
        _say(
            console,
            "The document's layers were made from the text before, and say so: "
            f"stale is {layer.stale!r}. Building them again makes only what is stale.",
        )
    report = docs.put_many({shown: edited})
    _say(
        console,
        f"Put again unchanged: {report.unchanged} unchanged, {report.embedded} embedded. A "
        "put that changes nothing costs nothing.",
    )


def _command() -> str:
    """What starts this installation's command from here, whether or not it is on the path."""
    own, found = Path(sys.executable).with_name("triptych"), shutil.which("triptych")
    if found is not None and Path(found) == own:
        return "triptych"
    if not own.is_file():
        return f"{shlex.quote(sys.executable)} -m triptych_adapters.cli"
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))


def edit_one_paragraph(content: str) -> str:
    """``content`` with a sentence added to the plain paragraph nearest to its middle."""
    blocks = content.split("\n\n")
    plain = [index for index, block in enumerate(blocks) if block[:1].isalpha()]
    middle = min(plain or range(len(blocks)), key=lambda index: abs(2 * index - len(blocks)))
    return "\n\n".join(
        f"{block.rstrip()} {ADDED}" if index == middle else block
        for index, block in enumerate(blocks)
    )


@contextmanager
def _store(named: str | None) -> Iterator[str]:
    if named is not None:
        yield named
        return
    with tempfile.TemporaryDirectory(prefix="triptych-demo-", ignore_cleanup_errors=True) as folder:
        yield str(Path(folder, "kb.db"))


def _chapter(console: Console, title: str) -> None:
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left"))


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(Text(visible(text), style=style))


def _counts(console: Console, **counts: object) -> None:
    console.print(Text("  " + "   ".join(f"{k} {v}" for k, v in counts.items()), style="green"))


def _layer(
    console: Console, title: str, layer: triptych.DerivedLayer | None, *, lines: int = 4
) -> None:
    console.print(Text(f"\n{title}", style="bold"))
    text = ["(none)"] if layer is None else visible(layer.content).splitlines()
    shown = text[:lines] + (["…"] if len(text) > lines else [])
    console.print(Text("\n".join(f"  {line}" for line in shown)))


def _hits(console: Console, question: str, result: triptych.Result) -> None:
    """The question and the answer, as `triptych search` prints it."""
    console.print()
    console.print(Text(f'$ triptych search "{question}"', style="bold"))
    hits = enumerate(result.hits, start=1)
    views = [HitView(hit=hit, rank=rank, line=matched_line(hit)) for rank, hit in hits]
    for line in render_hits(views, width=console.width, show_dataset=False):
        console.print(line, soft_wrap=True)
    for warning in result.warnings:
        _say(console, f"warning: {warning}", style="yellow")


if __name__ == "__main__":
    sys.exit(main())
