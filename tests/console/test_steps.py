"""The table of what each step of a search did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE
from support.servers import served
from triptych.contracts import HitReader
from triptych.records import Hit, ResolvedQuery
from triptych.search import Neighbours, Pipeline
from triptych.search.fusion import ZScoreRanker
from triptych.service import Service
from triptych_server.http import create_app


@attrs.frozen
class LastFirst:
    """Puts the last hit first, leaves out the best one, and adds one of another document."""

    def depth(self, query: ResolvedQuery) -> int:
        return query.top_k

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        return [*hits[:0:-1], attrs.evolve(hits[0], doc_name="added.md")]


@pytest.fixture
def kb() -> Iterator[Service]:
    pipelines = [
        Pipeline(
            name="turned",
            description="<b>",
            datasets=["d"],
            lanes=["bm25"],
            postprocessors=[LastFirst()],
        ),
        Pipeline(name="wide", lanes=["bm25"], postprocessors=[Neighbours()]),
        Pipeline(name="keyword", search={"mode": "bm25"}),
        Pipeline(name="words", ranker=ZScoreRanker(weights={"bm25": 3.0})),
    ]
    with triptych.open("memory://", embedder="hash", pipelines=pipelines) as opened:
        for at in range(4):
            opened.put_document("d", f"{at}.md", "tea " * (8 - at) + "filler " * at)
        long = "\n\n".join(f"## Part {at}\n\nThe cup of part {at}. " * 20 for at in range(3))
        opened.put_document("d", f"{HOSTILE}.md", long)
        yield opened


def table(kb: Service, query: str) -> dict[str, list[str]]:
    """The rows of the page's table by their first cell, and the head by ""."""
    page = Client(create_app(kb, console=True))("GET", f"/?d=d&steps=1&{query}").text
    part = page.partition('<h2 id="steps">')[2].partition("</section>")[0]
    rows = {}
    for row in re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL):
        first, *cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        rows[unescape(re.sub("<[^>]+>", "", first))] = [unescape(each) for each in cells]
    return rows


def test_a_step_moves_drops_and_adds(kb: Service) -> None:
    rows = table(kb, "q=tea&pipeline=turned&k=4")
    assert rows.pop("Passage") == ["fusion", "read", "LastFirst", "shown"]
    assert list(rows) == [
        *(f"{at}.md chunk 0" for at in (3, 2, 1)),
        "added.md chunk 0",
        "0.md chunk 0",
    ]
    assert rows["3.md chunk 0"] == ["4", "4", "1, up 3", "1"]
    assert rows["2.md chunk 0"] == ["3", "3", "2, up 1", "2"]
    assert rows["1.md chunk 0"] == ["2", "2", "3, down 1", "3"]
    assert rows["added.md chunk 0"] == ["", "", "4, added", "4"]
    assert rows["0.md chunk 0"] == ["1", "1", "dropped: left out by LastFirst", ""]


def test_what_is_beyond_the_hits_says_so(kb: Service) -> None:
    rows = table(kb, "q=tea&mode=bm25&k=2")
    assert rows["Passage"] == ["bm25", "read", "shown"]
    assert rows["0.md chunk 0"] == ["1", "1", "1"]
    dropped = [each for cells in rows.values() for each in cells if each.startswith("dropped")]
    assert all("beyond" in each for each in dropped)


def test_a_passage_that_another_takes_in_is_a_part_of_it(kb: Service) -> None:
    rows = table(kb, "q=cup+part&pipeline=wide")
    assert rows["Passage"][2] == "Neighbours"
    merged = [cells[2] for cells in rows.values() if "part of" in cells[2]]
    assert merged
    assert set(merged) == {"dropped: its text is a part of 1"}


def test_a_search_that_finds_nothing_and_one_of_another_server_say_so(kb: Service) -> None:
    nothing = Client(create_app(kb, console=True))("GET", "/?d=d&steps=1&mode=bm25&q=zebra").text
    assert "No lane found a passage" in nothing
    with served(kb) as url, triptych.open(url) as remote:
        page = Client(create_app(remote, console=True))("GET", "/?d=d&steps=1&q=tea").text
    assert "Another server ran this search" in page
    assert page.count("described where the server runs") == 5
    assert "3.md" in page


def test_each_pipeline_says_what_it_is_made_of(kb: Service) -> None:
    page = Client(create_app(kb, console=True))("GET", "/").text
    assert "A search has no option for a ranker or a reranker" in page
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in page.split("<tr>")[2:7]]
    none, keyword, turned, wide, words = ([unescape(each) for each in row] for row in rows)
    built_in = "KeywordBoost, CodeRanking"
    assert none == ["none", "all", "–", "bm25, vector", "ZScoreRanker", "–", built_in]
    assert turned[0] == 'turned<br><small dir="auto"><b></small>'
    # One lane has nothing to fuse.
    assert turned[1:] == ["d", "–", "bm25", "–", "–", f"{built_in}, LastFirst"]
    assert keyword[3:6] == ["bm25", "–", "–"]
    assert words[3:6] == ["bm25, vector", "ZScoreRanker", "bm25=3.0, vector=1.0"]
    assert wide[6] == f"{built_in}, Neighbours"
