"""``triptych search``, ``get``, ``list``, ``layers``: finding and reading."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell

GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide.md", GUIDE)
    shell.write("docs/other.md", "# Other\n\nNothing of the kind.\n")
    shell.write("more/extra.md", "# Extra\n\nRetries elsewhere.\n")
    assert shell("put", "docs", "-m", "lang=en").code == 0
    assert shell("put", "more", "-m", "lang=fr", "--dataset", "more").code == 0
    return shell


def found(shell: Shell, *arguments: str) -> list[str]:
    ran = shell("search", *arguments, "--json")
    assert ran.code == 0, ran.err
    return [f"{hit['dataset']}/{hit['name']}" for hit in ran.json["hits"]]


def test_a_hit_says_where_it_is_and_how_it_was_found(shell: Shell) -> None:
    ran = shell("search", "requests", "per", "second", "--json")
    assert ran.json["query"] == "requests per second"
    hit = ran.json["hits"][0]
    assert (hit["dataset"], hit["name"], hit["layer"]) == ("default", "guide.md", "L2")
    assert hit["line"] == 5
    assert hit["heading_path"] == ["Guide", "Limits"]
    assert set(hit["scores"]) == {"bm25", "vector"}
    assert hit["stale"] is None
    assert GUIDE[hit["start"] : hit["end"]] == hit["content"]


def test_for_people_a_hit_is_a_line_and_its_text(shell: Shell) -> None:
    ran = shell("search", "requests", "--mode", "bm25")
    first, second = ran.text.splitlines()[:2]
    assert first.startswith("1. guide.md:5  Guide > Limits  ")
    assert "(bm25 " in first
    assert second.startswith("   ")
    assert "\x1b" not in ran.text


def test_no_hits_is_an_answer(shell: Shell) -> None:
    ran = shell("search", "zebra", "--mode", "bm25")
    assert (ran.code, ran.out) == (0, b"")
    assert "no hits" in ran.err
    assert found(shell, "zebra", "--mode", "bm25") == []


def test_datasets_are_searched_one_by_one_or_all_together(shell: Shell) -> None:
    bm25 = ("retries", "--mode", "bm25")
    assert found(shell, *bm25) == ["default/guide.md"]
    assert found(shell, *bm25, "--dataset", "more") == ["more/extra.md"]
    assert sorted(found(shell, *bm25, "--all")) == ["default/guide.md", "more/extra.md"]


def test_where_narrows_and_a_key_given_twice_widens(shell: Shell) -> None:
    bm25 = ("retries", "--mode", "bm25", "--all")
    assert found(shell, *bm25, "--where", "lang=fr") == ["more/extra.md"]
    assert len(found(shell, *bm25, "-w", "lang=fr", "-w", "lang=en")) == 2
    assert found(shell, *bm25, "-w", "doc_prefix=gui") == ["default/guide.md"]


def test_where_takes_conditions_in_json(shell: Shell) -> None:
    given = '{"year": 2024, "day": {"$date": "2026-09-01"}, "tags": ["a", 1]}'
    assert (
        shell(
            "put", "docs/guide.md", "--name", "guide.md", "--metadata", given, "-m", "lang=en"
        ).code
        == 0
    )
    shown = shell("get", "guide.md", "--json").json["document"]["metadata"]
    assert shown == {**json.loads(given), "lang": "en"}
    bm25 = ("retries", "--mode", "bm25")
    for where in (
        '{"year": {"$gte": 2024}}',
        '{"day": {"$lt": {"$date": "2026-09-02"}}}',
        '{"$or": [{"tags": {"$contains": 1}}, {"lang": "fr"}]}',
    ):
        assert found(shell, *bm25, "--where", where) == ["default/guide.md"]
        assert found(shell, *bm25, "--where", where, "-w", "lang=fr") == []
    ran = shell("search", "retries", "--where", '{"year": ')
    assert (ran.code, "no JSON object" in ran.err) == (2, True)
    ran = shell("search", "retries", "--where", "day=>=2026-09-01")
    assert ran.code == 2
    assert "'$gte'" in ran.err
    assert shell("put", "docs/guide.md", "-m", '{"year": null}').code == 2


def test_documents_are_found_whole(shell: Shell) -> None:
    hits = shell("search", "retries", "--documents", "--json").json["hits"]
    assert hits[0]["name"] == "guide.md"
    assert (hits[0]["layer"], hits[0]["chunk"]) == (None, None)


def test_top_k_and_threshold_cut(shell: Shell) -> None:
    assert len(found(shell, "retries requests", "--top-k", "1")) == 1
    assert found(shell, "retries", "--threshold", "99") == []


@pytest.mark.parametrize(
    "options",
    [("--top-k", "0"), ("--mode", "magic"), ("--layer", "L9"), ("--where", "x"), ("--nope",)],
)
def test_what_cannot_be_meant_is_usage(shell: Shell, options: tuple[str, ...]) -> None:
    assert shell("search", "x", *options).code == 2


def test_an_unknown_dataset_is_not_found(shell: Shell) -> None:
    ran = shell("search", "x", "--dataset", "nope", "--json")
    assert ran.code == 3
    assert ran.json["error"]["exit_code"] == 3
    assert ran.err.startswith("error: ")


def test_a_store_that_is_not_there_is_not_made_by_reading(shell: Shell) -> None:
    for arguments in (("search", "x"), ("list",), ("get", "a"), ("rebuild",), ("delete", "a")):
        assert shell(*arguments, "--store", "missing.db").code == 3
    assert not Path("missing.db").exists()


def test_get_prints_what_is_known_and_not_found_is_told(shell: Shell) -> None:
    known = {row[0]: row[1] for row in shell("get", "guide.md", "--info").rows}
    assert known["size"] == str(len(GUIDE))
    assert known["metadata.lang"] == "en"
    assert "content" not in shell("get", "guide.md", "--info", "--json").json["document"]
    assert shell("get", "nope.md").code == 3


def test_list_pages_and_lists_datasets(shell: Shell) -> None:
    assert [row[0] for row in shell("list").rows] == ["guide.md", "other.md"]
    assert [row[0] for row in shell("list", "--limit", "1").rows] == ["guide.md"]
    assert [row[0] for row in shell("list", "--after", "guide.md").rows] == ["other.md"]
    assert [row[0] for row in shell("list", "--prefix", "o").rows] == ["other.md"]
    assert shell("list", "--datasets").text == "default\nmore\n"
    assert shell("list", "--datasets", "--json").json["datasets"] == ["default", "more"]
    documents = shell("list", "--json").json["documents"]
    assert documents[0]["size"] == len(GUIDE)


def test_layers_are_built_and_shown(shell: Shell) -> None:
    assert shell("layers", "show", "guide.md").code == 3
    assert shell("layers", "build").code == 0
    layers = shell("layers", "show", "guide.md", "--json").json["layers"]
    assert [layer["layer"] for layer in layers] == ["L0", "L1"]
    assert all(layer["stale"] is None for layer in layers)
    assert shell("layers", "show", "--dataset-layer", "--layer", "L0").text.strip()
    assert shell("search", "retries", "--layer", "L0", "--json").json["hits"][0]["layer"] == "L0"
    again = shell("layers", "build", "--json").json
    assert again["command"] == "layers build"
    assert (again["counts"]["made"], again["counts"]["failed"]) == (0, 0)


def test_a_layer_tells_that_its_document_has_changed(shell: Shell) -> None:
    shell("layers", "build")
    shell.write("docs/guide.md", GUIDE + "\nMore.\n")
    shell("put", "docs", "-m", "lang=en")
    layers = shell("layers", "show", "guide.md", "--json").json["layers"]
    assert {layer["stale"] for layer in layers} == {"source"}


@pytest.mark.parametrize(
    "arguments", [(), ("guide.md", "--dataset-layer"), ("guide.md", "--layer", "L2")]
)
def test_layers_show_needs_one_thing_to_show(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert shell("layers", "show", *arguments).code == 2
