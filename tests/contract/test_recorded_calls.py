"""The same calls have the same answers on every store: drawn ones, compared call by call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support.loaded import load
from support.postgres import PostgresServer

DIFFERS = {"beyond", "terms"}
"""What each store says of what purging it does not reach."""
EMBEDDED = re.compile(r"embedded \d+ texts of then")
"""Some stores keep vectors of texts that no document holds any more."""


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if key not in DIFFERS}
    if isinstance(value, str):
        return EMBEDDED.sub("embedded texts of then", value)
    return [without(each) for each in value] if isinstance(value, list) else value


def answers_alike(url: str, seed: int) -> None:
    tool = load("tools/recorded_calls.py")
    with tool.opened("memory://") as kb, tool.opened(url) as other:
        calls, others = tool.Calls(kb, seed), tool.Calls(other, seed)
        for _ in range(120):
            assert without(others.next()) == without(calls.next())


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scheme", ["sqlite", "files"])
def test_stores_answer_the_same_calls_alike(scheme: str, seed: int, tmp_path: Path) -> None:
    answers_alike(f"{scheme}:///{tmp_path / 'kb'}", seed)


def test_a_server_answers_the_same_calls_alike(postgres_server: PostgresServer) -> None:
    answers_alike(postgres_server.schema_url("recorded_calls"), 1)
