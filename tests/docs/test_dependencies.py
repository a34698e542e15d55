"""docs/explanation/dependencies.md against pyproject.toml, and against what is installed."""

from __future__ import annotations

import re
import runpy
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools/check_wheels.py"))
SPDX = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",  # of Jinja2, whose LICENSE.txt has three clauses
    "MIT License": "MIT",
    "MIT, BSD": "MIT AND BSD-3-Clause",
    "BSD-3-Clause, Apache-2.0, dependency licenses": "BSD-3-Clause AND Apache-2.0",
}
"""Licences that a package names in words of its own."""


def rows(head: str) -> list[list[str]]:
    """The rows of the table whose first column is called ``head``."""
    table = PAGE.partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[each.strip() for each in line.strip("|").split("|")] for line in table]


def required() -> set[tuple[str, str]]:
    """(package, extra) of all that a person may install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"–": project["dependencies"], **project["optional-dependencies"]}
    return {
        (re.split(r"[\[<>=;~! ]", requirement)[0], extra)
        for extra, requirements in groups.items()
        if extra not in ("all", "dev", "notes")
        for requirement in requirements
    }


def licence_of(package: str) -> str:
    """The SPDX expression of an installed package."""
    found = metadata.metadata(package)
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in found.get_all("Classifier", [])
        if each.startswith("License :: OSI Approved")
    ]
    said = found.get("License-Expression") or (found.get("License") or "").partition("\n")[0]
    said = said or " AND ".join(classifiers)
    return SPDX.get(said, said)


def test_the_page_has_what_is_required_and_nothing_else() -> None:
    listed = [(row[0], row[1]) for row in rows("package")]
    assert sorted(listed) == sorted(required())
    assert all(all(row) for row in rows("package"))


@pytest.mark.parametrize(("package", "licence"), [(row[0], row[3]) for row in rows("package")])
def test_a_licence_is_that_of_the_installed_package(package: str, licence: str) -> None:
    try:
        assert licence == licence_of(package)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed here")


def test_rank_bm25_is_for_tests_alone_and_under_the_licence_that_the_page_names() -> None:
    assert "rank-bm25 (Apache-2.0," in PAGE
    assert metadata.metadata("rank-bm25")["License"] == "Apache2.0"
    assert "rank-bm25" not in {package for package, _ in required()}


def test_the_table_of_wheels_is_that_of_the_tool() -> None:
    assert [row[0].split()[0] for row in rows("newest release")] == list(TOOL["CHECKED"])


FILES = {
    "a_b-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    "a_b-1.0-cp39-abi3-macosx_11_0_universal2.whl",
    "a_b-2.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "a_b-2.0-cp312-cp312t-win_amd64.whl",
    "a_b-2.0-cp312-cp312-musllinux_1_2_aarch64.whl",
    "a_b-3.0rc1-py3-none-any.whl",
    "other-3.0-py3-none-any.whl",
    "a_b-2.0.tar.gz",
}


def test_a_cell_names_the_last_release_with_a_wheel() -> None:
    assert TOOL["row"]("A.b", TOOL["wheels"]("A.b", FILES)) == (
        "| A.b 2.0 | 3.11: 1.0, 3.13: –, 3.14: –, 3.15: – | – | 1.0 | 1.0 | – | – |"
    )
    pure = TOOL["wheels"]("a", ["a-1-py3-none-any.whl"])
    assert TOOL["row"]("a", pure) == "| a 1 | ✓ | ✓ | ✓ | ✓ | ✓ | ✓ |"
