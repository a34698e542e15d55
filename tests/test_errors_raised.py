"""Every error of the tree is raised somewhere: a caller catches nothing in vain."""

from __future__ import annotations

import ast
from pathlib import Path

from triptych import errors

ROOT = Path(__file__).parents[1]
SOURCES = [
    ROOT / "knowledge/triptych",
    ROOT / "backends/triptych_backends",
    ROOT / "factory/triptych_factory",
    ROOT / "adapters/triptych_adapters",
]


def made_in(path: Path) -> set[str]:
    """The names of what is called in a module: an error is raised where it is made, or later."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in calls
        if isinstance(node, ast.Name | ast.Attribute)
    }


def test_every_error_is_raised_somewhere() -> None:
    made: set[str] = set()
    for source in SOURCES:
        for path in source.rglob("*.py"):
            if "testing" not in path.parts:
                made |= made_in(path)
    # The root stands for an error of elsewhere that came over the wire.
    assert set(errors.__all__) - made == set()
