"""A document's outline, how what is made of it was made, and the pages of its file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, read
from triptych.chunking import ChunkConfig, MarkdownChunker, Part, default_chunkers
from triptych.parsing import ParsedFile
from triptych.service import Service, ServiceOptions
from triptych.testing.fakes import FakeEmbedder
from triptych_adapters.http import create_app
from triptych_backends.memory import MemoryStore

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
    text = ask("GET", "/console/documents/docs/guide.md?from=0&to=7").text
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
