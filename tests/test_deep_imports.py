"""Tests import what a package exports: a test that reaches for a module is in the way of moving it.

``deep_imports.txt`` lists the modules that tests still import. It only shrinks: to write it again
after removing some, run this file as a program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROOTS = {
    "triptych": TESTS.parent / "knowledge/triptych",
    "triptych_backends": TESTS.parent / "backends/triptych_backends",
    "triptych_factory": TESTS.parent / "factory/triptych_factory",
    "triptych_adapters": TESTS.parent / "adapters/triptych_adapters",
}
LISTED = TESTS / "deep_imports.txt"


@cache
def place(module: str) -> Path | None:
    """The file of a module, or the folder of a package; None if it is neither."""
    base = ROOTS[module.partition(".")[0]].joinpath(*module.split(".")[1:])
    if (base / "__init__.py").exists():
        return base
    return base.with_suffix(".py") if base.with_suffix(".py").exists() else None


@cache
def exports(module: str) -> frozenset[str]:
    """The names that a package says it exports; none of a module.

    Read, not imported: some packages need an extra that may be missing here.
    """
    folder = place(module)
    if folder is None or not folder.is_dir():
        return frozenset()
    stub = folder / "__init__.pyi"
    tree = ast.parse((stub if stub.exists() else folder / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    names = [each for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names]
    return frozenset(each.asname for each in names if each.asname == each.name)


def imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The modules of this project that a file imports, each with a name out of it, or ""."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.startswith("triptych"))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("triptych"):
            yield from ((node.module or "", each.name) for each in node.names)


def deep_imports() -> set[str]:
    """The modules that some test imports and that no package exports."""
    found = set()
    for path in TESTS.rglob("*.py"):
        for module, name in set(imported(ast.parse(path.read_text()))):
            if name and name not in exports(module):
                inner = f"{module}.{name}"
                found.add(module if place(inner) is None else inner)
            elif not name and "." in module and not exports(module):
                found.add(module)
    return found


def test_tests_import_no_further_module_that_no_package_exports() -> None:
    listed = LISTED.read_text().split()
    assert deep_imports() == set(listed), "export the name, or test through one that is exported"


if __name__ == "__main__":
    LISTED.write_text("".join(f"{each}\n" for each in sorted(deep_imports())))
