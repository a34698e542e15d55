"""A search of the console, copied as Python, command, curl or MCP call, gives the same hits."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import attrs
import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.cli_run import Shell, fresh_shell
from support.console import post
from triptych.search import Pipeline
from triptych.service import Service
from triptych_adapters.tools import knowledge_tools
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore

PLAIN = [
    "q=kettle",
    "q=a well-known kettle",
    "q=-kettle&k=3&plain=1",
    'q="a kettle" -boiled&plain=1',
    "q=kettle&d=docs&mode=bm25",
    "q=kettle&d=docs&layer=L0",
    "q=kettle&d=docs&f.kind=<b>&f.kind=x y",
]
FULL = [
    'q="a kettle" -boiled',
    'q="a kettle" -boiled&d=docs',
    "q=kettle kind:<b>",
    "q=kettle&d=docs&d=more&fresh_only=1",
    "q=kettle&d=docs&f.year=#2024&as_of=1&from=1",
    "q=kettle&pipeline=one of.mine&k=2",
]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.fixture
def kb(shell: Shell) -> Iterator[Service]:
    shell.store.parent.mkdir(parents=True)
    pipelines = [Pipeline(name="one of.mine", datasets=["docs"], lanes=["bm25"])]
    with triptych.open(shell.store, embedder="hash", pipelines=pipelines) as opened:
        for dataset, name, kind in (
            ("docs", "a", "<b>"),
            ("docs", "b", "x y"),
            ("docs", "c", "other"),
            ("more", "d", "x y"),
        ):
            text = f"A kettle {name}, not boiled." if name == "a" else f"A kettle {name}."
            opened.put_document(dataset, name, text, {"kind": kind, "year": 2024})
        opened.put_document_layer("docs", "a", "L0", "All about a kettle.")
        yield opened


def found(kb: Service, typed: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The calls of a page, and its hits."""
    page = Client(create_app(kb, console=True))("GET", "/", params=parse_qsl(typed)).text
    calls = dict(re.findall(r"<h3>(\w+)</h3><pre[^>]*><code>(.*?)</code>", page, re.DOTALL))
    hits = re.findall(r'id="hit-\d+"[^>]*>\s*<h3><a href="/console/documents/(\w+)/(\w+)', page)
    return {name: unescape(each) for name, each in calls.items()}, hits


def places(hits: Any) -> list[tuple[str, str]]:
    return [(each["dataset_id"], each["doc_name"]) for each in hits]


@pytest.mark.parametrize("typed", PLAIN + FULL)
def test_python_and_curl_find_the_same(typed: str, kb: Service) -> None:
    calls, hits = found(kb, typed)
    assert hits
    result = eval(calls["Python"], {"kb": kb})
    assert [(hit.dataset_id, hit.doc_name) for hit in result] == hits
    _, _, url, *options = shlex.split(calls["curl"])
    given = dict(zip(options[::2], options[1::2], strict=True))
    asked = Client(create_app(kb, console=True))
    answer = asked(
        "POST", urlsplit(url).path, content=given["-d"], headers=[given["-H"].split(": ")]
    )
    assert places(answer.json()["hits"]) == hits


@pytest.mark.parametrize("typed", [each for each in PLAIN + FULL if "pipeline" not in each])
def test_the_command_finds_the_same(typed: str, kb: Service, shell: Shell) -> None:
    calls, hits = found(kb, typed)
    assert ("Shell" in calls) is ("d=more" not in typed)
    if "d=more" in typed:
        return
    program, command, *words = shlex.split(calls["Shell"])
    done = shell(command, "--json", *words)
    assert (program, done.code) == ("triptych", 0), done.err
    assert places(json.loads(done.out)["hits"]) == hits


@pytest.mark.parametrize("typed", PLAIN + FULL)
def test_a_tool_finds_the_same_or_is_not_offered(typed: str, kb: Service) -> None:
    calls, hits = found(kb, typed)
    assert ("MCP" in calls) is (typed in PLAIN)
    if "MCP" in calls:
        call = json.loads(calls["MCP"])
        (tool,) = (each for each in knowledge_tools(kb) if each.name == call["name"])
        assert places(json.loads(tool.call(call["arguments"]))["hits"]) == hits


def test_where_keys_are_asked_for_the_call_sends_one(kb: Service) -> None:
    keys = KeyStore.of(kb)
    token = keys.add("reader").token
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True)
    page = Client(app, Authorization=f"Bearer {token}")("GET", "/?q=kettle").text
    assert "-H &#34;Authorization: Bearer $TRIPTYCH_API_KEY&#34;" in page
    assert token not in page


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("mode=bm25", "mode=hybrid"),
        ("mode=hybrid", "pipeline=one of.mine"),
        ("pipeline=one of.mine", "pipeline=lost"),
        ("mode=bm25", "mode=bm25"),
    ],
)
def test_a_comparison_is_repeated_on_the_command_line(
    a: str, b: str, kb: Service, shell: Shell
) -> None:
    pytest.importorskip("yaml")
    tables = '[pipelines."one of.mine"]\ndatasets = ["docs"]\nlanes = ["bm25"]\n'
    shell.write("triptych.toml", f'{tables}[pipelines.lost]\nwhere = {{ kind = "none" }}\n')
    lost = Pipeline(name="lost", search={"where": {"kind": "no"}})
    kb = Service(kb.store, attrs.evolve(kb.options, pipelines=[*kb.options.pipelines, lost]))
    ask = Client(create_app(kb, write=True, console=True))
    for name in ("a", "b", "c"):
        form = {"q": f"a kettle {name}", "dataset": "docs", "name": name, "verdict": "right"}
        post(ask, "/console/golden", **form)
    saved = ask("GET", "/console/golden?dataset=docs&download=1").content
    shell.write("golden.json", saved)
    page = ask("GET", "/console/golden", params={"dataset": "docs", "a": a, "b": b}).text
    (command,) = re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)
    evaluated, compared = (shlex.split(each)[1:] for each in unescape(command).splitlines())
    ran = shell(*evaluated)
    assert ran.code == 0, ran.err
    ((metric, _, mean_a, mean_b, less, low, high, p, *_),) = shell(*compared).rows
    assert metric == "ndcg@10"
    figures = re.search(r"nDCG@10: .*?\)\.", page)
    assert figures
    shown = re.findall(r"[-+]?\d\.\d{3}", figures[0])
    assert [float(each) for each in shown] == pytest.approx(
        [float(each) for each in (mean_a, mean_b, less, low, high, p)], abs=6e-4
    )
