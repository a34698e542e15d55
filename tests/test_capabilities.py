"""What a store is capable of is asked in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import triptych
import triptych.contracts

ROOT = Path(triptych.__file__).parents[2]
SOURCES = ("knowledge", "backends", "factory", "adapters")
ONLY = "knowledge/triptych/repositories.py"
OF_REPOSITORIES = {
    "AnswerCache",
    "ChunkRepo",
    "ChunkSigReader",
    "CorpusStatsReader",
    "Diagnostics",
    "DocLevelSearcher",
    "DocVectorSearcher",
    "DocumentRepo",
    "LayerJournal",
    "LayerRepo",
    "SecureEraser",
    "SettingsStore",
    "SnapshotReader",
    "StateLoader",
    "Store",
    "VersionReader",
}


def test_whether_a_store_has_a_capability_is_asked_in_one_module_only() -> None:
    assert set(triptych.contracts.__all__) >= OF_REPOSITORIES
    asking = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                if node.func.id in ("isinstance", "issubclass", "first") and (
                    names & OF_REPOSITORIES
                ):
                    asking.add(path.relative_to(ROOT).as_posix())
    assert asking == {ONLY}
