"""``triptych ask``: an answer on stdout with its footnotes, everything else on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chat_server import chat, streamed
from support.cli_run import Shell, fresh_shell
from support.provider_server import ProviderServer, Reply
from support.terminal import Terminal, seen
from triptych.answers import AnswerReceipt
from triptych.records.serialization import from_dict
from triptych_adapters.wire.errors import Exit

GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"
SAID = ["Retries back ", "off [", "1]. ", "Wait [9]", "."]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide.md", GUIDE)
    shell.write("docs/other.md", "# Other\n\nNothing of the kind.\n")
    assert shell("add", "docs").code == 0
    assert shell("sync").code == 0
    return shell


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with chat(SAID) as server:
        model(monkeypatch, server)
        yield server


def model(monkeypatch: pytest.MonkeyPatch, server: ProviderServer) -> None:
    monkeypatch.setenv("TRIPTYCH_LLM", "openai:m")
    monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{server.url}/v1")


def test_a_footnote_of_source_code_is_the_file_and_its_lines(
    shell: Shell, server: ProviderServer
) -> None:
    shell.write("src/retry.py", "def wait(pause):\n    backoff = pause * 2\n    return backoff\n")
    assert shell("sync", "src", "-q", "--dataset", "code").code == 0
    ran = shell("ask", "what does backoff do?", "--dataset", "code")
    assert "\n[1] src/retry.py:1-3  wait\n" in ran.text, ran.both


def test_the_answer_and_its_footnotes_are_on_stdout(shell: Shell, server: ProviderServer) -> None:
    ran = shell("ask", "what", "do", "retries", "do?", "--mode", "bm25")
    assert ran.code == 0, ran.both
    assert ran.text == ("Retries back off [1]. Wait.\n\n[1] docs/guide.md:1-7  Guide\n")
    assert "[9]" in ran.err
    assert "1 sentence without a source" in ran.err
    assert "openai/m: 11 tokens in, 7 out" in ran.err
    assert len(server.asked) == 1
    assert "what do retries do?" in server.asked[0].body["messages"][1]["content"]
    quiet = shell("ask", "retries", "--mode", "bm25", "--quiet")
    assert "tokens in" not in quiet.err


def test_json_is_the_answer_with_paths_and_its_receipt(
    shell: Shell, server: ProviderServer, tmp_path: Path
) -> None:
    prices = ("--price-input", "1000000", "--price-output", "1")
    ran = shell("ask", "retries", "--json", *prices)
    assert ran.code == 0, ran.both
    answer = ran.json
    assert answer["text"] == "Retries back off [1]. Wait."
    assert answer["citations"][0]["file"] == str(tmp_path / "docs" / "guide.md")
    assert answer["citations"][0]["piece"]["citation"]["lines"] == [1, 7]
    assert [each["text"] for each in answer["uncited"]] == ["Wait."]
    assert answer["removed"] == [9]
    assert answer["cost"] == pytest.approx(11.000007)
    assert from_dict(AnswerReceipt, answer["receipt"]).cited == (1,)
    assert [each["role"] for each in answer["conversation"]] == ["user", "assistant"]
    assert server.asked[0].body["stream"] is False


def test_what_the_sources_do_not_say_is_named(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat(["Retries back off [1]. They wait 77 ", "seconds [1]."]) as server:
        model(monkeypatch, server)
        marked = shell("ask", "retries")
        assert marked.text.startswith("Retries back off [1]. They wait 77 seconds [1].\n")
        assert "the figure '77 seconds' is not in [1], and was found nowhere" in marked.err
        dropped = shell("ask", "retries", "--proof", "drop")
        assert dropped.text.startswith("Retries back off [1].\n\n[1] ")
        assert "left out: the figure '77 seconds'" in dropped.err
        refused = shell("ask", "retries", "--proof", "refuse")
        assert (refused.code, refused.text) == (Exit.MODEL, "Retries back off [1].\n")
        assert "error: the answer is refused: the figure '77 seconds'" in refused.err
        (claim,) = shell("ask", "retries", "--json").json["proof"]
        assert [claim[name] for name in ("text", "kind", "status")] == [
            "77 seconds",
            "figure",
            "nowhere",
        ]


def test_without_a_model_the_best_passages_are_shown_and_how_to_name_one(shell: Shell) -> None:
    ran = shell("ask", "retries")
    assert ran.code == Exit.NOT_AVAILABLE
    assert ran.text.startswith("[1] docs/guide.md:1-7  Guide\n    # Guide\n"), ran.text
    assert "TRIPTYCH_LLM" in ran.err
    assert "triptych context" in ran.err
    assert shell("ask", "retries", "--json").json["error"]["type"] == "NotAvailableError"


def test_of_a_passage_those_lines_are_shown_that_have_the_words(shell: Shell) -> None:
    head = "---\ntitle: Boat\ntags: [sea]\n---\n\n# The boat\n\n"
    shell.write("boats/boat.md", f"{head}It is white.\n\nEach mooring costs 1,240 euros.\n")
    assert shell("put", "boats", "-d", "boats", "-q").code == 0
    for question in ("what do moorings cost?", "wie viel kostet ein mooring"):
        assert "costs 1,240 euros" in shell("ask", question, "-d", "boats").text


def test_sources_of_several_datasets_are_told_apart(shell: Shell, server: ProviderServer) -> None:
    shell.write("more/guide.md", "# More\n\nRetries are few.\n")
    shell("sync", "more", "-q", "--dataset", "second")
    ran = shell("ask", "retries", "--llm", "none")
    places = {line.partition(" ")[2] for line in ran.text.split("\n") if line.startswith("[")}
    assert places == {
        "docs/guide.md:1-7  Guide  [default]",
        "docs/other.md:1-3  Other  [default]",
        "more/guide.md:1-3  More  [second]",
    }
    assert "[second]" not in shell("ask", "retries", "--llm", "none", "-d", "second").text
    assert shell("ask", "retries").text.rstrip().endswith(("[default]", "[second]"))


def test_what_is_not_found_is_no_failure(shell: Shell, server: ProviderServer) -> None:
    ran = shell("ask", "quagga", "--mode", "bm25")
    assert ran.code == 0
    assert ran.text == "The documents do not answer this question.\n"
    assert "the model was not called" in ran.err
    assert server.asked == []


def test_where_nothing_answers_the_nearest_passages_are_shown(
    shell: Shell, server: ProviderServer
) -> None:
    for at in range(5):
        shell.write(f"gulls/{at}.md", f"A gull, number {at}, cries over the pier.\n")
    assert shell("put", "gulls", "-d", "gulls", "-q").code == 0
    question = "which number of loans does the central bank refuse"
    ran = shell("ask", question, "-d", "gulls", "--mode", "bm25")
    first, *shown = ran.text.split("\n\n")
    assert first == "The documents do not answer this question."
    assert [each.partition(" ")[0] for each in shown] == ["[1]", "[2]", "[3]"]
    assert all("cries over the pier" in each for each in shown)
    assert "no evidence: These are probably not about it." in ran.err
    assert server.asked == []


@pytest.mark.parametrize(
    ("reply", "out"),
    [
        (streamed(["Retries back off [1]. And"], ends=False), "Retries back off [1]. And\n"),
        (Reply(body=b"down", status=400), ""),
        (streamed([]), ""),
    ],
)
def test_a_model_that_fails_ends_the_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, reply: Reply, out: str
) -> None:
    with chat(reply) as server:
        model(monkeypatch, server)
        ran = shell("ask", "retries")
        assert ran.code == Exit.MODEL
        assert ran.text == out
        assert "error: " in ran.err


def test_a_conversation_in_no_folder_is_refused_before_the_model_is_asked(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat(["Ten [1]."]) as server:
        model(monkeypatch, server)
        ran = shell("ask", "retries", "--conversation", "missing/chat.json")
    assert ran.code == 2
    assert ran.out == b""
    assert "there is no folder missing" in " ".join(ran.err.split())


def test_a_conversation_is_kept_in_a_file(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "chat.json"
    with chat(["Ten [1]."], ["What are the limits of retries?"], ["Ten [1]."]) as server:
        model(monkeypatch, server)
        assert shell("ask", "retries", "--conversation", "chat.json").code == 0
        assert len(json.loads(file.read_text())) == 2
        ran = shell("ask", "and its limits?", "--conversation", "chat.json")
        assert ran.code == 0, ran.both
    kept = json.loads(file.read_text())
    assert [each["content"] for each in kept] == [
        "retries",
        "Ten [1].",
        "and its limits?",
        "Ten [1].",
    ]
    # The question was made whole, and then answered.
    assert len(server.asked) == 3
    assert server.asked[2].body["messages"][1]["content"] == "retries"
    for wrong in ("{}", "no JSON", '[{"role": "tool", "content": ""}]', "\ud800"):
        file.write_bytes(wrong.encode("utf-8", "surrogatepass"))
        ran = shell("ask", "retries", "--conversation", "chat.json")
        assert ran.code == Exit.USAGE, wrong
        assert "chat.json" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--budget", "-1"], Exit.USAGE),
        (["--max-tokens", "0"], Exit.USAGE),
        (["--price-input", "3"], Exit.USAGE),
        (["--dataset", "none"], Exit.NOT_FOUND),
        (["--llm", "nobody:m"], Exit.USAGE),
        (["--timeout", "0"], Exit.FAILED),
    ],
)
def test_what_cannot_be_asked_ends_with_its_code(
    shell: Shell, server: ProviderServer, arguments: list[str], code: Exit
) -> None:
    assert shell("ask", "retries", *arguments).code == code
    assert server.asked == []


def test_a_minus_is_a_word_of_the_question(shell: Shell, server: ProviderServer) -> None:
    assert shell("ask", "what is", "-draft", "--mode", "bm25", "retries").code == 0
    assert "what is retries -draft" in server.asked[0].body["messages"][1]["content"]


def test_nothing_that_a_model_writes_steers_the_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with chat(["\x1b[31mRetries\x07 [1].\u202e"]) as server:
        model(monkeypatch, server)
        ran = shell("ask", "retries")
    assert "\x1b" not in ran.text
    assert "\u202e" not in ran.text


@pytest.mark.process
def test_on_a_terminal_the_answer_comes_as_it_is_written(
    shell: Shell, server: ProviderServer, tmp_path: Path
) -> None:
    env = {
        "TRIPTYCH_LLM": "openai:m",
        "TRIPTYCH_LLM_BASE_URL": f"{server.url}/v1",
        "TRIPTYCH_EMBEDDER": "hash",
        "XDG_DATA_HOME": str(tmp_path / ".data"),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
    }
    with Terminal(columns=60, cwd=tmp_path, env=env) as terminal:
        code, written = terminal.run("ask", "retries", "--mode", "bm25")
    assert code == 0
    screen = seen(written)
    assert "Retries back off [1]. Wait." in screen
    assert "[1] docs/guide.md:1-7  Guide" in screen
