"""Context for an agent's turn: as a function, and as the command that agents call."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from triptych.errors import TriptychError, ValidationError
from triptych.records import Message
from triptych.service import Service
from triptych_adapters.tools import context_hook

GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None) as service:
        service.put_documents("d", {f"{n}.md": f"# Retries {n}\n\n{GUIDE} {n}\n" for n in range(9)})
        service.put_document("other", "o.md", "Nothing of the kind.")
        yield service


def turn(text: Any) -> list[Any]:
    return [
        {"role": "user", "content": "an older message on stoves"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": text},
    ]


def test_each_turn_asks_for_the_last_message_and_gives_six_passages(kb: Service) -> None:
    hook = context_hook(kb, token_budget=5000)
    text = hook(turn("what do retries do?"))
    assert text is not None
    assert text.startswith("# Project context\n\n")
    assert text.count("\n[") == 6
    assert "stoves" not in text
    marks = {line for line in text.splitlines() if line.startswith("<text-")}
    assert len(marks) == 1
    assert marks.pop() in text.partition("[1]")[0]
    assert hook(turn("what do retries do?")) != text  # each turn has a fence of its own
    fewer = context_hook(kb, max_pieces=2, heading="# Notes", dataset_id="d")(turn("retries"))
    assert fewer is not None
    assert fewer.startswith("# Notes\n")
    assert fewer.count("\n[") == 2


@pytest.mark.parametrize(
    "text", ["quagga zebra", "", "  \n", "!?", None, 7, [], [{"type": "image"}]]
)
def test_nothing_is_injected_where_nothing_is_relevant(kb: Service, text: Any) -> None:
    assert context_hook(kb)([{"role": "user", "content": text}]) is None


def test_nothing_is_injected_where_the_search_has_no_evidence(kb: Service) -> None:
    found = kb.search("failed retries", dataset_id="d")
    assert found.hits  # each document has one of the words
    assert found.evidence is not None
    assert found.evidence.level == "none"
    assert context_hook(kb)(turn("failed retries")) is None
    assert context_hook(kb, answerability=lambda _: "enough")(turn("failed retries")) is not None


def test_messages_come_in_the_forms_of_their_hosts(kb: Service) -> None:
    def hook(messages: Any) -> str:
        return re.sub(r"text-\w+", "text", context_hook(kb)(messages) or "")

    said = hook([Message("user", "back off\nretries")])
    assert said
    blocks = [
        {"type": "tool_result", "text": "quagga"},
        {"type": "text", "text": "back off"},
        {"text": "retries"},
    ]
    assert hook([{"role": "user", "content": blocks}]) == said
    asked = Message("user", "back off\nretries")
    assert hook([asked, Message("assistant", "quagga")]) == said
    result = {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}
    assert hook([asked, result]) == said
    assert hook([]) == ""
    for wrong in ("retries", {"role": "user"}, Message("user", "a"), [3], ["retries"], None):
        with pytest.raises(ValidationError):
            context_hook(kb)(wrong)  # type: ignore[arg-type]


def test_a_judge_says_what_is_relevant(kb: Service) -> None:
    for verdict, given in (("enough", True), ("weak", False), ("nothing", False)):
        hook = context_hook(kb, answerability=lambda _, v=verdict: v)  # type: ignore[misc]
        assert (hook(turn("retries")) is not None) is given


def test_what_goes_wrong_is_told_and_the_turn_goes_on(
    kb: Service, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[TriptychError] = []
    hook = context_hook(kb, dataset_id="none", on_error=told.append)
    assert hook(turn("retries")) is None
    assert len(told) == 1
    slow = context_hook(kb, timeout=0, on_error=told.append)
    assert slow(turn("retries")) is None
    assert "deadline" in str(told[1])
    with caplog.at_level(logging.WARNING, "triptych.hook"):
        assert context_hook(kb, dataset_id="none")(turn("retries")) is None
    assert "without a context" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"max_pieces": 0},
        {"token_budget": -1},
        {"dataset_id": ""},
        {"timeout": -1},
        {"heading": 3},
        {"top": 3},
    ],
)
def test_a_hook_with_invalid_settings_is_refused(kb: Service, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        context_hook(kb, **options)


def test_the_search_of_a_hook_takes_options(kb: Service) -> None:
    hook = context_hook(kb, where={"doc_name": "3.md"}, dataset_id="d")
    text = hook(turn("retries"))
    assert text is not None
    assert "d/3.md" in text
    assert text.count("\n[") == 1


# The command


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide.md", GUIDE)
    assert shell("put", "docs").code == 0
    return shell


def asked(**given: Any) -> bytes:
    return json.dumps({"session_id": "s", "cwd": "/", **given}).encode()


def test_the_command_prints_what_a_host_takes(shell: Shell) -> None:
    stdin = asked(hook_event_name="UserPromptSubmit", prompt="what do retries do?")
    ran = shell("context", "--hook", "--mode", "bm25", stdin=stdin)
    assert ran.code == 0, ran.both
    assert ran.err == ""
    said = json.loads(ran.out)
    assert set(said) == {"hookSpecificOutput"}
    assert said["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    text = said["hookSpecificOutput"]["additionalContext"]
    assert text.startswith("# Project context\n")
    assert "default/guide.md:1-7" in text
    assert "Retries back off." in text
    assert ran.text.count("\n") == 1


@pytest.mark.parametrize(
    "stdin",
    [
        asked(hook_event_name="UserPromptSubmit", prompt="quagga zebra"),
        asked(hook_event_name="UserPromptSubmit", prompt=" "),
        asked(hook_event_name="UserPromptSubmit", prompt="\ud800?"),
        asked(hook_event_name="SessionStart"),
        asked(prompt=7),
    ],
)
def test_the_command_prints_nothing_where_nothing_is_relevant(shell: Shell, stdin: bytes) -> None:
    ran = shell("context", "--hook", "--mode", "bm25", stdin=stdin)
    assert (ran.code, ran.out, ran.err) == (0, b"", "")


@pytest.mark.parametrize(
    ("stdin", "arguments"),
    [
        (b"", []),
        (b"no JSON", []),
        (b"[]", []),
        (b"[" * 100_000, []),
        (b"\xff\xfe", []),
        (asked(prompt="retries"), ["--dataset", "none"]),
        (asked(prompt="retries"), ["--where", "nonsense"]),
        (asked(prompt="retries"), ["--timeout", "0"]),
        (asked(prompt="retries"), ["--store", "gone.db"]),
        (asked(prompt="retries"), ["--format", "xml"]),
        (asked(prompt="retries"), ["--json"]),
        (asked(prompt="retries"), ["--budget", "-1"]),
        (asked(prompt="retries"), ["some", "words"]),
    ],
)
def test_what_fails_is_on_stderr_and_does_not_stop_the_host(
    shell: Shell, stdin: bytes, arguments: list[str]
) -> None:
    ran = shell("context", "--hook", *arguments, stdin=stdin)
    assert ran.code == 1
    assert ran.out == b""
    assert ran.err.startswith("error: ")


@pytest.mark.process
def test_a_mistyped_option_does_not_stop_the_host(tmp_path: Path) -> None:
    for arguments, code in (["--hook", "--bogus"], 1), (["--bogus"], 2):
        done = subprocess.run(
            [sys.executable, "-m", "triptych_adapters.cli", "context", *arguments],
            cwd=tmp_path,
            input=b"{}",
            capture_output=True,
            check=False,
        )
        assert done.returncode == code
        assert done.stdout == b""


@pytest.mark.process
def test_a_hook_that_hangs_is_ended(tmp_path: Path) -> None:
    """Its host never closes stdin: no deadline of the library sees that."""
    reader, writer = os.pipe()
    try:
        began = time.monotonic()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "triptych_adapters.cli"),
                *("context", "--hook", "--timeout", "0"),
            ],
            cwd=tmp_path,
            stdin=reader,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert time.monotonic() - began < 60
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"it took 2 seconds" in done.stderr


def test_the_command_needs_a_question_without_a_hook(shell: Shell) -> None:
    assert shell("context").code == 2
    fenced = shell("context", "retries", "--fence", "--mode", "bm25")
    assert "\n<text-" in fenced.text
    one = shell("context", "retries", "--top-k", "1", "--json")
    assert len(one.json["pieces"]) == 1
