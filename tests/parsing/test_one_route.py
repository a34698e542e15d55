"""A file gives the same document, whoever asks: put, sync, watch, the one-call helpers."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.document_files import make_docx, make_pdf, make_pptx, make_xlsx
from support.watch_process import watch_command
from triptych.service import Service
from triptych.sync import FileSet
from triptych_parsers import default_parser

GERMAN = "Die Übung für Müller: größer, schöner, Öl.\n"
CHINESE = "知识库把文档分成若干段落，然后为每一段建立索引。\n"
JAPANESE = "文書をいくつかの段落に分けて、それぞれに索引を作ります。\n"
KOREAN = "문서를 여러 단락으로 나누고 각 단락에 색인을 만듭니다.\n"
TRADITIONAL = "知識庫把文件分成許多段落，並為每個段落建立索引。\n"
GREEK = "Η βάση γνώσεων χωρίζει τα έγγραφα σε παραγράφους και τις ευρετηριάζει.\n"
ARABIC = "تقسم قاعدة المعرفة المستندات إلى فقرات ثم تفهرس كل فقرة منها.\n"
RUSSIAN = "База знаний делит документы на абзацы.\n"
FRONT = "---\ntitle: First steps\ntags: [a, b]\ncategory: manual\n---\n# Start\n\nUnpack it.\n"
NOTEBOOK = {
    "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# Pots\n", "A spout."]}],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}

FILES: dict[str, str | bytes] = {
    "front.md": FRONT,
    "marked.txt": "\ufeff" + FRONT,
    "front.txt": "+++\ntitle = 'Toml'\n+++\ntext\n",
    "marked.md": "\ufeff" + FRONT,
    "other.mdown": "# A\n",
    "tasks/contents.md": "# A\n\nStart ............ 3\n\nText\n",
    "page.html": "<title>Kettle</title><main><h1>Kettle</h1><p>It boils.</main><nav>menu</nav>",
    "page.rst": "Title\n=====\n\nSome *text*.\n",
    "auth.go": "package a\n\nfunc Login() {\n\treturn\n}\n\nfunc Logout() {\n\treturn\n}\n",
    "tool.py": "# -*- coding: koi8-r -*-\ndef f():\n    return 1\n",
    "run.sh": "echo hello\n",
    "data.csv": "item,price\nKettle,30\n",
    "data.json": json.dumps({"a": "x" * 300, "b": "y" * 300}),
    "two.yaml": "---\nkind: Service\n---\nkind: Other\n",
    "pots.ipynb": json.dumps(NOTEBOOK),
    "guide.docx": make_docx(),
    "deck.pptx": make_pptx(),
    "sheet.xlsx": make_xlsx({"A": [["k", "v"], ["speed", 9]]}),
    "paper.pdf": make_pdf([["Limits", "At most four."]], title="Paper"),
    "enc/utf16.txt": GERMAN.encode("utf-16"),
    "enc/utf16-unmarked.txt": GERMAN.encode("utf-16-le"),
    "enc/utf32.txt": GERMAN.encode("utf-32"),
    "enc/gb18030.md": CHINESE.encode("gb18030"),
    "enc/gb18030.csv": "名称,价格\n茶壶,三十\n".encode("gb18030"),
    "enc/euc-jp.txt": JAPANESE.encode("euc_jp"),
    "enc/shift-jis.txt": JAPANESE.encode("shift_jis"),
    "enc/euc-kr.txt": KOREAN.encode("euc_kr"),
    "enc/cp1251.txt": RUSSIAN.encode("cp1251"),
    "enc/koi8-r.py": ("# coding: koi8-r\n# " + RUSSIAN + "def f():\n    pass\n").encode("koi8_r"),
    "enc/cp1252.txt": GERMAN.encode("cp1252"),
    "enc/utf16-be.txt": GERMAN.encode("utf-16-be"),
    "enc/utf16-be-marked.txt": b"\xfe\xff" + GERMAN.encode("utf-16-be"),
    "enc/big5.txt": TRADITIONAL.encode("big5"),
    "enc/cp1253.txt": GREEK.encode("cp1253"),
    "enc/cp1256.txt": ARABIC.encode("cp1256"),
    "enc/koi8-r.txt": (RUSSIAN + "Поиск идёт по словам и по смыслу.\n").encode("koi8_r"),
    "enc/latin-1.txt": GERMAN.encode("latin-1") + b"\x81\n",
    "enc/mixed.txt": CHINESE.encode() + b"\xe9\n",
    "enc/declared.html": "<html><meta charset=euc-jp><p>索引".encode("euc_jp"),
    "empty.txt": "",
}
LEFT_OUT: dict[str, str | bytes] = {
    ".gitignore": "drafts/\n",
    ".triptychignore": "*.log\n",
    "drafts/idea.md": "Not yet.",
    "noise.log": "noise",
    "core.txt": b"text\0with a NUL",
    "logo.png": b"\x89PNG",
    "node_modules/a.md": "installed",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {**FILES, **LEFT_OUT}.items():
        file = tmp_path / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / "docs"


def documents(kb: Service, dataset_id: str = "default") -> dict[str, Any]:
    """All that a file decides of its document."""
    found = {}
    for info in kb.list_documents(dataset_id):
        document = kb.get_document(dataset_id, info.name)
        found[info.name] = (
            document.content,
            document.metadata,
            document.parser_sig,
            document.original_sha256,
            [
                (chunk.content, chunk.heading_path, chunk.locator, chunk.sig.input_sig)
                for chunk in kb.chunks.iter_chunks(dataset_id, info.name)
            ],
        )
    return found


def test_the_files_are_of_every_format_and_encoding(folder: Path) -> None:
    parser = default_parser()
    read = {name: parser.parse(name, (folder / name).read_bytes()) for name in FILES}
    used = {parser.parser_for(name, (folder / name).read_bytes()).signature for name in FILES}
    assert used >= {each.signature for each in parser.parsers} | {parser.fallback.signature}
    notes = [note for parsed in read.values() if parsed for note in parsed.notes]
    guessed = (
        "GB18030", "Big5", "EUC-JP", "Shift_JIS", "EUC-KR", "KOI8-R", "ISO-8859-1", "UTF-16LE",
        "UTF-16BE", "windows-1251", "windows-1252", "windows-1253", "windows-1256",
    )  # fmt: skip
    assert [name for name in guessed if not any(name in note for note in notes)] == []


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_every_route_makes_the_same_documents(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell: Shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "hash")
    routes: dict[str, dict[str, Any]] = {}

    monkeypatch.setenv("TRIPTYCH_URL", "put.db")
    put = shell("put", "docs", "--json")
    monkeypatch.setenv("TRIPTYCH_URL", "sync.db")
    synced = shell("sync", "docs", "--json")
    for ran in (put, synced):
        assert (ran.code, ran.json["added"]) == (0, len(FILES))
    for name in ("put", "sync"):
        with triptych.open(f"{name}.db", embedder="hash") as kb:
            routes[name] = documents(kb)

    def named(notes: list[str]) -> set[str]:
        return {name for name in FILES for note in notes if f"{name}'" in note}

    assert named(put.json["notes"]) == named(synced.json["notes"]) != set()
    reasons = [{each["name"]: each["reason"] for each in r.json["skipped"]} for r in (put, synced)]
    assert reasons[0] == reasons[1]
    assert reasons[0]["drafts/"] == reasons[0]["noise.log"] == "ignored"

    with triptych.open("memory://", embedder="hash") as kb:
        report = triptych.ingest_directory(kb, folder, "default")
        assert (report.failed, named(list(report.notes))) == ((), named(put.json["notes"]))
        routes["ingest_directory"] = documents(kb)
        monkeypatch.chdir(folder)
        for name in FILES:
            triptych.ingest_file(kb, name, "files")
        routes["ingest_file"] = documents(kb, "files")
        monkeypatch.chdir(tmp_path)
        files = FileSet()
        files.add(folder)
        kb.put_documents("set", files.documents())
        routes["FileSet"] = documents(kb, "set")
    with watch_command(
        tmp_path, "docs", "--json", TRIPTYCH_URL="watch.db", TRIPTYCH_EMBEDDER="hash"
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, first["report"]["rebuilt"]) == (0, len(FILES)), err
    assert named(first["notes"]) == named(put.json["notes"])
    with triptych.open("watch.db", embedder="hash") as kb:
        routes["watch"] = documents(kb)

    expected = routes.pop("sync")
    assert set(expected) == set(FILES)
    for route, found in routes.items():
        for name in FILES:
            assert found[name] == expected[name], (route, name)
        assert set(found) == set(expected), route


def test_what_the_document_of_a_file_is(folder: Path) -> None:
    with triptych.open("memory://", embedder=None) as kb:
        triptych.ingest_directory(kb, folder, "d")
        found = documents(kb, "d")
    content, metadata, parser, _, _ = found["front.md"]
    assert content == FRONT
    assert metadata == {"title": "First steps", "tags": ["a", "b"], "category": "manual"}
    assert parser == "markdown/6"
    assert found["marked.md"][0] == "\ufeff" + FRONT
    assert found["marked.txt"][0] == "\ufeff" + FRONT
    assert found["marked.md"][1] == found["marked.txt"][1] == metadata
    assert found["front.txt"][1] == {"title": "Toml"}
    assert found["other.mdown"][1] == {"kind": "markdown"}
    assert "kind" not in found["two.yaml"][1]
    assert found["enc/gb18030.md"][0] == CHINESE
    assert found["enc/euc-jp.txt"][0] == found["enc/shift-jis.txt"][0] == JAPANESE
    assert [path for _, path, _, _ in found["auth.go"][4]] == [(), ("Login",), ("Logout",)]
