"""Every error of the tree is raised somewhere: a caller catches nothing in vain."""

from __future__ import annotations

import ast

from support.packages import PACKAGES
from triptych import errors


def made_in(text: str) -> set[str]:
    """The names of what is called in a module: an error is raised where it is made, or later."""
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in calls
        if isinstance(node, ast.Name | ast.Attribute)
    }


def test_every_error_is_raised_somewhere() -> None:
    unseen = set(errors.__all__)
    for source in PACKAGES.values():
        for path in source.rglob("*.py"):
            if not {"testing", "triptych_testing"} & {*path.parts}:
                text = path.read_text(encoding="utf-8")
                if any(f"{name}(" in text for name in unseen):
                    unseen -= made_in(text)
    # The root stands for an error of elsewhere that came over the wire.
    assert unseen == set()
