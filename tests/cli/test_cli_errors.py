"""Errors at the prompt: a hint belongs to its error, advice is the shell's."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.packages import PACKAGES
from support.rows import each_row
from triptych.errors import ValidationError
from triptych.installation import install_command
from triptych_adapters.cli.output import shell_text
from triptych_factory.llms import build_llm, planned_llm


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide.md", "# Guide\n")
    assert shell("put", "docs", "-q").code == 0
    return shell


def hint(error: str) -> str | None:
    found = re.search(r"^hint: (.*)$", error, re.MULTILINE)
    return None if found is None else found[1]


@pytest.mark.parametrize(
    ("command", "code", "wanted"),
    [
        ("sync nofolder", 3, None),
        ("put nofile", 3, None),
        ("search x -d nope", 3, None),
        ("search x --where y", 2, None),
        ("search x --mode vector --embedder none", 7, None),
        ("get zzz", 3, "`triptych list` shows the documents of a dataset"),
        ("get guid.md", 3, None),
        ("get guide.md --version 9", 3, None),
        ("put docs/guide.md --name guide.md --if-version 9", 4, "`triptych get NAME --info`"),
        ("layers plan --llm nobody:x", 2, None),
    ],
)
def test_a_hint_belongs_to_the_error(
    shell: Shell, command: str, code: int, wanted: str | None
) -> None:
    ran = shell(*command.split())
    assert ran.code == code, ran.err
    found = hint(ran.err)
    assert found is None if wanted is None else wanted in (found or ""), ran.err


def test_a_hint_belongs_to_the_error_when_quiet_too(shell: Shell) -> None:
    assert hint(shell("get", "zzz", "--quiet").err) is not None


def test_a_conflict_of_no_document_has_no_hint_of_documents(shell: Shell) -> None:
    shell.write(".mcp.json", '{"mcpServers": {"triptych": {"command": "mine"}}}')
    refused = shell("install", "claude", "--store", str(shell.store))
    assert (refused.code, hint(refused.err)) == (4, None)


def test_an_export_into_no_folder_is_one_sentence(shell: Shell) -> None:
    ran = shell("export", "--output", "nodir/out.jsonl")
    assert (ran.code, ran.err) == (3, "error: there is no folder 'nodir': make it first\n")
    ran = shell("export", "--output", "docs")
    assert (ran.code, "'docs' cannot be written" in ran.err) == (2, True)


def test_a_backup_into_no_folder_says_what_to_do(shell: Shell) -> None:
    ran = shell("backup", "nodir/kb.db")
    assert ran.code == 5
    assert "name a file in a folder that exists" in (hint(ran.err) or ""), ran.err


@pytest.mark.parametrize(
    "command", ["serve --write --port 0", "console --write --no-browser", "mcp --write"]
)
def test_writes_are_not_served_of_a_store_that_is_read_only(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("TRIPTYCH_READ_ONLY", "true")
    ran = shell(*command.split())
    assert ran.code == 2
    assert "read_only is set (by TRIPTYCH_READ_ONLY)" in ran.err, ran.err
    assert "leave out --write" in ran.err


def test_counts_and_types_are_told_in_plain_words(shell: Shell) -> None:
    ran = shell("doctor", "--embedder", "none")
    assert ran.err.splitlines()[-1].startswith("checked 1 dataset, 1 document, "), ran.err
    shell.write("one/a.md", "# A\n")
    shell("add", "one")
    assert "1 document deleted, 0 kept" in shell("remove", "one", "--delete").err
    with triptych.open("memory://", embedder=None) as kb:
        for wrong, told in (
            (5, "not int"),
            ({5: "x"}, "the name 5 is of type int"),
            ({"a": 5}, "the content of 'a' is of type int"),
        ):
            with pytest.raises(ValidationError, match=told):
                kb.put_documents("d", wrong)  # type: ignore[arg-type]  # on purpose


def test_a_settings_file_that_is_no_toml_has_no_hint(shell: Shell) -> None:
    shell.write("triptych.toml", "this is none")
    ran = shell("list")
    assert ran.code == 2
    assert "cannot be read as TOML" in ran.err
    assert hint(ran.err) is None


def test_where_there_is_no_store_init_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = fresh_shell(tmp_path, monkeypatch)("list")
    assert ran.code == 3
    assert "no store in this folder or above it" in ran.err
    assert hint(ran.err) == "`triptych init` makes a store for this folder"


# Python in the shell

_CALL = re.compile(
    r"(?<![`\w])\w[\w.]*\((?:\w+=|\)|\*|…)|\b[a-z_]+=(?:'|True|False|None|\\{)|\bapi_key\b"
)

NOT_IN_A_SHELL = {
    "location.py:carries a user": "the URL has an option of this name",
    "location.py:has a character that a key": "the URL has an option of this name",
    "base.py": "the command passes what is asked for",
    "__init__.py:restricted takes an Access": "the command passes what is asked for",
    "embedding.py:no embedder": "the command has names of embedders only",
    "values.py": "the command reads files by its own decoder, and metadata as text",
    "shared.py": "the command reads files by its own decoder",
    "arguments.py": "the command reads files by its own decoder",
    "query.py": "the command gives a dataset or searches all",
    "request.py": "the command has no keyword boost",
    "hydration.py": "all stores of this version search whole documents",
    "folder_tree.py": "the command makes its own summaries",
    "answerer.py": "the command passes neither prompt nor prices",
    "citations.py": "the command asks one question",
    "cache_options.py": "the file has a switch or a table",
    "stores.py": "the command opens stores that can search the past",
    "executor.py:is not an executor": "the command has no executor",
    "chat.py": "what a model sends, and its own limits",
}
"""Advice that no command leads to, by file, and why."""


def advice() -> list[tuple[str, str]]:
    """Every text of the library that is part of a message and shows a call of Python."""
    found = []
    faces = {"triptych_adapters", "triptych_server", "triptych_frameworks", "triptych_testing"}
    for name, package in PACKAGES.items():
        for file in sorted(package.rglob("*.py")) if name not in faces else ():
            if "migrations" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    texts = filter(_CALL.search, _texts(node.exc))
                    found += [(file.name, text) for text in texts]
    return found


def _texts(node: ast.AST) -> list[str]:
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "'x'" for part in node.values]
        return ["".join(map(str, parts))]
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for child in ast.iter_child_nodes(node) for text in _texts(child)]


def test_no_error_of_a_command_shows_a_call_of_python() -> None:
    texts = advice()
    assert len(texts) > 10
    left = [
        (file, shell_text(text))
        for file, text in texts
        if _CALL.search(shell_text(text))
        and not any(
            file == known.partition(":")[0] and known.partition(":")[2] in text
            for known in NOT_IN_A_SHELL
        )
    ]
    assert left == []
    assert {known.partition(":")[0] for known in NOT_IN_A_SHELL} <= {file for file, _ in texts}


@each_row(
    ("python", "shell"),
    [
        (
            "nothing was written; run rebuild(dataset_id='docs') to derive it again, or open the "
            "store with the settings it was filled with",
            "nothing was written; run `triptych rebuild --dataset docs` to derive it again, or "
            "give the settings it was filled with (--embedder)",
        ),
        (
            "none is wired: open the knowledge base with embedder='local' (pip install "
            "'triptych[local]'), or search with mode='bm25'",
            "none is wired: give --embedder local (pip install 'triptych[local]'), or search "
            "with --mode bm25",
        ),
        (
            "Run `triptych doctor --repair`, or `Service.doctor(repair=True)`: chunks",
            "Run `triptych doctor --repair`: chunks",
        ),
        (
            "got no data for 120 seconds: allow more (Timeouts.read), or request less at a time",
            "got no data for 120 seconds: request less at a time",
        ),
        ("set OPENAI_API_KEY, or give api_key", "set OPENAI_API_KEY, or TRIPTYCH_LLM_API_KEY"),
        ("or give base_url; by name, set OLLAMA_HOST", "or set OLLAMA_HOST"),
        ("nothing to change", "nothing to change"),
    ],
)
def test_advice_is_spelt_as_options(python: str, shell: str) -> None:
    assert shell_text(python) == shell


def test_a_dataset_of_another_model_is_refused_with_a_command(shell: Shell) -> None:
    ran = shell("put", "docs", "--embedder", "none", "-m", "a=b")
    assert ran.code == 6
    assert ran.err.endswith(
        "hint: `triptych status` names the embedder a dataset was filled with\n"
    )
    assert "dataset_id" not in ran.err


# Plans


def test_a_planned_model_is_signed_as_the_model_is() -> None:
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    for name in ("ollama:llama3.2", "ollama:x:latest", "openai:gpt-4o-mini", "anthropic:c"):
        built, planned = build_llm(name, environ=keys), planned_llm(name)
        assert built is not None
        assert planned is not None
        assert planned.signature == built.signature
    assert planned_llm("none") is None


@pytest.mark.process
def test_a_plan_needs_neither_a_client_nor_a_key(shell: Shell) -> None:
    program = (
        "import sys; sys.modules['httpx'] = sys.modules['httpx2'] = None\n"
        "from triptych_adapters.cli.app import app\n"
        "app(sys.argv[1:])\n"
    )
    for llm in ("ollama:llama3.2", "openai:gpt-4o-mini"):
        done = subprocess.run(
            [sys.executable, "-c", program, "layers", "build", "--dry-run", "--llm", llm, "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert llm.replace(":", "/") in done.stdout
    built = subprocess.run(
        [sys.executable, "-c", program, "layers", "build", "--llm", "ollama:llama3.2"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 7
    assert install_command(extra="http") in built.stderr


def test_what_another_program_calls_a_command_is_answered(shell: Shell) -> None:
    for typed, meant in {
        "open": "search WORDS --open",
        "help": "triptych -h",
        "config": "triptych status",
        "upgrade": "pipx upgrade triptych",
    }.items():
        ran = shell(typed)
        assert ran.code == 2
        assert meant in " ".join(ran.err.replace("│", " ").split()), ran.err
    assert "Value error" not in shell("search", "a", "--mode", "zed").err
