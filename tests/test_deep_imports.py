"""Tests, and packages beside the core, import what a package exports: who reaches for a module is
in the way of moving it.

``deep_imports.txt`` lists the modules that tests still import. It only shrinks: to write it again
after removing some, run this file as a program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.packages import PACKAGES

TESTS = Path(__file__).parent
LISTED = TESTS / "deep_imports.txt"
CORE = {"triptych", "triptych_backends", "triptych_factory", "triptych_adapters"}


@cache
def place(module: str) -> Path | None:
    """The file of a module, or the folder of a package; None if it is neither."""
    base = PACKAGES[module.partition(".")[0]].joinpath(*module.split(".")[1:])
    if (base / "__init__.py").exists():
        return base
    return base.with_suffix(".py") if base.with_suffix(".py").exists() else None


@cache
def exports(module: str) -> frozenset[str]:
    """The names that a package says it exports, or a module that has a page in the reference; none
    of another module.

    Read, not imported: some packages need an extra that may be missing here.
    """
    folder = place(module)
    if folder is None:
        return frozenset()
    if not folder.is_dir():
        page = TESTS.parent / "docs/reference/api" / f"{module}.md"
        return frozenset(defined(folder) if page.exists() else ())
    stub = folder / "__init__.pyi"
    tree = ast.parse((stub if stub.exists() else folder / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    names = [each for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names]
    return frozenset(each.asname for each in names if each.asname == each.name)


def defined(file: Path) -> Iterator[str]:
    """The public names that a module defines."""
    for node in ast.parse(file.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [each.id for each in targets if isinstance(each, ast.Name)]
        names += [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
        yield from (each for each in names if not each.startswith("_"))


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
                if place(inner) is None:
                    found.add(module)
                elif not exports(inner):
                    found.add(inner)
            elif not name and "." in module and not exports(module):
                found.add(module)
    return found


def names_beside() -> set[str]:
    """The names that a package beside the core imports from the core, and that none exports."""
    return {
        f"{module} {name}".rstrip()
        for package, folder in PACKAGES.items()
        if package not in CORE
        for path in folder.rglob("*.py")
        for module, name in imported(ast.parse(path.read_text()))
        if module.partition(".")[0] in CORE and name and name not in exports(module)
        if not name.startswith("__") and not exports(f"{module}.{name}")
    }


def test_packages_beside_the_core_import_only_names_that_a_package_exports() -> None:
    assert names_beside() == set(), "export the name, or do without"


def test_no_name_that_a_package_imports_late_is_a_module_of_it() -> None:
    """Whoever imported the module before would get it in place of the name."""
    stubs = [stub for folder in PACKAGES.values() for stub in folder.rglob("__init__.pyi")]
    packages = [
        ".".join(stub.parent.relative_to(folder.parent).parts)
        for folder in PACKAGES.values()
        for stub in stubs
        if folder in stub.parents
    ]
    assert packages
    assert [
        f"{package}.{name}"
        for package in packages
        for name in exports(package)
        if place(f"{package}.{name}") is not None
    ] == []


def test_tests_import_no_further_module_that_no_package_exports() -> None:
    listed = LISTED.read_text().split()
    assert deep_imports() == set(listed), "export the name, or test through one that is exported"


if __name__ == "__main__":
    LISTED.write_text("".join(f"{each}\n" for each in sorted(deep_imports())))
