"""What grows with its input, and must not grow with its square."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

from support.rows import each_row

ROOT = Path(__file__).parents[1]
_LOOKS_IN_MADE = re.compile(
    r"\bin\s+(?:(?:set|frozenset|list|sorted)\(|[\w.()]*union\(|[{\[][^}\]]*(?:\*|\bfor\b))"
)
"""What every such line has; a file without it need not be parsed."""
PACKAGES = ("knowledge", "backends", "factory", "adapters")


def made_anew(source: str) -> Iterator[str]:
    """Collections that are made for each item, to look for it: ``x not in {*a, *b}``."""
    if _LOOKS_IN_MADE.search(source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST] = []
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            parts = [each for part in node.generators for each in part.ifs]
        elif isinstance(node, ast.For | ast.While):
            parts = [*node.body]
        made_in_it = [
            (found, made)
            for found in (each for part in parts for each in ast.walk(part))
            if isinstance(found, ast.Compare)
            for how, made in zip(found.ops, found.comparators, strict=True)
            if isinstance(how, ast.In | ast.NotIn) and _is_made(made)
        ]
        if not made_in_it:
            continue
        # What is made of the item itself has to be.
        own = {each.id for each in ast.walk(node) if _is_bound(each)}
        for found, made in made_in_it:
            used = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
            inner = {each.id for each in ast.walk(made) if _is_bound(each)}
            if not used & (own - inner):
                yield f"line {found.lineno}: {ast.unparse(found)}"


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_made(node: ast.AST) -> bool:
    if isinstance(node, ast.Set | ast.List):
        return any(isinstance(each, ast.Starred) for each in node.elts)
    if isinstance(node, ast.Call):
        named = getattr(node.func, "id", getattr(node.func, "attr", ""))
        return named in {"set", "frozenset", "list", "sorted", "union"}
    return isinstance(node, ast.SetComp | ast.ListComp)


@each_row(
    "source",
    [
        "[x for x in a if x not in {*b, *c}]",
        "[x for x in a if x in set(b)]",
        "for x in a:\n    if x in {y for y in b}:\n        pass",
        "for x in a:\n    if x in b.union(c):\n        pass",
    ],
)
def test_the_rule_finds_them(source: str) -> None:
    assert list(made_anew(source))
    assert not list(made_anew("[x for x in a if x in b and x in {1, 2}]"))


@each_row("package", PACKAGES)
def test_no_collection_is_made_anew_for_each_item(package: str) -> None:
    assert {
        file.relative_to(ROOT).as_posix(): found
        for file in (ROOT / package).rglob("*.py")
        if "testing" not in file.parts and (found := list(made_anew(file.read_text("utf-8"))))
    } == {}
