"""``triptych list --pipelines``, and ``--pipeline``."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from support.trusted import write_trusted

TABLES = """
[pipelines.french]
description = "What is in French"
where = { lang = "fr" }
top_k = 1
token_budget = 77

[pipelines.guide]
datasets = ["guide"]
lanes = ["bm25"]
rewriters = ["fragments"]
postprocessors = [{ name = "per-document", most = 1 }]

[pipelines.lost]
datasets = ["guide", "nowhere"]
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for dataset, lang in (("guide", "en"), ("notes", "fr")):
        shell.write(f"{dataset}/a.md", f"# {dataset}\n\nRetries back off.\n")
        shell.write(f"{dataset}/b.md", f"# {dataset}\n\nRetries, again and again.\n")
        assert shell("put", dataset, "-m", f"lang={lang}", "--dataset", dataset).code == 0
    shell.write("triptych.toml", TABLES)
    return shell


def found(shell: Shell, *arguments: str) -> list[str]:
    ran = shell("search", "retries", *arguments, "--json")
    assert ran.code == 0, ran.err
    return [f"{hit['dataset_id']}/{hit['doc_name']}" for hit in ran.json["hits"]]


def test_search_by_a_pipeline(shell: Shell) -> None:
    assert len(found(shell)) == 4
    assert len(found(shell, "--pipeline", "french")) == 1
    assert set(found(shell, "--pipeline", "french", "-n", "9")) == {"notes/a.md", "notes/b.md"}
    assert found(shell, "--pipeline", "french", "-n", "9", "--where", "lang=en") == []
    assert set(found(shell, "--pipeline", "guide")) == {"guide/a.md", "guide/b.md"}
    ran = shell("search", "retries", "--pipeline", "guide", "--why", "guide/a.md")
    assert ran.code == 0, ran.err


def test_context_by_a_pipeline(shell: Shell) -> None:
    pack = shell("context", "retries", "--pipeline", "french", "--json").json
    assert pack["budget"] == 77
    assert {piece["citation"]["dataset_id"] for piece in pack["pieces"]} == {"notes"}
    given = shell("context", "retries", "--pipeline", "french", "-b", "99", "--json").json
    assert given["budget"] == 99
    assert shell("context", "retries", "--json").json["budget"] == 2000


def test_a_dataset_that_is_not_the_pipelines_is_refused(shell: Shell) -> None:
    ran = shell("search", "retries", "--pipeline", "guide", "--dataset", "notes")
    assert ran.code == 2
    assert "searches guide" in ran.err


def test_an_unknown_pipeline_is_named(shell: Shell) -> None:
    ran = shell("search", "retries", "--pipeline", "guides")
    assert ran.code == 3
    assert "no pipeline is called 'guides': did you mean 'guide'?" in ran.err


def test_pipelines_lists_and_checks_them(shell: Shell) -> None:
    ran = shell("list", "--pipelines")
    assert ran.code == 1
    assert ran.text == (
        "french  What is in French\n"
        "    lanes: bm25, vector\n"
        "    token budget: 77\n"
        "    where: {'lang': 'fr'}\n"
        "    top_k: 1\n"
        "guide\n"
        "    datasets: guide\n"
        "    rewriters: FragmentRewriter\n"
        "    lanes: bm25\n"
        "    postprocessors: PerDocument\n"
        "    token budget: 2000\n"
        "lost\n"
        "    cannot be used: there is no dataset 'nowhere'\n"
        "    datasets: guide, nowhere\n"
        "    lanes: bm25, vector\n"
        "    token budget: 2000\n"
    )
    listed = shell("list", "--pipelines", "--json").json["pipelines"]
    assert [each["name"] for each in listed] == ["french", "guide", "lost"]
    assert [each["problem"] for each in listed[:2]] == [None, None]
    assert listed[1]["rewriters"] == ["FragmentRewriter"]


def test_the_lanes_that_run_are_listed(shell: Shell) -> None:
    shell.write("triptych.toml", '[pipelines.words]\nmode = "bm25"\n[pipelines.both]\ntop_k = 3\n')
    words, both = shell("list", "--pipelines", "--json").json["pipelines"]
    assert (words["lanes"], both["lanes"]) == (["bm25"], ["bm25", "vector"])
    words, both = shell("list", "--pipelines", "--json", "--embedder", "none").json["pipelines"]
    assert (words["lanes"], both["lanes"]) == (["bm25"], ["bm25"])


def test_a_pipeline_with_a_mistake_breaks_no_other_command(shell: Shell) -> None:
    write_trusted(Path.cwd(), '[pipelines.good]\ntop_k = 1\n[pipelines.bad]\nllm = "anthropic:x"\n')
    assert len(found(shell)) == 4
    assert len(found(shell, "--pipeline", "good")) == 1
    ran = shell("list", "--pipelines")
    assert ran.code == 1
    assert "ANTHROPIC_API_KEY" in ran.text


def test_without_pipelines_there_is_a_hint(shell: Shell) -> None:
    shell.write("triptych.toml", "")
    ran = shell("list", "--pipelines")
    assert (ran.code, ran.out) == (0, b"")
    assert "[pipelines.NAME]" in ran.err
