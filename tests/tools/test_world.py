"""The tool that reads files of others: what it trusts, what is worse, its plain readings."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.loaded import load

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tool forks a process for each file")
ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools/world.py"


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "tools"))  # its modules are beside it
    yield load("tools/world.py")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip finds packages in."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [each for each in os.environ if each.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _sdist(folder: Path, version: str, files: dict[str, bytes]) -> dict[str, Any]:
    """Write an archive of the package "pages"; its pin."""
    path = folder / f"pages-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"pages-{version}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    pin = {"name": "pages", "version": version, "file": path.name}
    return {**pin, "sha256": digest, "size": len(data)}


def _zip(parts: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


# Trust


def _tar_members() -> list[tarfile.TarInfo]:
    names = ["ok.md", "./sub/ok.md", "../up.md", "sub/../../up.md", "/root.md", "C:\\drive.md"]
    members = [tarfile.TarInfo(name) for name in [*names, "..\\up.md", "prog.exe"]]
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        member = tarfile.TarInfo(f"special{kind.decode()}.md")
        member.type, member.linkname = kind, "ok.md"
        members.append(member)
    return members


def _package(tool: Any, path: Path) -> Any:
    digest, size = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size
    return tool.Package(name="p", version="1", file=path.name, sha256=digest, size=size)


def _unpack(tool: Any, path: Path) -> tuple[list[str], list[str]]:
    folder = path.parent / "deep" / "out"
    refused = tool.unpacked(_package(tool, path), path, folder, lambda name: name.endswith(".md"))
    found = [each for each in path.parent.rglob("*.md") if each.is_file()]
    return sorted(str(each.relative_to(folder)) for each in found), refused


def test_a_tar_file_unpacks_nothing_outside_of_its_folder(tool: Any, tmp_path: Path) -> None:
    path = tmp_path / "p-1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member in _tar_members():
            archive.addfile(member)
    files, refused = _unpack(tool, path)
    assert files == ["ok.md", "sub/ok.md"]
    assert [each.partition(": ")[2] for each in refused] == (
        ["outside of the folder"] * 5 + ["a link or a device"] * 4
    )


def test_a_zip_file_unpacks_nothing_outside_of_its_folder(tool: Any, tmp_path: Path) -> None:
    path = tmp_path / "p-1.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("ok.md", "../up.md", "/root.md", "C:/drive.md"):
            archive.writestr(name, "text")
        link = zipfile.ZipInfo("link.md")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/hostname")
    files, refused = _unpack(tool, path)
    assert files == ["ok.md"]
    assert [each.partition(":")[0] for each in refused] == ["../up.md", "/root.md", "C", "link.md"]


def test_an_archive_has_limits(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p-1.zip"
    path.write_bytes(_zip({f"{each}.md": "text" * 10 for each in range(5)}))
    files = sys.modules["world_files"]
    for name, limit, message in (
        ("MAX_MEMBERS", 4, "more than 4 members"),
        ("MAX_UNPACKED", 150, "unpacks to more"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(files, name, limit)
            with pytest.raises(tool.WorldError, match=message):
                _unpack(tool, path)
    monkeypatch.setattr(files, "MAX_MEMBER", 30)
    assert _unpack(tool, path)[0] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pip's own packages
def test_an_archive_is_downloaded_once_and_checked(tool: Any, index: Path, tmp_path: Path) -> None:
    pin = _sdist(index, "1.0", {"a.md": b"text"})
    package, cache = tool.Package(**pin), tmp_path / "cache"
    kept = tool.archive_of(package, cache)
    (index / package.file).unlink()  # a second run needs nothing of it
    assert tool.archive_of(package, cache) == kept
    kept.write_bytes(b"altered")
    with pytest.raises(tool.LeftOutError, match="does not have it"):
        tool.archive_of(package, cache)
    _sdist(index, "1.0", {"a.md": b"text"})
    (index / package.file).write_bytes(b"another file")
    with pytest.raises(tool.WorldError, match="is pinned"):
        tool.archive_of(package, cache)
    with pytest.raises(tool.WorldError, match="larger than its pin"):
        tool.archive_of(tool.Package(**{**pin, "size": 3}), cache)
    assert not any(each.suffix != ".gz" for each in cache.iterdir())


def test_the_pins_are_whole(tool: Any) -> None:
    packages, most = tool.pins(tool.PINS)
    assert set(most) == set(tool.READINGS)
    assert len({each.file for each in packages}) == len(packages)
    assert all(re.fullmatch("[0-9a-f]{64}", each.sha256) for each in packages)
    assert {each.kind for each in packages} <= {"sdist", "source", "deb"}
    assert not any("/" in each.file for each in packages)
    assert "://" not in tool.PINS.read_text(encoding="utf-8")


def test_files_are_chosen_alike_each_time(tool: Any) -> None:
    paths = [f"{each}.md" for each in range(50)] + ["a.pdf", "b.exe"]
    kept = tool.chosen(paths, {"md": 9, "pdf": 2})
    assert kept == tool.chosen(reversed(paths), {"md": 9, "pdf": 2})
    assert len(kept) == 10
    assert kept[-1] == "a.pdf"


# What is worse

BEFORE = {"p-1": {"whole.md": {"words": 9}, "lost.md": {"words": 9, "lost": 4}}}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"words": 9}, ""),
        ({"words": 9, "named": 1}, "words not in the text: 0 before, 1 now"),
        ({"words": 9, "lost": 2}, "words lost: 0 before, 2 now"),
        ({"refused": "it is damaged"}, "is refused now: it is damaged"),
        ({"unread": "no plain reading"}, "is unread now: no plain reading"),
        (None, "is gone"),
    ],
)
def test_what_is_worse_for_a_file_that_was_whole(
    tool: Any, row: dict[str, Any] | None, said: str
) -> None:
    rows = {"lost.md": {"words": 9, "lost": 4}} | ({} if row is None else {"whole.md": row})
    worse, better = tool.compared(BEFORE, {"p-1": rows})
    assert worse == ([("p-1/whole.md", said)] if said else [])
    assert better == 0


def test_words_that_are_named_or_found_now_are_better(tool: Any) -> None:
    for row in ({"words": 9}, {"words": 9, "named": 4}, {"words": 9, "named": 1, "lost": 3}):
        assert tool.compared(BEFORE, {"p-1": {**BEFORE["p-1"], "lost.md": row}}) == ([], 1)
    row = {"words": 9, "named": 2, "lost": 3}
    worse, better = tool.compared(BEFORE, {"p-1": {**BEFORE["p-1"], "lost.md": row}})
    assert worse == [("p-1/lost.md", "words not in the text: 4 before, 5 now")]
    assert better == 0


def test_what_is_left_out_is_not_gone(tool: Any) -> None:
    gone = [("p-1/whole.md", "is gone"), ("p-1/lost.md", "is gone")]
    assert tool.compared(BEFORE, {}) == (gone, 0)
    assert tool.compared(BEFORE, {}, ["p-1"]) == ([], 0)
    assert tool.compared(BEFORE, {}, ["p-1/whole.md"]) == (gone[1:], 0)


def test_a_report_has_a_line_for_each_file(tool: Any) -> None:
    report = {"files": {"b": {"é.md": {"words": 1}}, **BEFORE}, "measured": {"formats": {}}}
    text = tool.as_json(report)
    assert json.loads(text) == report
    assert text.splitlines()[1] == '  "b": {'
    assert '   "lost.md": {"words": 9, "lost": 4},' in text.splitlines()


# Plain readings

W = 'xmlns:w="w" xmlns:a="a" xmlns:m="m" xmlns:mc="mc" xmlns:c="c"'


def _read(tool: Any, name: str, data: bytes | str) -> list[str]:
    reading = sys.modules["world_readings"]
    data = data.encode() if isinstance(data, str) else data
    found: list[str] = reading.words(reading.read(name, data))
    return found


def test_the_reading_of_a_docx_takes_all_that_is_shown(tool: Any) -> None:
    body = (
        "<w:p><w:r><w:t>Con</w:t></w:r><w:ins><w:r><w:t>tract</w:t></w:r></w:ins>"
        "<w:sdt><w:sdtContent><w:r><w:t> number</w:t><w:tab/><w:t>7</w:t></w:r>"
        "</w:sdtContent></w:sdt>"
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><m:r><m:t>x</m:t></m:r></w:p>"
        "<mc:AlternateContent><mc:Choice><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Choice>"
        "<mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent>"
    )
    parts = {
        "word/document.xml": f"<w:document {W}>{body}</w:document>",
        "word/footnotes.xml": f"<w:n {W}><w:p><w:t>note</w:t></w:p></w:n>",
        "word/glossary/document.xml": f"<w:n {W}><w:t>block</w:t></w:n>",
        "docProps/app.xml": f"<w:n {W}><w:t>Word</w:t></w:n>",
    }
    assert _read(tool, "a.docx", _zip(parts)) == ["contract", "number", "7x", "box", "note"]


def test_the_reading_of_a_pptx_takes_charts_once_and_no_masters(tool: Any) -> None:
    cache = "<c:strCache><c:pt><c:v>North</c:v></c:pt><c:pt><c:v>South</c:v></c:pt></c:strCache>"
    parts = {
        "ppt/charts/chart1.xml": f"<c:chartSpace {W}>{cache}{cache}</c:chartSpace>",
        "ppt/slides/slide1.xml": f"<a:s {W}><a:p><a:t>Sales</a:t></a:p></a:s>",
        "ppt/slideMasters/slideMaster1.xml": f"<a:s {W}><a:t>Click</a:t></a:s>",
        "ppt/slideLayouts/slideLayout1.xml": f"<a:s {W}><a:t>Click</a:t></a:s>",
    }
    assert _read(tool, "a.pptx", _zip(parts)) == ["north", "south", "sales"]


def test_the_reading_of_an_xlsx_takes_each_string_of_a_cell(tool: Any) -> None:
    cells = (
        '<c t="s"><v>1</v></c><c t="s"><v>1</v></c><c><v>12.5</v></c>'
        '<c t="str"><f>A1</f><v>formula</v></c><c t="inlineStr"><is><t>inline</t></is></c>'
    )
    parts = {
        "xl/sharedStrings.xml": "<sst><si><t>unused</t></si>"
        "<si><r><t>Ket</t></r><r><t>tle</t></r><rPh><t>spoken</t></rPh></si></sst>",
        "xl/worksheets/sheet1.xml": f"<s><row>{cells}</row></s>",
    }
    found = _read(tool, "a.xlsx", _zip(parts))
    assert found == ["kettle", "kettle", "formula", "inline"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.html", "<head><title>no</title></head><p>a<b>b</b>c<br>d &amp; &eacute;", "abc d é"),
        ("a.html", "<!-- no --><header>x</header><script>no()</script><style>no</style>y", "x y"),
        ("a.html", '<script src="no"/><p title="a > b" id=no>if 1 &lt; 2</p>', "if 1 2"),
        ("a.htm", "<article>a<template>no</template><nav>b</nav></article>", "a b"),
        ("a.csv", '\ufeffa;"b\nc"\n1;2', "a b c 1 2"),
        ("a.tsv", "a\tb\n\n", "a b"),
        ("a.json", '{"k\\u00fc": ["a\\nb", {"c": 1}], "d": null}', "kü a b c d"),
        ("a.jsonl", '{"a": "b"}\n\n"c"\n', "a b c"),
        ("a.md", "---\ntitle: no\n---\n# A\nb_c\u00add", "a b cd"),
        ("a.rst", ".. note::\n   :class: x\n\n   a :ref:`b <no>`_\n\n.. no\n   no\n\nc", "x a b c"),
        ("a.ipynb", '{"cells": [{"source": ["a\\n", "b"], "outputs": ["no"]}]}', "a b"),
        ("a.md", "東京 ﬁn Straße", "東 京 fin strasse"),
    ],
)
def test_the_words_of_a_reading(tool: Any, name: str, text: str, words: str) -> None:
    assert _read(tool, name, text) == words.split()


def test_the_reading_of_a_pdf_is_page_by_page(tool: Any) -> None:
    from reportlab.pdfgen.canvas import Canvas

    out = io.BytesIO()
    canvas = Canvas(out)
    for text in ("first page", "second page"):
        canvas.drawString(72, 700, text)
        canvas.showPage()
    canvas.save()
    assert _read(tool, "a.pdf", out.getvalue()) == ["first", "page", "second", "page"]


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a.json", "a.md", "a.ipynb"])
def test_what_has_no_reading_is_said(tool: Any, name: str) -> None:
    with pytest.raises(tool.NoReadingError, match="no plain reading"):
        tool.read(name, b"\xff\x00{")


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("an international well-known a a", []),
        ("an inter national well known a a", []),
        ("an international wellknown a a", []),
        ("an international well-known a", ["a"]),
        ("an inter well-known a a", ["national"]),
    ],
)
def test_a_hyphen_at_the_end_of_a_line_may_join_or_part(
    tool: Any, text: str, lost: list[str]
) -> None:
    shown = "an inter-\nnational well-\nknown a a"
    assert sorted(tool.lacking(shown, text)[1].elements()) == lost


# A run


def _run(tmp_path: Path, pins: list[dict[str, Any]], *words: str) -> Any:
    toml = "\n".join(
        "[[package]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in pin.items())
        for pin in pins
    )
    (tmp_path / "pins.toml").write_text(f"[most]\nmd = 9\nhtml = 9\n{toml}\n", encoding="utf-8")
    places = [f"--{each}={tmp_path / name}" for each, name in _PLACES.items()]
    command = [sys.executable, str(TOOL), *places, "--processes=2", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


_PLACES = {"pins": "pins.toml", "folder": "cache", "report": "world.json"}


@pytest.mark.process
def test_a_run_compares_with_the_report_it_wrote(index: Path, tmp_path: Path) -> None:
    files = {"a.md": b"one two", "b.html": b"<p>three", "c.md": b"\x00\x01", "d.exe": b""}
    pin = _sdist(index, "1.0", files)
    done = _run(tmp_path, [pin], "--write")
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "world.json").read_text(encoding="utf-8"))
    assert report["files"] == {
        "pages-1.0": {
            "pages-1.0/a.md": {"words": 2},
            "pages-1.0/b.html": {"words": 1},
            "pages-1.0/c.md": {"refused": "binary"},
        }
    }
    done = _run(tmp_path, [pin], "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] == report["files"]
    assert "0 worse, 0 better" in done.stderr

    report["files"]["pages-1.0"]["pages-1.0/gone.md"] = {"words": 1}
    (tmp_path / "world.json").write_text(json.dumps(report), encoding="utf-8")
    done = _run(tmp_path, [pin])
    assert done.returncode == 1
    assert re.search(r"pages-1.0/gone.md\W+is gone", done.stdout)


@pytest.mark.process
def test_a_package_that_is_not_to_be_had_is_left_out(index: Path, tmp_path: Path) -> None:
    pins = [_sdist(index, version, {"a.md": version.encode()}) for version in ("1.0", "2.0")]
    assert _run(tmp_path, pins, "--write").returncode == 0
    for each in (index / "pages-2.0.tar.gz", tmp_path / "cache/archives/pages-2.0.tar.gz"):
        each.unlink()
    done = _run(tmp_path, pins)
    assert done.returncode == 0, done.stderr
    assert "left out: pages-2.0 (the package index does not have it)" in done.stdout
    done = _run(tmp_path, pins, "--write")
    assert done.returncode == 1
    assert "not written" in done.stderr
    assert _run(tmp_path, pins[1:]).returncode == 1  # nothing to read at all
    done = _run(tmp_path, pins[:1], "--minutes=0")
    assert "pages-1.0/pages-1.0/a.md (0 minutes were over)" in done.stdout
