"""The recipes of docs/how-to/frameworks.md, with the frameworks themselves: `make doors`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


_RUN = """
import sys
from pathlib import Path
from support.doc_pages import run_page
run_page(Path(sys.argv[1]), programs=Path(sys.argv[2]))
"""


def test_each_recipe_runs_and_prints_what_is_shown(tmp_path: Path) -> None:
    """In a process of its own: the frameworks leave event loops open."""
    (tmp_path / "here").mkdir()
    (tmp_path / "programs").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(PAGE), str(tmp_path / "programs")],
        cwd=tmp_path / "here",
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
