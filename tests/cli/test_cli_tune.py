"""``triptych eval tune --apply``: what it keeps, what ``status`` says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.servers import served
from support.valves import GOLDEN, NOTES, OTHERS

TUNE = ("eval", "tune", "golden.yaml", "--grid", "weights.vector=2", "--apply")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for name, text in {**NOTES, **OTHERS}.items():
        shell.write(f"docs/{name}", text)
    shell.write("golden.yaml", GOLDEN)
    assert shell("put", "docs", "--quiet").code == 0
    return shell


def test_a_gain_is_kept_shown_and_removed(shell: Shell) -> None:
    search = ("search", "valve above by", "--json")
    assert shell(*search).json["hits"][0]["doc_name"] != "above-by.md"
    ran = shell(*TUNE, "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["gained"], ran.json["applied"]) == (True, True)
    assert "kept: searches of 'default' use it" in ran.err
    assert shell(*search).json["hits"][0]["doc_name"] == "above-by.md"
    told = "dataset 'default': search settings tuned on "
    assert told in shell("status").err
    checks = shell("status", "--json").json["health"]
    (check,) = (each for each in checks if each["name"] == "search settings")
    assert check["detail"].startswith(told)
    assert "weights.vector=2, ndcg@10 0.0000 → 1.0000" in check["detail"]
    ran = shell("eval", "tune", "--reset")
    assert (ran.code, ran.out) == (0, b"")
    assert "'default' is not tuned any more" in ran.err
    assert told not in shell("status").err
    assert shell("eval", "tune", "--reset", "--json").json["dataset_id"] == "default"


def test_nothing_is_kept_without_a_gain_or_without_being_asked(shell: Shell) -> None:
    ran = shell(*TUNE[:3], "--grid", "weights.bm25=2", "--apply")
    assert ran.code == 0
    assert "nothing was kept: searches rank as before" in ran.err
    ran = shell(*TUNE[:-1], "--json")
    assert (ran.json["gained"], ran.json["applied"]) == (True, False)
    assert "search settings" not in shell("status").err


def test_weights_of_the_lanes_are_tried_where_no_grid_is_given(shell: Shell) -> None:
    choices = shell(*TUNE[:3], "--json").json["choices"]
    weights = [each["choice"].get("weights.vector") for each in choices]
    assert weights == [None, 0.25, 0.5, 1, 2, 3, 4]


def test_what_is_refused_says_what_to_do(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = shell("eval", "tune", "--apply")
    assert (ran.code, "name a golden set" in ran.err) == (2, True)
    shell.write("few.yaml", "".join(GOLDEN.splitlines(keepends=True)[:12]))
    ran = shell("eval", "tune", "few.yaml", "--apply")
    assert (ran.code, "an answer to 12 questions of the golden set" in ran.err) == (2, True)
    shell.write("gone.yaml", GOLDEN.replace(".md", ".txt"))
    ran = shell("eval", "tune", "gone.yaml", "--apply")
    assert (ran.code, "an answer to 0 questions of the golden set" in ran.err) == (2, True)
    ran = shell(*TUNE, "--grid", "top_k=3")
    assert (ran.code, "in the grid" in ran.err) == (2, True)
    ran = shell(*TUNE, "--embedder", "none")
    assert (ran.code, "`triptych embed` adds vectors" in ran.err) == (7, True)
    monkeypatch.setenv("TRIPTYCH_READ_ONLY", "true")
    ran = shell(*TUNE)
    assert (ran.code, "read" in ran.err) == (5, True)


def test_a_server_searches_by_what_was_kept_and_keeps_nothing_itself(shell: Shell) -> None:
    assert shell(*TUNE, "--quiet").code == 0
    with triptych.open(shell.store, embedder="hash") as kb, served(kb) as url:
        for command in (TUNE, ("eval", "tune", "--reset")):
            ran = shell("--store", url, *command)
            assert (ran.code, "open the store itself" in ran.err) == (7, True), ran.err
        ran = shell("--store", url, "search", "valve above by", "--json")
        assert ran.json["hits"][0]["doc_name"] == "above-by.md"
        assert "search settings tuned on" in shell("--store", url, "status").err
