"""A document's outline, how what is made of it was made, and the pages of its file."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, read
from support.document_files import make_pdf
from support.servers import served
from triptych.chunking import ChunkConfig, MarkdownChunker, Part, default_chunkers
from triptych.parsing import ParsedFile
from triptych.records import NewDocument
from triptych.service import Service, ServiceOptions
from triptych.sync import DirectorySync, SyncRoot
from triptych_backends.memory import MemoryStore
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeEmbedder

GUIDE = """# Guide

Setext
------

Some text.

```
# no heading
```

### Deep *one*

More text.
"""


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as opened:
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, console=True))


def outline_of(text: str) -> list[tuple[str, str, str]]:
    """The level, the goal and the text of each line of an outline."""
    return re.findall(r'<li class="l(\d)"><a href="#(at-\d+)"><bdi>(.*?)</bdi></a>', text)


def test_headings_lead_to_their_places_in_the_text(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "guide.md", GUIDE)
    text = ask("GET", "/console/documents/docs/guide.md?from=0&to=7&view=source").text
    found = outline_of(text)
    assert [(level, title) for level, _, title in found] == [
        ("1", "Guide"),
        ("2", "Setext"),
        ("3", "Deep *one*"),
    ]
    for (_, goal, _), begins in zip(found, ("# Guide", "Setext", "### Deep"), strict=True):
        after = re.split(f'id="{goal}"', text)
        assert len(after) == 2
        assert re.sub("<[^>]*>", "", after[1].partition(">")[2]).startswith(begins)
    assert text.count('id="passage"') == 1
    read = ask("GET", "/console/documents/docs/guide.md?from=0&to=7").text
    assert outline_of(read) == found
    assert re.findall(r'<span id="(at-\d+)"></span>(\w+)', read) == [
        (goal, title.split()[0]) for _, goal, title in found
    ]
    assert read.count('id="passage"') == 1


def test_a_source_file_s_outline_is_that_of_its_definitions(kb: Service, ask: Client) -> None:
    parts = (Part(start=0, end=25, title="class A"), Part(start=9, end=25, title="b", depth=1))
    parsed = ParsedFile(content="class A:\n  def b(): pass\n", parts=parts)
    kb.put_documents("docs", [parsed.document("a.py")])
    found = outline_of(ask("GET", "/console/documents/docs/a.py").text)
    assert [(level, title) for level, _, title in found] == [("1", "class A"), ("2", "b")]


def test_a_text_without_headings_has_no_outline(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "plain.txt", "# This is no heading of a text file.")
    assert 'id="outline"' not in ask("GET", "/console/documents/docs/plain.txt").text


def test_of_many_headings_the_first_are_listed(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "many.md", "\n\n".join(f"# Part {n}" for n in range(700)))
    text = ask("GET", "/console/documents/docs/many.md").text
    assert len(outline_of(text)) == 300
    assert "400 more headings are not listed" in text


TEA = "/console/documents/docs/tea.md"


def rows(text: str) -> dict[str, str]:
    """The rows of the table of what was derived, by what they are about."""
    table = text.partition('id="derived"')[2].partition("</table>")[0]
    found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table, re.DOTALL)
    return {name: " ".join(re.sub("<[^>]*>", " ", row).split()) for name, row in found}


def test_what_was_derived_says_from_which_version_and_by_what(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea.")
    kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps.")
    kb.put_document_layer("docs", "tea.md", "L0", "Tea.", prompt_sig="prompt/1")
    found = rows(ask("GET", "/console/documents/docs/tea.md").text)
    assert [*found] == ["Text", "Chunks", "Vectors", "L0 abstract", "L1 overview"]
    moment = f"{kb.get_document('docs', 'tea.md').updated_at:%Y-%m-%d %H:%M}"
    assert found["Text"].startswith(f"2 {moment} – as it was put")
    assert "2 " + moment in found["Chunks"]
    assert "markdown" in found["Chunks"]
    assert "hash-bag-of-words" in found["Vectors"]
    assert all(found[each].endswith("fresh") for each in ("Chunks", "Vectors"))
    assert "prompt/1" in found["L0 abstract"]
    assert found["L1 overview"] == "– – – not made"


def test_what_is_stale_or_missing_says_why() -> None:
    store = MemoryStore()
    options = ServiceOptions(embedder=FakeEmbedder(dimension=8))
    with Service(store, options=options) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea.")
        kb.put_document_layer("docs", "tea.md", "L0", "Tea.")
        kb.put_document("docs", "tea.md", "# Tea\n\nBlack tea.", embed="later")
        found = rows(Client(create_app(kb, console=True))("GET", TEA).text)
        assert found["Chunks"].endswith("fresh")
        assert found["Vectors"].endswith("not made")
        assert found["L0 abstract"].startswith("1 ")
        assert found["L0 abstract"].endswith("stale: the text has changed")
        kb.embed_pending("docs")
        chunkers = default_chunkers(ChunkConfig(size=99), MarkdownChunker(size=99))
        with Service(store, options=attrs.evolve(options, chunkers=chunkers)) as later:
            found = rows(Client(create_app(later, console=True))("GET", TEA).text)
            assert found["Chunks"].endswith("1 of 1 stale: the chunker has other settings now")
            assert found["Vectors"].endswith("fresh")


def test_hostile_headings_stay_text(kb: Service, ask: Client) -> None:
    name = f"{HOSTILE}.md"
    kb.put_document("docs", name, f"# {HOSTILE}\n\nText.")
    text = ask("GET", f"/console/documents/docs/{quote(name, safe='')}").text
    assert len(outline_of(text)) == 1
    assert len(read(text).active) == 1


def test_the_outline_is_that_of_the_shown_version(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "tea.md", "# First\n\nText.")
    kb.put_document("docs", "tea.md", "# Second\n\nText.")
    text = ask("GET", "/console/documents/docs/tea.md?v=1").text
    assert [title for _, _, title in outline_of(text)] == ["First"]
    assert [*rows(text)] == []


# The pages of a file


@attrs.frozen
class Desk:
    """A folder with a PDF that was synced into a store."""

    kb: Service
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "tea.pdf"

    def ask(self, path: str, kb: Service | None = None) -> Any:
        return Client(create_app(kb or self.kb, console=True))("GET", path)


PDF = "/console/documents/docs/tea.pdf"
IMAGE = "/console/pages/docs/tea.pdf/1"


@pytest.fixture
def desk(kb: Service, tmp_path: Path) -> Desk:
    for name in ("pypdfium2", "reportlab"):
        pytest.importorskip(name)
    made = Desk(kb, tmp_path / "folder")
    made.folder.mkdir()
    pages = [["Green tea steeps for three minutes."], ["Black tea for five."], ["Milk."]]
    made.file.write_bytes(make_pdf(pages))
    DirectorySync(kb, [SyncRoot(path=made.folder, dataset_id="docs")]).sync()
    return made


def test_the_page_of_a_passage_is_drawn_beside_the_text(desk: Desk) -> None:
    content = desk.kb.get_document("docs", "tea.pdf").content
    at = content.index("Black")
    text = desk.ask(f"{PDF}?from={at}&to={at + 9}").text
    found = re.search(r'<img class="page" src="([^"]+)" loading="lazy" width="\d+"', text)
    assert found
    assert found[1].startswith("/console/pages/docs/tea.pdf/2?")
    assert "Page 2 of the file" in text
    assert 'rel="prev"' in text
    assert 'rel="next"' in text
    answer = desk.ask(found[1].replace("&amp;", "&"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert answer.headers["cache-control"] == "private, no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.content.startswith(b"\x89PNG")
    assert answer.content != desk.ask("/console/pages/docs/tea.pdf/2").content  # it is marked
    last = desk.ask(f"{PDF}?page=3").text
    assert "Page 3 of the file" in last
    assert 'rel="next"' not in last


@pytest.mark.parametrize("page", ["0", "4", "x", "1.5", "-1", "²", "9" * 30])
def test_a_page_that_is_not_there_is_not_found(desk: Desk, page: str) -> None:
    answer = desk.ask(f"/console/pages/docs/tea.pdf/{quote(page)}")
    assert answer.status_code == 404
    assert "has no page" in answer.text


@pytest.mark.parametrize("page", ["0", "4", "x"])
def test_a_page_beside_that_is_not_there_is_refused(desk: Desk, page: str) -> None:
    answer = desk.ask(f"{PDF}?page={page}")
    assert answer.status_code == 400
    assert "page must be a whole number from 1 to 3" in answer.text


def test_a_document_of_no_pages_has_none(desk: Desk) -> None:
    desk.kb.put_document("docs", "plain.md", "Text.")
    assert "of the file" not in desk.ask("/console/documents/docs/plain.md").text
    assert desk.ask("/console/pages/docs/plain.md/1").status_code == 404
    assert desk.ask("/console/pages/docs/none.md/1").status_code == 404


def test_the_path_of_the_file_is_shown_to_whoever_sees_files(desk: Desk) -> None:
    assert f"<code>{desk.file}</code>" in desk.ask(PDF).text
    keys = KeyStore.of(desk.kb)
    headers = {"Cookie": f"triptych_key={keys.add('docs', dataset_ids=['docs']).token}"}
    app = create_app(desk.kb, console=True, authenticate=KeyAuthenticator(desk.kb, keys))
    assert str(desk.folder) not in Client(app)("GET", PDF, headers=headers).text
    desk.file.unlink()
    assert str(desk.folder) not in desk.ask(PDF).text


def not_drawn(desk: Desk, said: str) -> None:
    """Check that the page says why the file is not drawn, and that the picture is refused."""
    # The path of the file itself, where it is there, is shown to whoever sees files.
    text = re.sub(r'<pre class="copy file".*?</pre>', "", desk.ask(PDF).text)
    assert "<img" not in text
    assert said in text
    assert str(desk.folder) not in text
    answer = desk.ask(IMAGE)
    assert answer.status_code == 501
    assert said in answer.text
    assert str(desk.folder) not in answer.text


def test_a_file_that_changed_is_not_drawn(desk: Desk) -> None:
    desk.file.write_bytes(make_pdf([["Coffee."]]))
    not_drawn(desk, "the file has changed since")
    desk.file.unlink()
    not_drawn(desk, "cannot be read where it was synced from")


def test_no_link_out_of_the_folder_is_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    desk.file.rename(outside)
    desk.file.symlink_to(outside)
    not_drawn(desk, "leads out of the folder")
    desk.file.unlink()
    (tmp_path / "elsewhere").mkdir()
    outside.rename(tmp_path / "elsewhere" / "tea.pdf")
    desk.folder.rmdir()
    desk.folder.mkdir()
    (desk.folder / "in").symlink_to(tmp_path / "elsewhere")
    forged(desk, "in/tea.pdf", tmp_path / "elsewhere" / "tea.pdf")
    assert "leads out" in desk.ask("/console/pages/docs/in%2Ftea.pdf/1").text


def forged(desk: Desk, name: str, file: Path, *, of_sync: bool = True) -> None:
    """Put a document that says of itself that it was read from ``file``."""
    stored = desk.kb.get_document("docs", "tea.pdf")
    new = NewDocument(
        name=name,
        content=stored.content,
        metadata={"path": str(file), "source": str(file), "file": str(file)},
        original_sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        parser_sig=stored.parser_sig,
        outline=stored.system.outline,
        sync_root=stored.system.sync_root if of_sync else None,
    )
    assert not desk.kb.put_documents("docs", [new]).failed


@pytest.mark.parametrize("name", ["../outside.pdf", "a/../../outside.pdf", "/outside.pdf"])
def test_no_path_of_a_name_or_of_metadata_is_opened(desk: Desk, name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside.pdf"
    outside.write_bytes(desk.file.read_bytes())
    forged(desk, name, outside)
    answer = desk.ask(f"/console/pages/docs/{quote(name, safe='')}/1")
    assert answer.status_code in (404, 501)
    forged(desk, "own.pdf", outside, of_sync=False)
    answer = desk.ask("/console/pages/docs/own.pdf/1")
    assert (answer.status_code, "the file is not known here" in answer.text) == (501, True)


def test_only_a_key_to_everything_sees_files(desk: Desk) -> None:
    keys = KeyStore.of(desk.kb)
    authenticate = KeyAuthenticator(desk.kb, keys)
    for own, seen in ((keys.add("all"), True), (keys.add("docs", dataset_ids=["docs"]), False)):
        ask = Client(create_app(desk.kb, console=True, authenticate=authenticate))
        headers = {"Cookie": f"triptych_key={own.token}"}
        text = ask("GET", PDF, headers=headers).text
        assert "three minutes" in text
        assert ("<img" in text) is seen
        assert ("for keys to everything" in text) is not seen
        assert ask("GET", IMAGE, headers=headers).status_code == (200 if seen else 403)


def test_without_pdfium_the_extra_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    assert "install the extra pdf" in desk.ask(PDF).text


def test_over_another_server_there_is_no_file(desk: Desk) -> None:
    with served(desk.kb) as url, triptych.open(url) as remote:
        text = desk.ask(PDF, remote).text
        assert "three minutes" in text
        assert "the file is not known here" in text
        assert desk.ask(IMAGE, remote).status_code == 501
