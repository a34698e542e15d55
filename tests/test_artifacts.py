"""The tool that builds, checks and uses what a release publishes."""

from __future__ import annotations

import os
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from support.loaded import load

ROOT = Path(__file__).parents[1]
ADDRESS = "https://code.example/triptych"
DATED = "## [1.2.0] - 2026-11-27\n"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load("tools/artifacts.py")


def test_the_readme_shows_commands_and_a_program_to_run(tool: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = tool.first_commands(readme)
    assert [each.split()[1] for each in commands] == ["add", "search", "search", "sync"]
    assert commands[1] == 'triptych search "what happens when a request fails"'
    program, output = tool.first_program(readme)
    assert program.startswith("import triptych\n")
    assert output.startswith("http.md:1 ")
    with pytest.raises(tool.ArtifactError, match="no program"):
        tool.first_program("# Nothing")


def test_builds_that_differ_are_named(tool: ModuleType, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
        (folder / "same").write_bytes(b"a")
        (folder / "other").write_bytes(folder.name.encode())
    (first / "only").write_bytes(b"")
    assert tool.differing(first, second) == ["only", "other"]
    assert tool.differing(first, first) == []


@pytest.mark.parametrize(
    ("repository", "changelog", "tag", "missing"),
    [
        (ADDRESS, DATED, "", []),
        (ADDRESS, DATED, "v1.2.0", []),
        ("", DATED, "", ["repository"]),
        ("http://code.example/x", DATED, "", ["repository"]),
        (ADDRESS, "## [1.2.0] - Unreleased\n", "", ["date"]),
        (ADDRESS, "## [1x2.0] - 2026-11-27\n", "", ["date"]),
        (ADDRESS, DATED, "v1.2.1", ["tag v1.2.1"]),
        (ADDRESS, DATED, "1.2.0", ["tag v1.2.0"]),
    ],
)
def test_what_a_release_lacks(
    tool: ModuleType, repository: str, changelog: str, tag: str, missing: list[str]
) -> None:
    found = tool.lacks({"version": "1.2.0"}, repository, changelog, tag)
    assert len(found) == len(missing)
    assert [told for told, word in zip(found, missing, strict=True) if word not in told] == []


def test_a_release_that_lacks_something_is_refused(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    without = pages.replace('repository = "', 'repository = "" # "')
    (tmp_path / "pyproject.toml").write_text(without, encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("", encoding="utf-8")
    with pytest.raises(tool.ArtifactError, match=r"(?s)no public address.*no date.*of version"):
        tool.ready(tmp_path, "v0")
    assert tool.main(["ready", "--tag", "v0"]) == 1
    assert "the tag v0 is not of version" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="the commands of a gate are of a POSIX shell")
def test_only_a_python_of_that_version_is_found(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As pyenv's: a command that says which versions have it, and a Python beside it.
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    for version in (here, "3.99", "3.99t"):
        (tmp_path / "shims").mkdir(exist_ok=True)
        shim = tmp_path / f"shims/python{version}"
        shim.write_text("#!/bin/sh\nexit 127\n")
        shim.chmod(0o755)
        real = tmp_path / f"versions/{version.removesuffix('t')}.1/bin/python{version}"
        real.parent.mkdir(parents=True, exist_ok=True)
        real.symlink_to(sys.executable)
    found = tool.found_pythons((here, "3.98", "3.99", "3.99t"))
    assert list(found) == ([] if sys.executable.endswith("t") else [here])


@pytest.mark.process
def test_files_of_a_checkout_are_not_those_of_an_environment(
    tool: ModuleType, tmp_path: Path
) -> None:
    for package in tool.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    foreign = tool.outside(Path(sys.executable).parent, tmp_path)
    assert foreign == [str(tmp_path / each / "__init__.py") for each in tool.PACKAGES]
    with pytest.raises(tool.ArtifactError, match="in the checkout"):
        tool.gate([], {}, ROOT / "build" / "gate")


def test_an_sdist_is_unpacked_into_its_tree(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with tarfile.open(tmp_path / "triptych-1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "README.md", "triptych-1/README.md")
    tree = tool.unpack(tmp_path / "triptych-1.tar.gz", tmp_path / "out")
    assert [each.name for each in tree.iterdir()] == ["README.md"]


@pytest.mark.process
def test_a_program_that_fails_tells_all_it_said(tool: ModuleType) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    with pytest.raises(tool.ArtifactError, match=r"(?s)exit code 3 of: .*(out|err)\n(out|err)"):
        tool.run([sys.executable, "-c", code])
