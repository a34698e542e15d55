"""Which files of a folder are taken."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from triptych.errors import ValidationError
from triptych.sync import SyncOptions
from triptych.sync.patterns import compile_patterns
from triptych.sync.scanner import Scanner


def make(root: Path, *names: str, **contents: str) -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(contents.get(name, "text"))


def taken(root: Path, **options: object) -> list[str]:
    """The walk's answer, which the look-up of each single file must agree with."""
    scanner = Scanner(root, SyncOptions(**options), lambda name: name.endswith(".md"))  # type: ignore[arg-type]  # by name
    found = sorted(scanner.scan().files)
    for folder, _, names in os.walk(root, followlinks=False):
        for name in names:
            relative = (Path(folder) / name).relative_to(root).as_posix()
            assert list(scanner.look(relative).files) == [relative] * (relative in found)
    for relative in found:
        assert list(scanner.look(relative).files) == [relative]
    return found


def reasons(root: Path, **options: object) -> dict[str, str]:
    scanner = Scanner(root, SyncOptions(**options), lambda name: name.endswith(".md"))  # type: ignore[arg-type]  # by name
    return {each.name: each.reason for each in scanner.scan().skipped}


def test_hidden_files_and_folders_and_other_endings_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.exe", ".c.md", ".d/e.md", "f/g.md", "f/.h/i.md", "noending")
    assert taken(tmp_path) == ["a.md", "f/g.md"]
    assert reasons(tmp_path) == {
        "b.exe": "ends in .exe",
        ".c.md": "hidden",
        ".d/": "hidden",
        "f/.h/": "hidden",
        "noending": "has no ending",
    }


def test_patterns_include_and_exclude(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.py", "src/c.py", "src/d.md", "old/e.py")
    assert taken(tmp_path, include=["*.py"]) == ["b.py", "old/e.py", "src/c.py"]
    assert taken(tmp_path, include=["/src/"], exclude=["*.md"]) == ["src/c.py"]
    assert taken(tmp_path, exclude=["src/"]) == ["a.md"]
    with pytest.raises(ValidationError, match="not a valid pattern"):
        Scanner(tmp_path, SyncOptions(include=["!"]), lambda name: True)


def test_ignore_files_hold_for_their_folder_and_nearer_ones_win(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "b.md", "in/a.md", "in/b.md", "in/c.md", "out/a.md", "out/deep/b.md")
    (tmp_path / ".gitignore").write_text("b.md\nout/\n")
    (tmp_path / "in" / ".gitignore").write_text("!b.md\n/a.md\n")
    (tmp_path / "in" / ".triptychignore").write_text("c.md\n")
    (tmp_path / "out" / ".gitignore").write_text("!a.md\n")
    assert taken(tmp_path) == ["a.md", "in/b.md"]
    (tmp_path / "in" / ".triptychignore").write_text("!a.md\n!!\n")
    assert taken(tmp_path) == ["a.md", "in/a.md", "in/b.md", "in/c.md"]


def test_ignore_files_above_the_root_hold_within_a_work_tree(tmp_path: Path) -> None:
    make(tmp_path, "repo/docs/a.md", "repo/docs/build/b.md", "repo/docs/draft.md")
    (tmp_path / ".gitignore").write_text("a.md\n")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / ".gitignore").write_text("docs/build/\ndraft*\n")
    assert taken(tmp_path / "repo" / "docs") == ["a.md"]
    (tmp_path / "repo" / ".gitignore").write_text("docs/\ndraft*\n")
    assert taken(tmp_path / "repo" / "docs") == ["a.md", "build/b.md", "draft.md"]


def test_links_stay_in_the_root_and_do_not_go_in_circles(tmp_path: Path) -> None:
    root = tmp_path / "root"
    make(root, "a.md", "deep/b.md", "deep/er/c.md", ".hidden/d.md")
    make(tmp_path, "outside.md", "out/e.md")
    links = {
        "file.md": "a.md",
        "out.md": "../outside.md",
        "outdir": "../out",
        "up": ".",
        "deep/er/top": "../..",
        "same": "deep",
        "secret": ".hidden",
        "broken.md": "nothing.md",
        "loop.md": "loop.md",
        "passwd.md": "/etc/hostname",
        "deep/er/again": "../../same",
    }
    for name, target in links.items():
        os.symlink(target, root / name)
    assert taken(root) == [
        "a.md",
        "deep/b.md",
        "deep/er/c.md",
        "file.md",
        "same/b.md",
        "same/er/c.md",
    ]
    why = reasons(root)
    assert why["out.md"] == why["outdir/"] == why["passwd.md"] == "a link out of the folder"
    assert why["up/"] == why["deep/er/top/"] == "a link to a folder that it lies in"
    assert why["broken.md"] == why["loop.md"] == "a link that leads nowhere"
    assert why["secret/"] == "a link to what is hidden"


def test_two_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    make(tmp_path, "a/x.md", "b/y.md")
    os.symlink("../b", tmp_path / "a" / "to_b")
    os.symlink("../a", tmp_path / "b" / "to_a")
    assert taken(tmp_path) == ["a/to_b/y.md", "a/x.md", "b/to_a/x.md", "b/y.md"]


def test_large_files_pipes_and_the_store_are_left_out(tmp_path: Path) -> None:
    make(tmp_path, "a.md", "big.md", "kb.md/segment.md")
    (tmp_path / "big.md").write_text("x" * 11)
    os.mkfifo(tmp_path / "pipe.md")
    options = {"max_bytes": 10, "exclude_paths": [tmp_path / "kb.md"]}
    assert taken(tmp_path, **options) == ["a.md"]
    assert reasons(tmp_path, **options) == {
        "big.md": "larger than 10 bytes",
        "pipe.md": "not a file",
        "kb.md/": "the store itself",
    }


def test_a_root_that_is_missing_or_a_file_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("missing", "file"):
        scan = Scanner(tmp_path / name, SyncOptions(), lambda name: True).scan()
        assert scan.unlisted == {""}
        assert list(scan.failed) == [""]


NAMES = st.sampled_from(["a", "b", "a.md", "ab", "c d", "[x]"])
LINES = st.lists(
    st.builds(
        lambda *parts: "".join(parts),
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "/", "**/"]),
        st.sampled_from(["a", "b", "*", "a*", "?", "[ab]", "a.md", "a/b", "a/**", "\\[x]", "c d"]),
        st.sampled_from(["", "/", " ", "/*"]),
    )
    | st.sampled_from(["", "# comment", "\\!a", "/", "!"]),
    max_size=4,
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@example(paths=["c d/[x]/a"], ignores={"": ["\\[x]", "!c d"]})
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    paths=st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), min_size=1, max_size=8),
    ignores=st.dictionaries(st.sampled_from(["", "a", "a/b"]), LINES, max_size=3),
)
def test_what_git_ignores_is_ignored(
    tmp_path_factory: pytest.TempPathFactory, paths: list[str], ignores: dict[str, list[str]]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for path in paths:
        file = root / path
        if not file.exists() and not any(above.is_file() for above in file.parents):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("text")
    for folder, lines in ignores.items():
        if (root / folder).is_dir():
            (root / folder / ".gitignore").write_text("".join(f"{line}\n" for line in lines))
    git = ["git", "-C", str(root), "-c", "core.excludesFile=", "-c", "core.quotePath=off"]
    subprocess.run([*git, "init", "-q"], check=True)
    shown = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, capture_output=True
    )
    wanted = sorted(
        name for name in shown.stdout.decode().split("\0") if name and ".gitignore" not in name
    )
    assert sorted(Scanner(root, SyncOptions(), lambda name: True).scan().files) == wanted
    shutil.rmtree(root)


def test_a_root_may_be_a_link(tmp_path: Path) -> None:
    make(tmp_path / "real", "a.md", "deep/b.md")
    os.symlink("a.md", tmp_path / "real" / "c.md")
    os.symlink("real", tmp_path / "root")
    assert taken(tmp_path / "root") == ["a.md", "c.md", "deep/b.md"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("[[:alpha:]].md", "deep/b.md", True),
        ("[[:alpha:]].md", "1.md", False),
        ("[![:digit:]].md", "a.md", True),
        ("a**b.md", "axxb.md", True),
        ("a**b.md", "a/b/b.md", False),
        ("**/b.md", "a/c/b.md", True),
        ("a/**", "a/c/b.md", True),
        ("a/**/b.md", "a/b.md", True),
        ("\\**", "*x", True),
    ],
)
def test_patterns_mean_what_they_mean_to_git(
    tmp_path: Path, pattern: str, path: str, ignored: bool
) -> None:
    assert compile_patterns([pattern]).covers(path) == ignored
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(pattern + "\n")
    ran = subprocess.run(["git", "check-ignore", "-q", path], cwd=tmp_path, check=False)
    assert (ran.returncode == 0) == ignored


def test_several_files_are_looked_at_together(tmp_path: Path) -> None:
    for name in ("a", "d/b", "d/e/c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    scanner = Scanner(tmp_path, SyncOptions(), lambda name: True)
    # The second has a file in the place of a folder, which others name and others do not.
    for first in ("a", "gone"):
        found = scanner.look(first, "a/below", "d/e/c", "d/b")
        assert list(found.files) == [name for name in (first, "d/e/c", "d/b") if name != "gone"]
        assert (found.skipped, found.failed) == ([], {})
