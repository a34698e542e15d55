"""Write the tables of the reference: `python tools/generate_reference.py` renews them in the pages.

The commands are those of the command line, each with what its help says first and its options; the
settings are the fields of `Settings`. What a setting takes, and a default that depends on others,
is said in its row of the page and kept. Which methods of a store a call needs is found by making
it. A test compares what is committed with what this writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from typer.main import get_command

from triptych.contracts import Capabilities
from triptych.contracts.defaults import Repositories
from triptych.copies.copy import copy_store
from triptych.layers import LayerBuilder
from triptych.search import SemanticCache
from triptych.service import Service, ServiceOptions
from triptych_adapters.cli.app import app
from triptych_adapters.cli.command import GLOBAL_OPTIONS
from triptych_backends.memory import MemoryStore
from triptych_factory import Settings
from triptych_factory.settings import PREFIX
from triptych_testing.fakes import FakeEmbedder, FakeLLM, FakeSparseEncoder

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
COMMANDS = "| command | does | options of its own |"
BACKEND = "../how-to/write-a-backend.md"
NEEDS = "| call | methods that no call before it needs |"
SETTINGS = "| argument, key | variable | default | values |"
PAGE_OF = {
    "init": "settings.md#which-store-is-used",
    "add": "../how-to/sync.md#let-the-store-remember-the-folders",
    "sync": "../how-to/sync.md",
    "put": "../how-to/file-formats.md",
    "watch": "../how-to/watch.md",
    "remove": "../how-to/sync.md#let-the-store-remember-the-folders",
    "search": "../how-to/query-syntax.md",
    "similar": "../how-to/similar.md",
    "related": "../how-to/related.md",
    "impact": "../how-to/impact.md",
    "ask": "../how-to/ask.md",
    "context": "../how-to/context.md",
    "tag": "../how-to/memory-for-agents.md",
    "delete": "../how-to/erase.md",
    "get": "../how-to/my-notes.md#read-a-note",
    "list": "../how-to/memory-for-agents.md#list-the-newest-and-count",
    "status": "settings.md",
    "history": "../how-to/history.md",
    "diff": "../how-to/history.md",
    "changes": "../how-to/changes.md",
    "rebuild": "../concepts.md#freshness",
    "embed": "../concepts.md#embedding-spaces-and-coverage",
    "admin create": "../concepts.md#datasets-and-their-configuration",
    "trust": "settings.md#what-a-folders-file-may-do",
    "doctor": "../how-to/doctor.md",
    "import": "../how-to/import-and-export.md",
    "export": "../how-to/import-and-export.md",
    "copy": "../how-to/move.md",
    "backup": "../how-to/move.md",
    "restore": "../how-to/history.md",
    "admin keys": "../how-to/keys.md",
    "admin review": "../how-to/review.md",
    "admin proposals": "../how-to/review.md",
    "mcp": "../how-to/mcp.md",
    "install": "../how-to/mcp.md#add-it-to-an-agent",
    "uninstall": "../how-to/mcp.md#add-it-to-an-agent",
    "admin fetch": "../how-to/context.md",
    "layers": "../how-to/layers.md",
    "eval": "../how-to/evaluate.md",
    "eval rag": "../how-to/judge-answers.md",
    "eval calibrate": "../how-to/no-answer.md",
    "eval log": "../how-to/no-answer.md",
    "serve": "../how-to/serve.md",
    "console": "../how-to/console.md",
}
"""The page that tells more of a command, or of a group of them."""
FILE_ONLY = ("pipelines",)


def main() -> None:
    """Renew the tables of both pages."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The pages with their tables as they should be, by name."""
    return {
        "command-line.md": _with_table("command-line.md", COMMANDS, lambda _: _commands()),
        "settings.md": _with_table("settings.md", SETTINGS, _settings),
        BACKEND: _with_table(BACKEND, NEEDS, lambda _: _needs()),
    }


def _with_table(name: str, head: str, rows: Any) -> str:
    text = (REFERENCE / name).read_text(encoding="utf-8")
    before, found, rest = text.partition(f"{head}\n")
    if not found:
        raise ValueError(f"{name} has no table {head}")
    table, blank, after = rest.partition("\n\n")
    rule = "|".join(["", *["---"] * (head.count("|") - 1), ""])
    return before + "\n".join([head, rule, *rows(table.splitlines()[1:])]) + blank + after


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its full name, those of groups too."""

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", None)
        if children is None:
            yield name, command
        else:
            for child in children:
                yield from below(f"{name} {child}".strip(), children[child])

    yield from below("", get_command(app))


def _commands() -> list[str]:
    common = {"help", *GLOBAL_OPTIONS}
    rows = []
    for name, command in commands():
        with command.make_context(name, [], resilient_parsing=True) as context:
            usage = " ".join(map(_argument, command.collect_usage_pieces(context)[1:]))
            own = [each for each in command.get_params(context) if each.name not in common]
        options = [
            f"`{max(each.opts, key=len)}`" for each in own if each.param_type_name == "option"
        ]
        words = name.split()
        link = next((PAGE_OF[k] for k in (" ".join(words[:2]), words[0]) if k in PAGE_OF), None)
        if link is None:
            raise ValueError(f"PAGE_OF has no page for `triptych {name}`: add it")
        says = re.sub(r"\s+", " ", (command.help or "").partition("\n\n")[0])
        first = re.split(r"(?<=[.:]) (?=[A-Z])", says)[0].rstrip(".:")
        shown = f"`{f'triptych {name} {usage}'.strip()}`"
        rows.append(f"| [{shown}]({link}) | {first} | {', '.join(options)} |")
    return rows


def _argument(piece: str) -> str:
    """``NAME…`` or ``[NAME…]``, of what the help calls ``{NAME}...`` or ``[NAME]...``."""
    name = piece.strip("{}[].")
    many = f"{name if name.isupper() else name.upper()}{'…' if piece.endswith('...') else ''}"
    return f"[{many}]" if piece.startswith("[") else many


def _settings(old: list[str]) -> list[str]:
    said: dict[str, list[str]] = {}
    for row in old:
        name, _, default, values = (cell.strip() for cell in row.strip("| ").split(" | ", 3))
        said.setdefault(name.strip("`"), [default, values])
    rows = []
    for field in attrs.fields(Settings):
        if not field.metadata:  # where they come from, and what is not in force
            continue
        if field.name not in said:
            raise ValueError(f"settings.md does not say what {field.name} takes: add a row for it")
        default, values = said[field.name]
        if isinstance(field.default, bool):
            default = f"`{str(field.default).lower()}`"
        elif isinstance(field.default, str | int | float):
            default = (
                f"`{field.default if isinstance(field.default, str) else f'{field.default:g}'}`"
            )
        variable = "none" if field.name in FILE_ONLY else f"`{PREFIX}{field.name.upper()}`"
        rows.append(f"| `{field.name}` | {variable} | {default} | {values} |")
    return rows


class _Traced:
    """A part of a store that tells which of its members are used."""

    def __init__(self, inner: Any, place: str, used: dict[str, None]) -> None:
        self._inner = inner
        self._place = place
        self._used = used

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            self._used[f"{self._place}.{name}"] = None
        return getattr(self._inner, name)


def _calls(store: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls of a program, in the order in which an author would have them work."""
    plain = Service(store)
    yield "`put_document`", lambda: plain.put_document("d", "a.md", "# Fish\n\nOne fish.")
    yield "`get_document`", lambda: plain.get_document("d", "a.md")
    yield "`search`", lambda: plain.search("fish", dataset_id="d")
    yield "`list_documents`", lambda: plain.list_documents("d")
    yield "`count_documents`", lambda: plain.count_documents("d")
    yield "`put_documents`", lambda: plain.put_documents("d", {"b.md": "Two.", "c.md": "Red."})
    yield "`update_metadata`", lambda: plain.update_metadata("d", {"lang": "en"}, names="a.md")
    yield "`delete_document`", lambda: plain.delete_document("d", "b.md")
    yield "`delete_documents`", lambda: plain.delete_documents("d", where={"lang": "fr"})
    yield "`create_dataset`", lambda: plain.create_dataset("e")
    yield "`delete_dataset`", lambda: plain.delete_dataset("e")
    yield "`rebuild`", lambda: plain.rebuild()
    yield "`purge`", lambda: plain.purge("d", "c.md")
    embedding = ServiceOptions(embedder=FakeEmbedder())
    dense = Service(store, options=embedding)
    yield "an embedder: `embed_pending`", lambda: (dense.rebuild(), dense.embed_pending())
    yield "`search` by vector", lambda: dense.search("fish", dataset_id="d")
    yield "`put_document_layer`", lambda: dense.put_document_layer("d", "a.md", "L0", "Of fish.")
    yield "`layer`, `layers`", lambda: (dense.layer("d", "a.md", "L0"), dense.layers("d"))
    yield "`search(layer=…)`", lambda: dense.search("fish", dataset_id="d", layer="L0")
    yield "`context`", lambda: dense.context("fish", 100, dataset_id="d")
    yield "`stats`", dense.stats
    yield "`search_documents`", lambda: dense.search_documents("fish", dataset_id="d")
    yield "`history`", lambda: dense.history("d", "a.md")
    yield "`restore`", lambda: dense.restore("d", "a.md", 1)
    yield "`changes`", lambda: dense.changes(dataset_id="d")
    yield "`health`, `doctor`", lambda: (dense.health(), dense.doctor(repair=True))
    kept = Service(store, options=attrs.evolve(embedding, semantic_cache=SemanticCache()))
    yield (
        "the semantic cache",
        lambda: (
            kept.search("fish", dataset_id="d"),
            kept.search("fish", dataset_id="d"),
            kept.cache_stats(),
        ),
    )
    encoder = FakeSparseEncoder()
    sparse = Service(store, options=attrs.evolve(embedding, sparse_encoder=encoder))
    yield (
        "a sparse encoder",
        lambda: (
            sparse.rebuild(),
            sparse.search("fish", dataset_id="d"),
            sparse.search_documents("fish", dataset_id="d"),
            sparse.stats(),
        ),
    )
    yield "`LayerBuilder`", lambda: _build(sparse)
    empty = MemoryStore()
    yield "`copy_store` from it", lambda: copy_store(store, empty)
    yield "`copy_store` into it", lambda: copy_store(empty, store, replace=True)
    for service in (plain, dense, kept, sparse):
        service.close()


def _build(service: Service) -> None:
    builder = LayerBuilder(service, FakeLLM())
    builder.apply(builder.plan("d"))
    builder.ledger("d")


def _needs() -> list[str]:
    used: dict[str, None] = {}
    inner = MemoryStore()
    own = {name: getattr(inner, name) for name in ("documents", "chunks", "layers")}
    traced = Repositories.over(inner, **{n: _Traced(part, n, used) for n, part in own.items()})
    has = attrs.asdict(inner.capabilities, recurse=False)
    store = attrs.evolve(
        traced, capabilities=Capabilities(**{n: _Traced(p, n, used) for n, p in has.items()})
    )
    rows = []
    seen: set[str] = set()
    for call, act in _calls(_Traced(store, "store", used)):
        act()
        new = sorted(set(used) - seen)
        seen |= set(new)
        new = [each for each in new if each.partition(".")[2] not in (*own, "capabilities")]
        if new:
            rows.append(f"| {call} | {', '.join(f'`{name}`' for name in new)} |")
    return rows


if __name__ == "__main__":
    main()
