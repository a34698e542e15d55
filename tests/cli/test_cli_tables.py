"""Pipelines over tables of one's own, from triptych.toml: the commands and pgEdge's routes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.asgi import Client
from support.cli_run import Shell, fresh_shell
from support.foreign_tables import EMBEDDER, ForeignTables, foreign_tables, vector_of
from support.postgres import PostgresServer
from support.trusted import write_trusted
from triptych import ServiceOptions
from triptych_factory import Settings, wire
from triptych_server.http import create_app
from triptych_testing.fakes import ScriptedLLM

pytest.importorskip("psycopg")

ROWS = {
    "k-1": "Turn the lid of the kettle to the left, and pull.",
    "t-1": "The teapot holds four cups.",
}


@pytest.fixture(scope="module")
def tables(postgres_server: PostgresServer) -> Iterator[ForeignTables]:
    with foreign_tables(postgres_server) as made:
        made.execute(
            "CREATE TABLE manuals (sku text PRIMARY KEY, body text, lang text, "
            f"v vector({EMBEDDER.dimension}))"
        )
        rows = [(name, text, "en", vector_of(text)) for name, text in ROWS.items()]
        made.insert("manuals", "sku, body, lang, v", rows)
        yield made


@pytest.fixture
def shell(tables: ForeignTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    write_trusted(tmp_path, described(tables))
    return shell


def described(tables: ForeignTables, text: str = "body") -> str:
    return f"""
[pipelines.manuals]
description = "The manuals of the shop"
url = {json.dumps(tables.url)}
embedder = "hash"
tables = [
    {{ table = "public.manuals", id = "sku", text = "{text}", vector = "v", metadata = ["lang"] }},
]
top_k = 5
"""


def test_search_and_context_by_tables_without_a_store(shell: Shell) -> None:
    ran = shell("search", "open the kettle", "--pipeline", "manuals", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["hits"][0]["doc_name"] == "k-1"
    assert ran.json["hits"][0]["metadata"] == {"lang": "en"}
    assert not shell.store.exists()
    plain = shell("search", "open the kettle", "--pipeline", "manuals")
    assert plain.code == 0, plain.err
    assert ROWS["k-1"] in plain.text
    assert shell("search", "kettle", "--pipeline", "manuals", "--where", "lang=fr").text == ""
    pack = shell("context", "open the kettle", "--pipeline", "manuals")
    assert pack.code == 0, pack.err
    assert ROWS["k-1"] in pack.text


def test_the_doctor_and_the_list_of_pipelines_name_what_is_wrong(
    shell: Shell, tables: ForeignTables
) -> None:
    shell.write("a.md", "text")
    assert shell("put", "a.md").code == 0
    assert "manuals" in shell("list", "--pipelines").text
    assert shell("list", "--pipelines").code == 0
    report = shell("doctor", "--json")
    assert report.code == 0, report.both
    assert report.json["checked"]["tables"] == 1
    write_trusted(Path.cwd(), described(tables, text="bdy"))
    assert "did you mean 'body'" in shell("list", "--pipelines").text
    (finding,) = shell("doctor", "--json").json["findings"]
    assert (finding["check"], finding["dataset_id"]) == ("tables.columns", "manuals")
    assert "did you mean 'body'" in finding["detail"]
    failed = shell("search", "kettle", "--pipeline", "manuals")
    assert failed.code != 0
    assert "did you mean 'body'" in failed.err


def test_pgedges_routes_answer_from_tables(shell: Shell) -> None:
    answer = "Turn the lid to the left [1]."
    settings = Settings.resolve({"url": "memory://"})
    options = ServiceOptions(llm=ScriptedLLM(answer, answer))
    with wire(settings, options, named=None) as service:
        client = Client(create_app(service))
        listed = client("GET", "/v1/pipelines").json()
        assert listed["pipelines"] == [
            {"name": "manuals", "description": "The manuals of the shop"}
        ]
        asked = {"query": "How do I open the kettle?", "top_n": 1}
        found = client("POST", "/v1/pipelines/manuals", json=asked)
        assert found.status_code == 200, found.text
        assert found.json()["answer"] == answer
        (source,) = found.json()["sources"]
        assert (source["id"], source["content"]) == ("manuals/k-1", ROWS["k-1"])
        assert found.json()["warnings"] == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("url = 'postgresql://h/d'", "url is only for a pipeline over tables"),
        ("tables = [{ table = 't', text = 'b' }]", "needs the database"),
        ("url = 'postgresql://h/d'\ntables = [{ table = 't' }]", "names no text column"),
        ("url = 'postgresql://h/d'\ntables = 't'", "give a list of tables"),
        ("url = 'postgresql://h/d'\ntables = [{ table = 't', txt = 'b' }]", "unknown key 'txt'"),
        ("url = 'postgresql://h/d'\ntables = [{ table = 'a.b.c', text = 'b' }]", "no table"),
    ],
)
def test_a_mistake_is_named_with_its_pipeline(shell: Shell, line: str, said: str) -> None:
    write_trusted(Path.cwd(), f"[pipelines.shop]\n{line}\n")
    ran = shell("search", "any", "--pipeline", "shop")
    assert ran.code != 0
    assert said in ran.err
    assert "'shop'" in ran.err
