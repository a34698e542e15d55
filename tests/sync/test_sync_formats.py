"""`triptych sync` over files of many formats: places in the files, and files that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell

NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Teapots\n"]},
        {"cell_type": "markdown", "metadata": {}, "source": ["A spout that drips.\n"]},
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write(
        "docs/kettle.html", "<nav>menu</nav><main><h1>Kettles</h1><p>It whistles.</p></main>"
    )
    shell.write("docs/pots.ipynb", json.dumps(NOTEBOOK))
    shell.write("docs/stock.csv", "item,count\nsaucer,3\nladle,5\n")
    shell.write("docs/cups.md", "---\ntitle: Cups\n---\n# Handles\n\nOne handle.\n")
    shell.write("docs/old.txt", "茶壶在厨房里，水已经开了。".encode("gb18030"))
    shell.write("docs/broken.ipynb", "{not json")
    return shell


def locator(shell: Shell, query: str) -> str | None:
    hit = shell("search", query, "--top-k", "1", "--json").json["hits"][0]
    return hit["locator"]


def test_hits_lead_back_to_the_place_in_the_file(shell: Shell) -> None:
    ran = shell("sync", "docs", "--json")
    counts = ran.json
    assert (counts["added"], len(counts["failed"])) == (5, 1)
    assert ran.code != 0  # a file failed
    assert [failure["name"] for failure in ran.json["failed"]] == ["broken.ipynb"]
    assert locator(shell, "spout drips") == "cells 1-2"
    assert locator(shell, "ladle") == "lines 2-3"
    found = shell("search", "whistles", "--json").json["hits"][0]
    assert found["doc_name"] == "kettle.html"
    assert "menu" not in found["content"]
    assert shell("search", "茶壶", "--json").json["hits"][0]["doc_name"] == "old.txt"


def test_an_unchanged_folder_is_not_parsed_again_and_a_repaired_file_is(shell: Shell) -> None:
    shell("sync", "docs")
    again = shell("sync", "docs", "--json").json
    assert (again["unchanged"], again["added"], again["embedded"]) == (5, 0, 0)
    assert len(again["failed"]) == 1
    shell.write("docs/broken.ipynb", json.dumps(NOTEBOOK).replace("Teapots", "Strainers"))
    repaired = shell("sync", "docs", "--json").json
    assert (repaired["added"], repaired["failed"]) == (1, [])
