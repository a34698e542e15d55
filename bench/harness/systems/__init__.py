"""The systems that are measured, by name; nothing is imported before it is asked for."""

from __future__ import annotations

from importlib import import_module

from harness.system import System

NAMES = (
    "triptych",
    "txtai",
    "lancedb",
    "qdrant",
    "langchain",
    "llamaindex",
    "haystack",
    "chroma",
    "tantivy",
    "bm25s",
    "rank-bm25",
)
"""Triptych first, to whom ratios are taken; then those with both lanes; then single lanes."""

MORE = ("triptych-memory", "triptych-pure")
"""Measured only when named."""


VARIANTS: dict[str, dict[str, str]] = {
    "triptych-before": {},
    "triptych-pure": {"TRIPTYCH_PURE": "1"},
}
"""Triptych again: of the tree that ``--tree`` names, and without native kernels."""


def system_of(name: str) -> type[System]:
    name = "triptych" if name in VARIANTS else name
    module = import_module(f"harness.systems.{name.replace('-', '_')}_system")
    system: type[System] = module.SYSTEM
    return system
