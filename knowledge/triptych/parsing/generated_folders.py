"""Well-known folders that hold installed or generated files, and no documents of anyone's own.

A name decides by itself only where nobody gives it to another folder. ``dist``, ``build``,
``target``, ``vendor`` and the like must lie beside a file of the tool that makes them. A file
inside marks environments and caches.
"""

from __future__ import annotations

from collections.abc import Callable, Container

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
