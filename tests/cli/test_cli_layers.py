"""``triptych layers build``, ``show`` and ``ledger``, with a model over HTTP."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.provider_server import Asked, ProviderServer, Reply, as_json, serving
from triptych.layers import LayerBuilder

KEY = "sk-of-the-tests"


def answer(asked: Asked) -> Reply:
    shown = asked.body["messages"][-1]["content"]
    if "breaks it" in shown and "- broken" not in shown:
        said = "I'm sorry, but I can't help with that."
    else:
        said = f"On {shown.split()[2]}."
    return as_json(
        {
            "choices": [{"message": {"content": said}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10},
        }
    )


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with serving(answer) as server:
        yield server


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ProviderServer) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide/start.md", "# Start\n\nHow to start.")
    shell.write("docs/guide/more.md", "# More\n\nHow to go on.")
    shell.write("docs/top.md", "# Top\n\nThe top.")
    assert shell("put", "docs").code == 0
    monkeypatch.setenv("TRIPTYCH_LLM", "openai:small")
    monkeypatch.setenv("TRIPTYCH_LLM_API_KEY", KEY)
    monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{server.url}/v1")
    return shell


def test_plan_build_show_and_ledger(shell: Shell, server: ProviderServer) -> None:
    plan = shell("layers", "build", "--dry-run", "--json").json
    counts = ("artifacts", "conditional", "quarantined", "gone", "kept")
    assert [plan[name] for name in counts] == [10, 0, 0, 0, 0]
    assert (plan["reasons"], plan["cost"]["calls"]) == ({"new": 10}, 10)
    assert plan["model"] == "openai/small"
    assert server.asked == []

    built = shell("layers", "build", "--json", "--price-input", "1", "--price-output", "10")
    assert (built.code, built.json["report"]["made"], built.json["report"]["stopped"]) == (
        0,
        10,
        None,
    )
    assert "about 10 calls" in built.err
    assert len(server.asked) == 10
    assert all(asked.headers["authorization"] == f"Bearer {KEY}" for asked in server.asked)

    assert shell("layers", "show", "guide/", "--layer", "L0").text.startswith("On ")
    shown = shell("layers", "show", "--dataset-layer", "--json").json["layers"]
    assert [each["stale"] for each in shown] == [None, None]
    assert shell("layers", "show", "nothing/").code == 3

    (usage,) = shell("layers", "ledger", "--json").json["usage"]
    assert usage == {
        "model": "openai/small",
        "calls": 10,
        "failures": 0,
        "input_tokens": 1000,
        "output_tokens": 100,
        "cost": pytest.approx(0.002),
    }
    assert shell("layers", "ledger").rows == [["openai/small", "10", "0", "1000", "100", "0.002"]]
    again = shell("layers", "build")
    assert "every layer is fresh" in again.err
    assert len(server.asked) == 10


def test_edited_document_is_listed_with_the_folders_around_it(shell: Shell) -> None:
    assert shell("layers", "build").code == 0
    shell.write("docs/guide/start.md", "# Start\n\nHow to begin.")
    shell("put", "docs")
    rows = shell("layers", "build", "--dry-run", "--list").rows
    assert rows == [
        ["guide/start.md", "L0", "source", "false", "1"],
        ["guide/start.md", "L1", "source", "false", "1"],
        ["guide/", "L0", "input", "true", "1"],
        ["guide/", "L1", "input", "true", "1"],
        ["", "L0", "input", "true", "1"],
        ["", "L1", "input", "true", "1"],
    ]
    one = shell("layers", "build", "--dry-run", "top.md", "--json").json
    assert one["artifacts"] == 0
    assert shell("layers", "build", "--json").json["report"]["calls"] == 2


def test_document_that_breaks_the_model_is_named(shell: Shell) -> None:
    shell.write("docs/broken.md", "This breaks it.")
    shell("put", "docs")
    built = shell("layers", "build", "--json")
    assert built.code == 8
    assert {each["doc_name"] for each in built.json["report"]["quarantined"]} == {"broken.md"}
    assert built.json["report"]["made"] == 10
    assert "broken.md: its L0 is quarantined (refusal)" in built.err
    plan = shell("layers", "build", "--dry-run")
    assert "2 quarantined" in plan.err
    rows = shell("layers", "ledger", "--quarantined").rows
    assert [row[:3] for row in rows] == [
        ["broken.md", "L0", "refusal"],
        ["broken.md", "L1", "refusal"],
    ]
    assert shell("layers", "build", "--retry-quarantined").code == 6


def test_wrong_key_ends_a_build_after_one_call_of_each_worker(
    shell: Shell, server: ProviderServer
) -> None:
    server.answer = lambda _: Reply(status=401, body=b"{}")
    built = shell("layers", "build", "--concurrency", "1", "--json")
    assert (built.code, built.json["report"]["stopped"], len(server.asked)) == (6, "provider", 1)
    assert "key is missing, wrong" in built.err


def test_a_provider_that_is_down_is_named_and_no_ceiling_is_blamed(
    shell: Shell, server: ProviderServer
) -> None:
    server.answer = lambda _: Reply(status=500, body=b"{}")
    built = shell("layers", "build", "--max-calls", "2")
    assert built.code == 6
    assert re.search(r"(start|more|top)\.md L0: ", built.err)
    assert "kept failing" in built.err
    assert "max_calls" not in built.err
    assert ["calls", "2"] in built.rows
    assert ["failed calls", "2"] in built.rows


def test_ceiling_ends_a_build_and_the_next_goes_on(shell: Shell) -> None:
    first = shell("layers", "build", "--max-calls", "4", "--json")
    assert (first.code, first.json["report"]["stopped"], first.json["report"]["made"]) == (
        0,
        "max_calls",
        4,
    )
    assert "max_calls" in first.err
    assert shell("layers", "build", "--json").json["report"]["made"] == 6


def test_ceiling_that_is_too_small_for_any_layer_says_what_would_do(shell: Shell) -> None:
    built = shell("layers", "build", "--max-tokens", "100", "--json")
    assert (built.code, built.json["report"]["stopped"], built.json["report"]["made"]) == (
        2,
        "max_tokens",
        0,
    )
    least = str(built.json["report"]["least"])
    assert f"--max-tokens is too small for any layer: the minimum is {least}" in built.err
    assert shell("layers", "build", "--max-tokens", least, "--json").json["report"]["made"] == 1


def test_name_of_nothing_is_not_found(shell: Shell) -> None:
    for dry in (["--dry-run"], []):
        refused = shell("layers", "build", *dry, "tpo.md")
        assert refused.code == 3
        assert "no document or folder 'tpo.md'" in refused.err
    assert shell("layers", "build", "--dry-run", "guide", "--json").json["artifacts"] == 8


def test_stale_layers_that_stay_are_reported(shell: Shell, server: ProviderServer) -> None:
    assert shell("layers", "build").code == 0
    shell.write("docs/top.md", "# Top\n\nAnother top.")
    shell("put", "docs")
    for dry in (["--dry-run"], []):
        told = shell("layers", "build", *dry, "--llm", "none").err
        assert "2 stale layers by another model kept (top.md)" in told
        assert "fresh" not in told


def test_calls_for_parts_of_long_documents_are_reported_as_the_most_there_are(shell: Shell) -> None:
    assert "about 10 calls" in shell("layers", "build", "--dry-run").err
    shell.write("docs/long.md", "A word. " * 10_000)
    shell("put", "docs")
    plan = shell("layers", "build", "--dry-run", "--json")
    parts = plan.json["cost"]["part_calls"]
    assert parts > 3
    assert f"up to {parts + 12} calls ({parts} for parts of long documents)" in (
        shell("layers", "build", "--dry-run").err
    )


def test_without_a_model_sentences_are_taken(shell: Shell, server: ProviderServer) -> None:
    built = shell("layers", "build", "--llm", "none", "--json")
    assert (built.code, built.json["report"]["made"]) == (0, 10)
    assert built.json["report"]["usage"] == []
    assert server.asked == []
    assert shell("layers", "build", "--dry-run", "--json").json["reasons"] == {"model": 10}


def test_missing_key_stops_only_what_needs_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRIPTYCH_LLM_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("TRIPTYCH_LLM_BASE_URL")
    asks_no_model = [
        ("search", "start"),
        ("status",),
        ("layers", "ledger"),
        ("list",),
        ("sync", "docs", "--dry-run"),
        ("layers", "build", "--dry-run"),
    ]
    for works in asks_no_model:
        assert shell(*works).code == 0, works
    refused = shell("layers", "build")
    assert refused.code == 2
    assert "OPENAI_API_KEY" in refused.err


def test_status_tells_the_model_and_not_its_key(shell: Shell) -> None:
    told = shell("status", "--json")
    settings = told.json["settings"]
    assert settings["llm"] == {"value": "openai:small", "source": "TRIPTYCH_LLM"}
    assert settings["llm_api_key"] == {"value": "set", "source": "TRIPTYCH_LLM_API_KEY"}
    assert KEY not in told.text + told.err


@pytest.mark.parametrize(
    "wrong",
    [
        ("build", "--max-cost", "3"),
        ("build", "--list"),
        ("build", "--dry-run", "--price-input", "3"),
        ("build", "--dry-run", "--llm", "nobody:x"),
        ("build", "--dry-run", "--price-input", "-1", "--price-output", "1"),
    ],
)
def test_invalid_options_are_refused(shell: Shell, wrong: tuple[str, ...]) -> None:
    assert shell("layers", *wrong).code == 2


def test_dataset_that_does_not_exist_is_reported(shell: Shell) -> None:
    for what in (["build", "--dry-run"], ["build"], ["ledger"]):
        assert shell("layers", *what, "--dataset", "nowhere").code == 3


@pytest.mark.parametrize("named", [True, False])
def test_as_many_calls_are_made_at_a_time_as_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    six = threading.Event()

    def answer(asked: Asked) -> Reply:
        if server.under_way >= 6:
            six.set()
        six.wait(10)
        return as_json({"choices": [{"message": {"content": "A line."}, "finish_reason": "stop"}]})

    with serving(answer) as server:
        shell = fresh_shell(tmp_path, monkeypatch)
        for number in range(8):
            shell.write(f"docs/{number}.md", f"# About {number}\n\nWords.\n")
        assert shell("put", "docs").code == 0
        monkeypatch.setenv("TRIPTYCH_LLM", "openai:small")
        monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{server.url}/v1")
        if not named:
            monkeypatch.setenv("TRIPTYCH_LLM_CONCURRENCY", "6")
        if named:
            assert shell("layers", "build", "--concurrency", "6").code == 0
        else:
            with triptych.open() as kb:
                builder = LayerBuilder(kb)
                assert builder.apply(builder.plan("default"), concurrency=8).made
        assert server.most_at_once == 6


def test_status_shows_no_secret_of_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/a.md", "# A\n")
    assert shell("put", "docs").code == 0
    for url in ("http://u:hidden@h", "http://u:hidden@h:abc", "http://h/v1?key=hidden"):
        monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", url)
        for how in ((), ("--json",)):
            told = shell("status", *how)
            assert told.code == 0
            assert "***" in told.text
            assert "hidden" not in told.text + told.err
        refused = shell("layers", "build", "--llm", "openai:small")
        assert refused.code == 2
        assert "hidden" not in refused.text + refused.err
