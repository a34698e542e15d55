"""The semantic cache on the command line: where an answer comes from, and how often it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import fresh_shell
from support.trusted import write_trusted


def test_an_answer_from_the_cache_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/a.md", "# A\n\nApples are red.\n")
    assert shell("put", "docs").code == 0
    first = shell("search", "red apples")
    assert "semantic cache" not in first.err
    assert shell("status", "--json").json["cache"] is None
    write_trusted(shell.directory, "semantic_cache = {threshold = 0.95, hours = 1}")
    assert "semantic cache" not in shell("search", "red apples").err
    again = shell("search", "red apples")
    assert "from the semantic cache: a question asked before is 1.00 near" in again.err
    assert again.text == first.text
    ran = shell("search", "red apples", "--json")
    assert ran.json["cache_similarity"] == pytest.approx(1.0)
    assert shell("status", "--json").json["cache"] == {"entries": 1, "hits": 2, "misses": 1}
    assert "semantic cache: 1 answer kept, 2 hits, 1 miss" in shell("status").err
    shell.write("docs/a.md", "# A\n\nApples are green.\n")
    assert shell("put", "docs").code == 0
    assert shell("status", "--json").json["cache"]["entries"] == 0
