"""Names, categories and generated folders of files to import, and skipped files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container
from pathlib import Path, PurePosixPath

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Skipped:
    """A file or folder (``name`` ends in a slash) that was skipped, and why."""

    name: str
    reason: str


def name_of(path: Path) -> str:
    """The document name of a file that is named itself: the path it was given by.

    It is taken from the current directory; a file outside of it has its last part alone.
    """
    plain = PurePosixPath(Path(os.path.normpath(path)).as_posix())
    if plain.is_absolute() or ".." in plain.parts:
        here = Path.cwd()
        absolute = Path(os.path.normpath(here / path))
        return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else path.name
    return str(plain)


PICTURES = frozenset((".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"))
"""The endings of pictures, which only character recognition reads."""

DEFAULT_CATEGORY = "documentation"

CATEGORIES: dict[str, frozenset[str]] = {
    "ui-component": frozenset(("ui", "component", "components", "widget", "widgets")),
    "brand": frozenset(("brand", "brands", "branding", "logo", "logos", "mascot")),
    "product-brief": frozenset(("brief", "briefs")),
    "help-doc": frozenset(("help", "faq", "faqs", "support", "troubleshooting")),
    "task": frozenset(("task", "tasks", "todo", "todos", "plan", "plans", "roadmap", "backlog")),
    "architecture": frozenset(("architecture", "adr", "adrs", "rfc", "rfcs", "migrations")),
}
"""The words of each category. Where a path has words of several, the first category wins."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W\d_]+")


def category(path: str) -> str:
    """The category of a document at ``path``, "documentation" where no word says otherwise.

    Words are whole ones, in any case. Whatever is no letter separates them, and so does an inner
    capital: "tasks/a.md" and "MyTasks.md" are tasks, "explanation.md" is no plan.
    """
    words = {word.lower() for word in _WORD.findall(_INNER_CAPITAL.sub(" ", path))}
    for name, keywords in CATEGORIES.items():
        if words & keywords:
            return name
    return DEFAULT_CATEGORY


PACKAGES, CACHE = "installed packages", "a cache"
ENVIRONMENT, OUTPUT = "a virtual environment", "generated files"
GENERATED = frozenset((PACKAGES, CACHE, ENVIRONMENT, OUTPUT))
"""The reasons under which such folders are skipped."""

_BY_NAME = {
    "node_modules": PACKAGES,
    "bower_components": PACKAGES,
    "jspm_packages": PACKAGES,
    "site-packages": PACKAGES,
    "__pypackages__": PACKAGES,
    "__pycache__": CACHE,
}
_BY_ENDING = {".egg-info": PACKAGES, ".dist-info": PACKAGES}

_NODE = ("package.json",)
_PYTHON = ("pyproject.toml", "setup.py", "setup.cfg")
_GRADLE = ("build.gradle", "build.gradle.kts")
_BESIDE = {
    "dist": (OUTPUT, (*_NODE, *_PYTHON)),
    "build": (OUTPUT, (*_NODE, *_PYTHON, *_GRADLE, "CMakeLists.txt")),
    "coverage": (OUTPUT, _NODE),
    "htmlcov": (OUTPUT, _PYTHON),
    "target": (OUTPUT, ("Cargo.toml", "pom.xml", "build.sbt")),
    "_build": (OUTPUT, ("conf.py", "mix.exs", "_config.yml")),
    "deps": (PACKAGES, ("mix.exs",)),
    "_site": (OUTPUT, ("_config.yml",)),
    "site": (OUTPUT, ("mkdocs.yml", "mkdocs.yaml")),
    "public": (OUTPUT, ("hugo.toml", "hugo.yaml", "hugo.json")),
    "book": (OUTPUT, ("book.toml",)),
    "vendor": (PACKAGES, ("go.mod", "composer.json")),
    "Pods": (PACKAGES, ("Podfile",)),
}
"""By a folder's name: what it is beside one of these files."""

MARKERS_INSIDE = {"pyvenv.cfg": ENVIRONMENT, "conda-meta": ENVIRONMENT, "CACHEDIR.TAG": CACHE}
"""What is inside of a virtual environment of Python or Conda, or of a cache
(https://bford.info/cachedir/)."""


def generated_kind(name: str, beside: Container[str], inside: Callable[[str], bool]) -> str:
    """What a folder is, one of `GENERATED`, or "" when it may be somebody's own.

    Args:
        name: its own name.
        beside: the names beside it; asked only for `markers_beside` of the name.
        inside: whether the folder has an entry of this name.
    """
    kind = _BY_NAME.get(name) or _BY_ENDING.get(name[name.rfind(".") :], "")
    if kind:
        return kind
    kind, markers = _BESIDE.get(name, ("", ()))
    if any(marker in beside for marker in markers):
        return kind
    return next((found for marker, found in MARKERS_INSIDE.items() if inside(marker)), "")


def markers_beside(name: str) -> tuple[str, ...]:
    """The files beside a folder of this name that make it generated."""
    return _BESIDE.get(name, ("", ()))[1]


def folders_beside(marker: str) -> tuple[str, ...]:
    """The names of folders that a file of this name, beside them, makes generated."""
    return tuple(name for name, (_, markers) in _BESIDE.items() if marker in markers)
