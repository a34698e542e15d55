"""What a person gave is kept: `get` gives what was put, or says that it is another text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

import triptych
from support.cli_run import Shell, fresh_shell
from support.document_files import make_pdf
from support.examples import examples
from support.servers import served
from triptych.chunking import ChunkerSet, ChunkSpec
from triptych.errors import ParseError
from triptych_parsers import default_parser
from triptych_server.client import connect

PARSER = default_parser()
CONVERTED = {
    *(".csv", ".docm", ".docx", ".htm", ".html", ".ipynb", ".pdf", ".pptm", ".pptx", ".rest"),
    *(".rst", ".tsv", ".xhtml", ".xlsm", ".xlsx"),
}
KEPT = ("", *sorted(PARSER.endings - CONVERTED))

PIECES = st.sampled_from(
    [
        *("Tea ........ 12", "Cake . . . 3", "a…… iv", "12", "<!-- image -->", "```", "# A"),
        *("\n", "\r\n", "\r", "\f", "\v", "\x85", "\u2028", "\u2029", "\t", " ", "\ufeff"),
        *("---\n", "+++\n", "title: a\n", "é", "e\u0301", "\U0001f600", "\x1b[1m", "\x7f"),
        *("{", "}", '"', ":", "key: |\n", "- a", "def f():\n", "    ", "//", "/*", "\\", "\ufffd"),
    ]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=100),
)
SAMPLES = {
    "prices": "Menu\nTea ........ 12\nCake . . . . 3\n12\n",
    "crlf": "\ufeffone\r\ntwo\rthree\n\r\n",
    "ends": "\f\x0bno line end at the end \t\x85\u2028",
    "front": "---\ntitle: A\n---\n\n<!-- image -->\n<!-- PageNumber=3 -->\n",
    "wide": "e\u0301 \U0001f600 \u200b\u3000\ufffd\n",
    "empty": "",
}


@pytest.mark.property
@settings(max_examples=examples(300), deadline=None)
@given(ending=st.sampled_from(KEPT), text=TEXTS)
@example(ending=".txt", text=SAMPLES["prices"])
@example(ending=".md", text=SAMPLES["front"])
def test_a_text_is_kept_whatever_its_kind(ending: str, text: str) -> None:
    try:
        parsed = PARSER.parse(f"a{ending}", text.encode())
    except ParseError:  # JSON is checked, and refused where it is not well-formed
        return
    if parsed is None:
        return  # by its first bytes, or its controls, it is taken for binary, which is reported
    if parsed.content != text:
        # With a NUL it may be taken for UTF-16; a name that tells nothing, for a page.
        assert ("\0" in text and parsed.notes) or parsed.parser_sig.startswith("html/")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """Each sample under each kind that is kept, in the folder ``given``."""
    found = {
        f"{name}{ending}": text.encode()
        for ending in (".md", ".txt", ".log", ".jsonl", ".org", ".py", ".sh", ".yaml", ".toml")
        for name, text in SAMPLES.items()
    }
    found["a.json"] = '\ufeff{"a":\r\n "Tea .... 12"}  \r'.encode()
    (tmp_path / "given").mkdir()
    for name, data in found.items():
        (tmp_path / "given" / name).write_bytes(data)
    return found


def contents(kb: triptych.Service, dataset_id: str = "default") -> dict[str, bytes]:
    names = [each.name for each in kb.list_documents(dataset_id)]
    return {name: kb.get_document(dataset_id, name).content.encode() for name in names}


@pytest.mark.parametrize("command", ["put", "sync", "add"])
def test_every_command_gives_back_what_was_put(
    command: str, files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell: Shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_URL", "kb.db")
    done = shell(command, "given")
    assert done.code == 0, done.err
    (dataset,) = shell("list", "--datasets").text.split()
    with triptych.open("kb.db", embedder="hash") as kb:
        assert contents(kb, dataset) == files
    for name in ("prices.md", "crlf.txt", "ends.py", "empty.log", "a.json"):
        read = shell("get", name)
        assert (read.out, read.err) == (files[name], "")
        assert shell("put", "-", "--name", name, "-d", "stdin", stdin=files[name]).code == 0
        assert shell("get", name, "-d", "stdin").out == files[name]


def test_a_server_gives_back_what_was_put(files: dict[str, bytes], tmp_path: Path) -> None:
    with (
        triptych.open("memory://", embedder="hash") as kb,
        served(kb, write=True) as url,
        connect(url) as there,
    ):
        # The one remote that takes files reads them on this side.
        assert triptych.ingest_directory(there, tmp_path / "given", "default").failed == ()
        there.put_document("default", "nul.txt", "a\0b\r\n")
        assert contents(there) == contents(kb) == files | {"nul.txt": b"a\0b\r\n"}


def test_get_says_that_a_text_was_made_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell: Shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/page.html", "<nav>Menu</nav><p>Words.</p>")
    shell.write("docs/wide.txt", "Words.".encode("utf-16"))
    shell.write("docs/plain.txt", "Words.")
    assert shell("put", "docs").code == 0
    read = shell("get", "page.html")
    assert (read.out, read.err) == (
        b"Words.\n",
        "page.html is the text that was extracted from the file by html/3, not its bytes\n",
    )
    assert "extracted from the file by text/6" in shell("get", "wide.txt").err
    assert shell("get", "plain.txt").err == ""
    assert shell("get", "page.html", "--quiet").err == shell("get", "page.html", "--info").err == ""
    assert "byte for byte" not in shell("get", "--help").text


class FirstLine:
    """A chunker that takes the first line of a text only."""

    signature = "first-line/1"

    def chunk(self, content: str) -> list[ChunkSpec]:
        return [ChunkSpec(index=0, start=0, end=len(content.split("\n")[0]))]


def test_the_doctor_lists_what_is_in_no_chunk_and_why(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("One\n\n two three \n\n")
    (tmp_path / "b.md").write_text("One\n\n")
    (tmp_path / "c.pdf").write_bytes(make_pdf([["Words"]]))
    with triptych.open(tmp_path / "kb.db", embedder="hash") as kb:
        triptych.ingest_directory(kb, tmp_path, "d")
        report = kb.doctor()
        assert report.left_out == ()
        assert report.clean
    chunkers = ChunkerSet(default=FirstLine())
    with triptych.open(tmp_path / "own.db", embedder="hash", chunkers=chunkers) as kb:
        triptych.ingest_directory(kb, tmp_path, "d")
        report = kb.doctor()
        signature = chunkers.signature
        assert report.left_out[0] == (
            f"dataset 'd': of 1 document, by the chunker {signature}: 'a.md', 9 characters "
            "from line 3 on"
        )
        assert report.clean


def test_a_table_of_contents_that_the_bookmarks_of_a_pdf_name_is_left_out() -> None:
    listed = ["Contents", "Tea ........ 2", "Cake . . . . . . 3", "Biscuits ........ 4"]
    data = make_pdf([listed, ["Tea", "Tea ........ 5"], ["Cake", "Sweet"]], marks=True)
    parsed = PARSER.parse("a.pdf", data)
    assert parsed is not None
    lines = parsed.content.splitlines()
    assert [line for line in lines if "...." in line or ". . ." in line] == [
        "Biscuits ........ 4",
        "Tea ........ 5",
    ]
    plain = PARSER.parse("a.pdf", make_pdf([listed, ["Tea"]]))
    assert plain is not None
    assert plain.content.splitlines()[:4] == listed


def test_the_text_of_footnotes_in_restructured_text_stays() -> None:
    text = "Words [1]_ and [Knuth]_.\n\n.. [1] A *note*\n   that goes on.\n.. [Knuth] A book.\n"
    parsed = PARSER.parse("a.rst", text.encode())
    assert parsed is not None
    for part in ("A *note*", "that goes on.", "A book."):
        assert part in parsed.content
