"""The same calls have the same answers on every store: drawn ones, compared call by call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import triptych
from support.loaded import load
from support.postgres import PostgresServer

DIFFERS = {"beyond", "terms"}
"""What each store says of what purging it does not reach."""


def without(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without(each) for key, each in value.items() if key not in DIFFERS}
    return [without(each) for each in value] if isinstance(value, list) else value


def answers_alike(url: str, seed: int) -> None:
    tool = load("tools/recorded_calls.py")
    given: Any = {"embedder": "hash", "llm": tool.Model(), "sparse_encoder": tool.Sparse()}
    with triptych.open("memory://", **given) as kb, triptych.open(url, **given) as other:
        calls, others = tool.Calls(kb, seed), tool.Calls(other, seed)
        for _ in range(120):
            assert without(others.next()) == without(calls.next())


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scheme", ["sqlite", "files"])
def test_stores_answer_the_same_calls_alike(scheme: str, seed: int, tmp_path: Path) -> None:
    answers_alike(f"{scheme}:///{tmp_path / 'kb'}", seed)


def test_a_server_answers_the_same_calls_alike(postgres_server: PostgresServer) -> None:
    answers_alike(postgres_server.schema_url("recorded_calls"), 1)
