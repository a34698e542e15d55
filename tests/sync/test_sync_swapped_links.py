"""No link that is swapped in while a sync runs leads out of the folder, or to what is hidden."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.sync_folder import contents, desk as made_desk
from triptych.sync import SyncOptions, read_file
from triptych.sync.scanner import Scan, Scanner

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")

CALLS = ("open", "stat", "lstat", "fstat", "scandir", "listdir", "readlink")
SECRET = "secret"


class Swap:
    """A folder in which one entry is replaced by a link."""

    def __init__(self, path: Path, name: str, to: str) -> None:
        self.root = path / "root"
        self.entry = self.root / name
        self.link, self.quarantined = path / "link", path / "quarantined"
        for file, text in {
            "root/d/a.md": "text",
            "root/d/deep/b.md": "text",
            "root/c.md": "text",
            "root/.hidden/a.md": SECRET,
            "root/.hidden/deep/b.md": SECRET,
            "root/.hidden/only.md": SECRET,
            "outside/a.md": SECRET,
            "outside/deep/b.md": SECRET,
            "outside/only.md": SECRET,
            "outside/.gitignore": "*\n",
        }.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(text)
        (self.root / "to_d").symlink_to("d")
        (self.root / "to_c.md").symlink_to("c.md")
        self.link.symlink_to(path / to)

    def there(self) -> None:
        os.rename(self.entry, self.quarantined)
        os.rename(self.link, self.entry)

    def back(self) -> None:
        os.rename(self.entry, self.link)
        os.rename(self.quarantined, self.entry)


SWAPS = [
    ("d", "outside"),
    ("d", "root/.hidden"),
    ("d/deep", "outside"),
    ("d/deep/b.md", "outside/deep/b.md"),
    ("d/a.md", "root/.hidden/a.md"),
    ("c.md", "outside/a.md"),
    ("to_d", "outside"),
    ("to_d", "root/.hidden"),
    ("to_c.md", "outside/a.md"),
    ("to_c.md", "root/.hidden/a.md"),
]


def look_at_all(root: Path) -> tuple[set[str], set[bytes]]:
    """All names that a walk and look-ups tell of, and what reading the files gives."""
    scanner = Scanner(root, SyncOptions(), lambda name: True)
    scans: list[Scan | None] = [scanner.scan(), scanner.scan_below("d", 99)]
    scans.append(scanner.look("to_d/only.md"))
    names: set[str] = set()
    data: set[bytes] = set()
    for scan in filter(None, scans):
        names |= {*scan.files, *scan.failed, *(each.name for each in scan.skipped)}
        for relative in scan.files:
            try:
                data.add(read_file(root, relative, 1000)[0])
            except OSError:
                continue
    return names, data


class Interrupted:
    """The system's calls, with something done before the one of a number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
        self.act = act
        self.left = -1
        for name in CALLS:
            monkeypatch.setattr(os, name, self.wrapped(getattr(os, name)))

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def made(*arguments: Any, **options: Any) -> Any:
            if self.left == 0:
                self.left = -1
                self.act()
            self.left -= self.left > 0
            return call(*arguments, **options)

        return made


@pytest.mark.parametrize(
    ("name", "to", "handles"),
    [*((*each, True) for each in SWAPS), *((*each, False) for each in SWAPS[::3])],
)
def test_a_link_swapped_in_between_any_two_calls_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, to: str, handles: bool
) -> None:
    if not handles:
        monkeypatch.setattr("triptych.scan.tree._HANDLES", False)
    swap = Swap(tmp_path, name, to)
    assert look_at_all(swap.root)[1] == {b"text"}
    calls = Interrupted(monkeypatch, swap.there)
    for number in itertools.count():
        calls.left = number
        names, data = look_at_all(swap.root)
        done = calls.left == -1
        calls.left = -1
        assert data <= {b"text"}, number
        assert not [each for each in names if each.endswith("/only.md")], number
        if not done:
            break
        swap.back()
    assert number > 50


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[Swap]:
    """The folder of a desk, whose entries go to and fro while the test runs."""
    swap = Swap(tmp_path, "d", "outside")
    stopped = threading.Event()

    def swap_for_ever() -> None:
        while not stopped.is_set():
            swap.there()
            swap.back()

    thread = threading.Thread(target=swap_for_ever)
    thread.start()
    yield swap
    stopped.set()
    thread.join()


def test_links_that_come_and_go_lead_no_sync_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapping: Swap
) -> None:
    monkeypatch.setattr("triptych.scan.stats.RACY_NS", 10**18)  # each sync reads all files
    with made_desk(tmp_path, root=False) as desk:
        for _ in range(300):
            report = desk.sync()
            assert SECRET not in contents(desk.kb).values()
            told = [each.name for each in (*report.skipped, *report.failed)]
            assert not [each for each in [*desk.names, *told] if each.endswith("/only.md")]


def test_a_link_is_judged_by_where_it_lies_after_its_folder_was_moved(tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text(SECRET)
    with made_desk(tmp_path) as desk:
        desk.write("d/e/a.md", "text")
        (desk.root / "d/e/f.md").symlink_to("../../..")
        (desk.root / "d/e/g.md").symlink_to("../../../outside.md")
        (desk.root / "d/e/up").symlink_to("../..")
        why = {each.name: each.reason for each in desk.sync().skipped}
        assert why == {
            "d/e/f.md/": "a link out of the folder",
            "d/e/g.md": "a link out of the folder",
            "d/e/up/": "a link to a folder that it lies in",
        }
        (desk.root / "d/e").rename(desk.root / "g")
        (desk.root / "d").rmdir()
        report = desk.sync()
        assert {each.name: each.reason for each in report.skipped} == {
            "g/f.md/": "a link out of the folder",
            "g/g.md": "a link that leads nowhere",
            "g/up/": "a link out of the folder",
        }
        assert (report.failed, desk.names) == ((), ["g/a.md"])
        shutil.rmtree(desk.root / "g")
        assert desk.sync().deleted == ("g/a.md",)
