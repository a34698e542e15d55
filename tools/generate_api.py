"""Write the API reference and the site's nav: `python tools/generate_api.py` renews both.

A page has the public names of one module, in the order of their list: those of each package's
``__all__``, and of each module in `MODULES` what it defines without an underscore. The site's
generator (`make docs`) puts signatures and docstrings in place of the lines that begin with `:::`.
A name that several modules list is described once, where a program would import it from. A test
compares what is committed with what this writes.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
API = DOCS / "reference" / "api"
SITE = ROOT / "mkdocs.yml"
SOURCES = {
    file.parent.name: folder
    for folder in ("knowledge", "factory", "backends", "adapters")
    for file in sorted((ROOT / folder).glob("*/__init__.py"))
}
"""The distribution's packages and their folders, in the order of the pages."""
MODULES = (
    "triptych.access.proposals",
    "triptych.contracts.defaults",
    "triptych.contracts.rules",
    "triptych.deadlines",
    "triptych.derivation.versions",
    "triptych.installation",
    "triptych.layers.generation",
    "triptych.living_documents",
    "triptych.proposals",
    "triptych.question_log",
    "triptych.records.serialization",
    "triptych.search.fusion",
    "triptych.search.result_formats",
    "triptych.shortcuts",
    "triptych.signatures",
    "triptych.telemetry",
    "triptych_testing.builders",
    "triptych_testing.fakes",
    "triptych.transfer",
    "triptych_factory.llms",
    "triptych_backends.watching",
    "triptych_frameworks.graph",
    "triptych_server.mcp.agents",
    "triptych_server.mcp.configuration",
    "triptych_server.mcp.http",
    "triptych_server.mcp.server",
    "triptych_adapters.progress",
    "triptych_adapters.related",
    "triptych_adapters.wire.errors",
)
"""Modules whose names programs import, and that are no package with a list of its own."""
INTERNAL = re.compile(
    r"triptych\.scan\b|triptych_backends\.(index|sql)\b|triptych_adapters\.cli\b"
    r"|triptych_server\.console\b|.*\._"
)
"""Packages whose names are for Triptych's own packages: they and all below them have no page."""

_INDEX = """# API

Every public name is on the page of the module that a program imports it from. The site shows
signatures and docstrings there; without it, `help(triptych.Service)` does.

| module | holds |
|---|---|
"""


def main() -> None:
    """Renew the pages and the nav; remove the pages of modules that are gone."""
    API.mkdir(exist_ok=True)
    written = pages()
    for old in API.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (API / name).write_text(text, encoding="utf-8")
    SITE.write_text(nav(), encoding="utf-8")


def pages() -> dict[str, str]:
    """The text of each page, by file name."""
    homes: dict[tuple[str, object], str] = {}
    found = {"README.md": ""}
    rows = []
    for module, names in public_names().items():
        rows.append(f"| [`{module}`]({module}.md) | {_first_sentence(module)} |")
        own, elsewhere = [], []
        for name, identity in names.items():
            home = homes.setdefault((name, identity), module)
            (own if home == module else elsewhere).append((name, home))
        parts = [f"# `{module}`", _first_sentence(module)]
        if elsewhere:
            links = ", ".join(f"[`{name}`]({home}.md#{home}.{name})" for name, home in elsewhere)
            parts.append(f"Also here, described where it is listed first: {links}.")
        parts += [f"::: {module}.{name}" for name, _ in own]
        found[f"{module}.md"] = "\n\n".join(parts) + "\n"
    found["README.md"] = _INDEX + "\n".join(rows) + "\n"
    return found


def nav() -> str:
    """The site's configuration, its nav as the sections and links of the start page have it."""
    before, found, _ = SITE.read_text(encoding="utf-8").partition("nav:\n")
    start = (DOCS / "README.md").read_text(encoding="utf-8")
    lines = ["  - README.md"]
    seen = set()
    for section in start.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        lines.append(f"  - {title}:")
        for page in re.findall(r"\]\(([\w/.-]+\.md)\)", body):
            if page in seen:
                continue
            seen.add(page)
            if page == "reference/api/README.md":
                lines.append("      - API:")
                lines += [f"          - reference/api/{name}" for name in pages()]
            else:
                lines.append(f"      - {page}")
    return before + found + "\n".join(lines) + "\n"


@functools.cache
def public_names() -> dict[str, dict[str, object]]:
    """The public names of each module, each with what tells it from another of that name."""
    found = {}
    for module in _modules():
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError:  # a framework that is not installed: its list is read
            found[module] = dict.fromkeys(_listed(module), module)
            continue
        if module in MODULES:
            names = [
                name
                for name, value in vars(loaded).items()
                if not name.startswith("_")
                and (inspect.isclass(value) or inspect.isfunction(value))
                and value.__module__ == module
            ]
        else:
            names = list(loaded.__all__)
        found[module] = {name: id(getattr(loaded, name)) for name in names}
    return found


def _modules() -> Iterator[str]:
    for package, folder in SOURCES.items():
        below = pkgutil.walk_packages([str(ROOT / folder / package)], f"{package}.")
        for name in sorted((package, *(each.name for each in below))):
            if not INTERNAL.match(name) and (name in MODULES or _listed(name)):
                yield name


def _file(module: str) -> Path:
    path = ROOT / SOURCES[module.partition(".")[0]] / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _listed(module: str) -> list[str]:
    """What `__all__` of a package holds; of a lazy one, and of one without, see `public_names`."""
    text = _file(module).read_text(encoding="utf-8")
    if "lazy_exports(__name__" in text:
        return ["__all__"]
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def _first_sentence(module: str) -> str:
    doc = ast.get_docstring(ast.parse(_file(module).read_text(encoding="utf-8"))) or ""
    return " ".join(doc.partition("\n\n")[0].split())


if __name__ == "__main__":
    main()
