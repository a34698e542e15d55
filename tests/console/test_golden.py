"""The page of golden questions: two settings compared, and what the numbers say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import post
from triptych.question_log import QuestionLog
from triptych.search import Pipeline
from triptych.service import Service
from triptych_evaluation import compare, evaluate, read_golden
from triptych_evaluation.significance import few_queries_warning
from triptych_server.http import create_app

THINGS = ("kettle", "teapot", "ladle", "whisk", "grater", "sieve")


@pytest.fixture
def kb() -> Iterator[Service]:
    pipelines = [
        Pipeline(name="by <words>", lanes=["bm25"]),
        Pipeline(name="lost", search={"where": {"kind": "none"}}),
    ]
    with triptych.open(
        "memory://", embedder="hash", pipelines=pipelines, question_log=True
    ) as opened:
        for thing in THINGS:
            opened.put_document("docs", f"{thing}.md", f"The {thing} hangs by the window.")
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    asked = Client(create_app(kb, write=True, console=True))
    for thing in THINGS:
        form = {"q": f"where is the {thing}", "dataset": "docs", "name": f"{thing}.md"}
        post(asked, "/console/golden", **form, verdict="right")
    return asked


def asks(kb: Service, *pipelines: Pipeline) -> Client:
    """A console with other pipelines, and the questions of before."""
    other = Service(kb.store, attrs.evolve(kb.options, pipelines=pipelines))
    return Client(create_app(other, write=True, console=True))


def compared(ask: Client, a: str, b: str) -> str:
    return unescape(ask("GET", "/console/golden", params={"dataset": "docs", "a": a, "b": b}).text)


def test_the_verdict_is_said_in_words(ask: Client) -> None:
    for a, b, verdict in (
        ("mode=bm25", "mode=bm25", "No difference is shown: the interval contains 0."),
        ("mode=bm25", "pipeline=lost", "A is better: the interval is below 0."),
        ("pipeline=lost", "mode=bm25", "B is better: the interval is above 0."),
    ):
        page = compared(ask, a, b)
        assert verdict in page
        assert page.count("better:") + page.count("difference is shown") == 1
        assert "95% interval" in page
    (warning,) = few_queries_warning(len(THINGS))
    assert warning in page


def test_five_questions_show_no_difference_whatever_their_interval(kb: Service) -> None:
    """Their 32 signs have p at 2 in 32 at least."""
    ask = Client(create_app(kb, write=True, console=True))
    for thing in THINGS[:5]:
        form = {"q": f"where is the {thing}", "dataset": "docs", "name": f"{thing}.md"}
        post(ask, "/console/golden", **form, verdict="right")
    page = compared(ask, "mode=bm25", "pipeline=lost")
    assert "No difference is shown: p is above 0.05." in page
    assert "is better" not in page


def test_the_figures_are_those_of_the_evaluation(ask: Client, kb: Service, tmp_path: Path) -> None:
    path = tmp_path / "golden.json"
    path.write_bytes(ask("GET", "/console/golden?dataset=docs&download=1").content)
    kb.delete_document("docs", "kettle.md")
    page = compared(ask, "mode=hybrid", "pipeline=by <words>")
    found = evaluate(kb, read_golden(path), dataset_id="docs", pipelines=["by <words>"])
    (less,) = compare(
        found, found, metrics=["ndcg@10"], modes=[("hybrid", "by <words>")]
    ).differences
    assert f"A (hybrid) {less.mean_a:.3f}, B (pipeline by <words>) {less.mean_b:.3f}." in page
    assert f"B minus A is {less.estimate.mean:+.3f}" in page
    assert f"p {less.p:.3f}" in page
    # What lowers a figure is said, once.
    assert page.count("the dataset lacks 1 relevant document or passage") == 1
    assert QuestionLog(kb.capabilities.settings).questions() == []


def test_a_setting_is_a_mode_or_a_pipeline_with_any_name(ask: Client, kb: Service) -> None:
    ask = asks(kb, Pipeline(name="a&mode=b+c"))
    assert "B (pipeline a&mode=b+c)" in compared(ask, "mode=bm25", "pipeline=a&mode=b+c")
    for typed in ("bm25", "top_k=3", "mode"):
        answer = ask("GET", "/console/golden", params={"dataset": "docs", "a": typed, "b": typed})
        assert answer.status_code == 400
        assert "mode=NAME or pipeline=NAME" in answer.text or typed == "mode"


def test_settings_are_called_as_in_the_menu_and_lead_to_their_hits(ask: Client) -> None:
    page = ask("GET", "/console/golden?dataset=docs&a=mode%3Dbm25&b=pipeline%3Dby+<words>").text
    heads = [unescape(each) for each in re.findall(r'<th scope="col">([^<]*)</th>', page)]
    assert heads[-4:] == ["Question", "A: bm25", "B: pipeline by <words>", "Difference"]
    rows = page.partition('id="compare"')[2]
    links = [unescape(each) for each in re.findall(r'<td><a href="([^"]*)">', rows)]
    assert len(links) == 2 * len(THINGS)
    question = "q=where+is+the+kettle&d=docs&plain=1&listed=1"
    assert f"/?{question}&mode=bm25" in links
    assert f"/?{question}&pipeline=by+%3Cwords%3E" in links
    for link in links:
        assert 'id="hit-1"' in ask("GET", link).text


def test_questions_that_are_left_out_are_counted(ask: Client, kb: Service) -> None:
    assert "left out here" not in compared(ask, "mode=bm25", "mode=bm25")
    kept = [
        {"id": str(at), "question": f"the kettle {at}", "relevance": {"kettle.md": 2}}
        for at in range(201)
    ]
    settings = kb.capabilities.settings
    assert settings is not None
    before = settings.get_setting("golden/docs")
    assert settings.set_setting("golden/docs", json.dumps({"queries": kept}), expected=before)
    page = compared(ask, "mode=bm25", "mode=bm25")
    assert "The first 200 questions are compared; 1 more is left out here." in page


def test_without_a_pipeline_it_says_how_to_get_one(ask: Client, kb: Service) -> None:
    hint = "<code>[pipelines.NAME]</code>"
    assert hint not in ask("GET", "/console/golden?dataset=docs").text
    ask = asks(kb)
    page = ask("GET", "/console/golden?dataset=docs").text
    assert hint in page
    assert "start the console again" in page
