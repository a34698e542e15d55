"""The recipes of docs/how-to/frameworks.md, with the frameworks themselves: `make doors`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.doc_pages import run_page

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"
pytestmark = [pytest.mark.doors, pytest.mark.slow]
for _module in (
    "agents",
    "haystack",
    "langchain_core",
    "langgraph",
    "llama_index.core",
    "pydantic_ai",
    "smolagents",
):
    pytest.importorskip(_module, reason=f"{_module} is not installed: make doors")


@pytest.mark.filterwarnings("default")
def test_each_recipe_runs_and_prints_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "programs").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run_page(PAGE, programs=tmp_path / "programs")
