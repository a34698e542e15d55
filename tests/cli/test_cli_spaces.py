"""``triptych admin spaces``: what is refused, and what it says; the how-to page runs the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from triptych_adapters.cli.session import Exit
from triptych_backends.embedders.hashing import HashEmbedder

SIGNATURE = HashEmbedder().signature


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/a.md", "# A\n\nApples.\n")
    shell.write("docs/b.md", "# B\n\nBread.\n")
    assert shell("put", "docs", "--embedder", "none").code == 0
    return shell


def test_dataset_without_vectors_takes_on_the_next_embedder(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("triptych.toml", 'next_embedder = "hash"')
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "none")
    filled = shell("admin", "spaces", "fill", "--json").json
    assert (filled["documents"], filled["embedded"], filled["lacking"]) == (2, 2, 0)
    assert filled["embed_sig"] == SIGNATURE
    rows = [["default", "none", "yes", "0", "0"], ["default", SIGNATURE, "no", "2", "0"]]
    assert shell("admin", "spaces", "list").rows == rows
    swapped = shell("admin", "spaces", "swap", "--json").json
    assert (swapped["swapped"], swapped["pending"]) == (True, 0)
    assert shell("search", "apples", "--mode", "vector", "--json").json["hits"]
    assert "serves the dataset 'default' already" in shell("admin", "spaces", "swap").err
    assert shell("admin", "spaces", "swap", "--back").code == Exit.NOT_FOUND
    assert shell("admin", "spaces", "drop", SIGNATURE).code == Exit.CONFLICT
    assert shell("admin", "spaces", "drop", "other").code == Exit.NOT_FOUND


def test_what_cannot_be_done_says_what_to_do(shell: Shell) -> None:
    ran = shell("admin", "spaces", "fill")
    assert ran.code == Exit.NOT_AVAILABLE
    assert "next_embedder names no embedder" in ran.err
    shell.write("triptych.toml", 'next_embedder = "auto"')
    assert "cannot be auto" in shell("admin", "spaces", "fill").err
    shell.write("triptych.toml", 'next_embedder = "hash"')
    assert shell("admin", "spaces", "fill", "--dataset", "none").code == Exit.NOT_FOUND
    both = shell("eval", "retrieval", "--beir", "x.zip", "--space", "next")
    assert "give GOLDEN" in both.err
