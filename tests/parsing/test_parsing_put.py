"""From files to hits that name a place in them: the command, the Service, every store."""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from triptych.errors import ParseError, ValidationError
from triptych.installation import install_command
from triptych.parsing import FileParsers, MarkdownParser, ParsedFile, ParseLimits, TextParser
from triptych_parsers import default_parser, parse_file

TABLE = b"name,price\nNut,3\nBolt,4\n"
PAGE = b"<main><h1>Kettle</h1><p>It boils.\n<p>It whistles.</main><nav>Home</nav>"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.mark.parametrize("url", ["memory://", "kb.db", "files:///{}/kb"])
def test_a_hit_names_the_place_in_the_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes(TABLE)
    parsed = parse_file("a.csv")
    with triptych.open(url.format(tmp_path), embedder="hash", chunk_size=20, chunk_overlap=0) as kb:
        report = kb.put_documents("d", [parsed.document("a.csv", {"lang": "en"})])
        assert report.failed == ()
        hit = kb.search("bolt", dataset_id="d", top_k=1).hits[0]
        assert (hit.locator, hit.stale) == ("line 3", None)
        assert hit.metadata == {"kind": "markdown", "lang": "en"}
        assert 'locator="line 3"' in triptych.format_xml([hit])
        stored = kb.get_document("d", "a.csv")
        assert stored.original_sha256 == hashlib.sha256(TABLE).hexdigest()
        assert stored.parser_sig == "csv/2"
        assert stored.content == parsed.content
        # Nothing is done again, neither by a put nor by a rebuild.
        again = kb.put_documents("d", [parsed.document("a.csv", {"lang": "en"})])
        assert (again.unchanged, again.embedded) == (1, 0)
        kb.rebuild(dataset_id="d")
        assert kb.search("bolt", dataset_id="d", top_k=1).hits[0].locator == "line 3"
        # A text that another hand puts under the old metadata has none of its places.
        kb.put_document("d", "a.csv", "Bolt of another text", stored.metadata)
        assert kb.search("bolt", dataset_id="d", top_k=1).hits[0].locator is None


def test_put_reads_every_format_in_a_folder_and_tells_what_it_did_not(shell: Shell) -> None:
    shell.write("docs/a.csv", TABLE)
    shell.write("docs/page.html", PAGE)
    shell.write("docs/broken.json", b'{"a": ')
    shell.write("docs/logo.png", b"\x89PNG")
    shell.write("docs/data.yaml", b"a: 1\n")
    shell.write("docs/tool.sh", b"echo hello\n")
    ran = shell("put", "docs", "--json")
    assert ran.code == 8
    assert ran.json["added"] == 4
    assert [each["name"] for each in ran.json["failed"]] == ["broken.json"]
    assert ran.json["failed"][0]["error"]["type"] == "ParseError"
    assert ran.json["skipped"] == [
        {"name": "logo.png", "reason": "ends in .png, which --ocr reads"}
    ]
    found = shell("search", "whistles", "--json").json["hits"][0]
    assert found["locator"] == "lines 1-2"
    assert found["metadata"] == {"kind": "markdown"}
    assert "page.html, line 2  Kettle" in shell("search", "whistles").text
    document = shell("get", "page.html", "--json").json["document"]
    assert document["content"] == "# Kettle\n\nIt boils.\n\nIt whistles.\n"
    assert document["original_sha256"] == hashlib.sha256(PAGE).hexdigest()
    assert document["parser_sig"] == "html/3"
    assert document["metadata"] == {"kind": "markdown"}
    assert "outline" not in document


def test_what_a_parser_could_not_do_is_reported(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triptych_parsers import definitions

    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    definitions._loaded.cache_clear()
    shell.write("a.py", b"def f():\n    pass\n")
    ran = shell("put", "a.py")
    assert ran.code == 0
    assert install_command(extra="code") in ran.err
    shell.write("b/a.py", b"def g():\n    pass\n")
    assert install_command(extra="code") in shell("put", "b", "--json").json["notes"][0]


def test_standard_input_is_read_by_the_name_it_is_given(shell: Shell) -> None:
    assert shell("put", "-", "--name", "a.html", stdin=PAGE).code == 0
    assert shell("get", "a.html").text.startswith("# Kettle")


def test_a_broken_file_alone_is_an_error_and_leaves_no_store(shell: Shell) -> None:
    shell.write("a.ipynb", b"{}")
    ran = shell("put", "a.ipynb")
    assert ran.code == 2
    assert "notebook" in ran.err
    assert not Path("kb.db").exists()


def test_one_file_is_read_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(json.dumps({"a": 1}), encoding="utf-8")
    assert parse_file("a.json").parser_sig == "json/2"
    with pytest.raises(ValidationError, match="cannot be read"):
        parse_file("nowhere.json")
    with pytest.raises(ValidationError, match="cannot be read"):
        parse_file("a\x00b")
    with pytest.raises(ParseError, match="max_bytes"):
        parse_file("a.json", parser=default_parser(limits=ParseLimits(max_bytes=3)))


def test_the_short_ways_take_a_parser(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.csv").write_bytes(TABLE)
    (folder / "b.json").write_bytes(b"{")
    (folder / "c.md").write_bytes(b"# C\n")
    with triptych.open("memory://", embedder="hash") as kb:
        report = triptych.ingest_directory(kb, folder, "d", parser=default_parser())
        assert (report.added, [each.name for each in report.failed]) == (2, ["b.json"])
        stored = triptych.ingest_file(kb, folder / "a.csv", "d", name="t", parser=default_parser())
        assert (stored.name, stored.parser_sig) == ("t", "csv/2")
        with pytest.raises(ParseError, match="JSON"):
            triptych.ingest_file(kb, folder / "b.json", "d", parser=default_parser())
        plain = FileParsers([MarkdownParser()], fallback=TextParser())
        report = triptych.ingest_directory(kb, folder, "e", parser=plain)
        assert (report.added, len(report.skipped)) == (1, 2)
        every = triptych.ingest_directory(kb, folder, "f")
        assert (every.added, len(every.failed)) == (2, 1)


# Third parties


class ShoutParser:
    """What another package brings."""

    signature = "shout/1"
    endings = frozenset((".shout",))

    def recognises(self, data: bytes) -> bool:
        return False

    def parse(self, name: str, data: bytes) -> ParsedFile:
        return ParsedFile(content=data.decode().upper(), parser_sig=self.signature)


def no_parser() -> object:
    return object()


def installed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """As if a package with this entry point were installed."""
    found = EntryPoints([EntryPoint("x", f"{__name__}:{value}", "triptych.parsers")])
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda *, group: found.select(group=group)
    )


def test_installed_packages_add_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "ShoutParser")
    assert default_parser().parse("a.shout", b"x").content == "X"
    assert not default_parser(plugins=False).takes("a.shout")


@pytest.mark.parametrize("value", ["no_parser", "nothing_of_this_name"])
def test_an_entry_point_that_is_no_parser_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    installed(monkeypatch, value)
    with pytest.raises(ValidationError, match="'x'"):
        default_parser()
