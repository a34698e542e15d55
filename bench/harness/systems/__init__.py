"""The systems that are measured, by name; nothing is imported before it is asked for."""

from __future__ import annotations

from importlib import import_module

from harness.system import System

NAMES = (
    "triptych",
    "txtai",
    "lancedb",
    "langchain",
    "llamaindex",
    "chroma",
    "tantivy",
    "bm25s",
    "rank-bm25",
)
"""Triptych first, to whom ratios are taken; then those with both lanes; then single lanes."""

MORE = ("triptych-memory",)
"""Measured only when named."""


def system_of(name: str) -> type[System]:
    module = import_module(f"harness.systems.{name.replace('-', '_')}_system")
    system: type[System] = module.SYSTEM
    return system
