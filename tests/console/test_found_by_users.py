"""What the console did wrong once: hostile names, wrong numbers, and words that led nowhere."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from support.rows import each_row

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import post
from triptych.question_log import QuestionLog
from triptych.service import Service
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore

NAMES = ["a/b.md", "50%.md", "a%2Fb.md", "<a>.md", ">=5.md", "!=x", "..a", "c++ & d?.md", "ä/ö.md"]


@pytest.fixture
def kb(tmp_path: Path) -> Any:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as opened:
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, write=True, console=True))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dataset", ["docs", "a/b", "a%2fb"])
def test_every_link_of_a_document_leads_on(
    dataset: str, name: str, kb: Service, ask: Client
) -> None:
    for text in ("Old kettle.", "New kettle."):
        kb.put_document(dataset, name, text, {"team": "<b>", "size": ">5", "year": 2024, "$x": "y"})
    kb.put_document(dataset, "other", "A kettle.", {"team": "<b>", "size": ">5", "$x": "y"})
    text = ask("GET", f"/?q=kettle&d={quote(dataset, safe='')}").text
    links = {unescape(each) for each in re.findall(r'href="(/[^"#]*)', text)}
    one = next(each for each in links if "/documents/" in each and quote(name, safe="") in each)
    listed = ask("GET", f"/console/datasets/{quote(dataset, safe='')}").text
    shown = ask("GET", one).text
    assert "New kettle." in shown
    links |= {
        unescape(each) for page in (listed, shown) for each in re.findall(r'href="(/[^"#]*)', page)
    }
    for link in links:
        assert ask("GET", link).status_code == 200, link
    versions = [each for each in links if "old=1" in each]
    assert versions
    assert "-Old kettle." in ask("GET", versions[0]).text
    path = one.partition("?")[0]
    assert post(ask, path, do="delete", confirm=name).status_code == 303
    assert [each.name for each in kb.list_documents(dataset)] == ["other"]


@each_row("value", ["9" * 5_000, "²", "-1", "1e9", "000000050000000", "0x10", "٣"])
@each_row(
    "path",
    [
        "/?q=kettle&as_of={}",
        "/?q=kettle&k={}",
        "/?q=kettle&from={}",
        "/console/documents/docs/a?v={}",
        "/console/documents/docs/a?from={}",
        "/console/documents/docs/a?to={}",
        "/console/documents/docs/a?old={}",
        "/console/documents/docs/a?old=1&new={}",
        "/console/sandbox?text=x&size={}",
    ],
)
def test_a_wrong_number_is_said_to_be_one(path: str, value: str, kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.")
    answer = ask("GET", path.format(quote(value)))
    assert answer.status_code in (200, 400, 404), answer.text
    assert "text/html" in answer.headers["content-type"]
    is_version = "as_of" in path and value.isascii() and value.isdigit()
    if answer.status_code == 200 and not is_version:  # said on the page
        assert 'role="alert"' in answer.text
    assert post(ask, "/console/documents/docs/a", do="restore", version=value).status_code in (
        400,
        404,
    )


def test_an_unknown_document_in_why_leaves_the_hits(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "how-to/expire.md", "A kettle expires.")
    text = ask("GET", "/?q=kettle&d=docs&why=expire.md").text
    assert "how-to/expire.md" in text
    assert "1 hit" in text
    assert "did you mean" in text
    assert 'name="why" value="expire.md"' in text


def test_an_unknown_dataset_is_an_error_and_not_all_of_them(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.")
    for path in ("/?q=kettle&d=nope", "/console/golden?dataset=nope", "/console/datasets/nope"):
        answer = ask("GET", path)
        assert answer.status_code == 404, path
        assert "nope" in answer.text
    form = {"q": "x", "dataset": "nope", "name": "a", "verdict": "right"}
    assert post(ask, "/console/golden", **form).status_code == 404


@pytest.mark.parametrize(
    "form",
    [
        {"q": "x", "name": "", "verdict": "right"},
        {"q": "x", "name": "none", "verdict": "right"},
        {"q": "x", "name": "a", "verdict": "maybe"},
        {"q": "x\0", "name": "a", "verdict": "right"},
        {"q": "x" * 20_000, "name": "a", "verdict": "right"},
        {"q": "", "name": "a", "verdict": "right"},
    ],
)
def test_a_judgement_that_nothing_could_use_is_refused(
    form: dict[str, str], kb: Service, ask: Client
) -> None:
    kb.put_document("docs", "a", "A kettle.")
    assert post(ask, "/console/golden", dataset="docs", **form).status_code in (400, 404)
    assert ask("GET", "/console/golden?dataset=docs&download=1").json() == {"queries": []}


def test_the_export_has_only_questions_that_have_a_right_document(kb: Service, ask: Client) -> None:
    for name in ("a", "b"):
        kb.put_document("docs", name, f"A kettle {name}.")
    for question, name, verdict in (
        ("one", "a", "right"),
        ("one", "b", "wrong"),
        ("two", "b", "wrong"),
    ):
        post(ask, "/console/golden", q=question, dataset="docs", name=name, verdict=verdict)
    (query,) = ask("GET", "/console/golden?dataset=docs&download=1").json()["queries"]
    assert query["relevance"] == {"a": 2, "b": 0}
    assert "1 question has no right document" in ask("GET", "/console/golden?dataset=docs").text


def test_golden_questions_open_with_a_dataset_that_has_some(kb: Service, ask: Client) -> None:
    for dataset in ("a", "b"):
        kb.put_document(dataset, "x", "A kettle.")
    post(ask, "/console/golden", q="kettle", dataset="b", name="x", verdict="right")
    assert "kettle" in ask("GET", "/console/golden").text


def test_numbers_of_metadata_are_filtered_by(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.", {"year": 2024, "done": True})
    kb.put_document("docs", "b", "A kettle.", {"year": 2025, "done": False})
    kb.put_document("docs", "c", "A kettle.", {"year": 2024, "done": False})
    text = ask("GET", "/?q=kettle&d=docs").text
    for chosen in ("2024", "false"):
        link = re.search(rf'href="([^"]*)">{chosen} <small>2</small>', text)
        assert link is not None, chosen
        found = ask("GET", unescape(link[1])).text
        assert "2 hits" in found
    assert "/documents/docs/b" not in ask("GET", "/console/datasets/docs?f.year=%232024").text


def test_an_item_of_a_list_is_filtered_by(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.", {"tags": ["sea", "pot"]})
    kb.put_document("docs", "b", "A kettle.", {"tags": "sea"})
    kb.put_document("docs", "c", "A kettle.", {"tags": ["seal"]})
    text = ask("GET", "/?q=kettle&d=docs").text
    link = re.search(r'href="([^"]*)">sea <small>2</small>', text)
    assert link is not None
    assert "2 hits" in ask("GET", unescape(link[1])).text
    listed = ask("GET", "/console/datasets/docs?f.tags=sea").text
    assert [each for each in "abc" if f"/documents/docs/{each}" in listed] == ["a", "b"]


def test_a_put_replaces_nothing_unless_that_is_meant(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.")
    answer = post(ask, "/console/put", dataset="docs", name="a", content="Gone.")
    assert answer.status_code == 409
    assert kb.get_document("docs", "a").content == "A kettle."
    assert "Gone." in answer.text
    post(ask, "/console/put", dataset="docs", name="a", content="New.", replace="1")
    assert kb.get_document("docs", "a").content == "New."


@pytest.mark.parametrize("dataset", ["docs", ".."])
@pytest.mark.parametrize("name", [".", "..", "~.", "~~..", "~", "...", "a/../b"])
def test_names_that_a_browser_would_take_for_a_path_are_opened(
    name: str, dataset: str, kb: Service, ask: Client
) -> None:
    answer = post(ask, "/console/put", dataset=dataset, name=name, content="Here it is.")
    assert answer.status_code == 303
    page = answer.headers["location"].partition("?")[0]
    # What a browser makes of a path, by the standard of URLs.
    assert not {".", ".."} & {unquote(part) for part in page.split("/")}
    assert "Here it is." in ask("GET", page).text
    listed = ask("GET", f"{page.rpartition('/')[0].replace('documents', 'datasets')}").text
    assert f'href="{page}"' in listed
    kept = kb.get_document(dataset, name)
    assert post(ask, page, do="delete", confirm=name, seen=str(kept.version)).status_code == 303
    assert kb.count_documents(dataset) == 0


def test_stale_layers_stand_on_the_work_list_and_a_build_says_what_it_made(
    kb: Service, ask: Client
) -> None:
    kb.put_document("docs", "a", "A kettle.")
    answer = post(ask, "/console/work", do="layers", dataset="docs", max_calls="5")
    assert "layers were made" in unescape(ask("GET", answer.headers["location"]).text)
    text = ask("GET", "/console/work?plan=docs").text
    assert "all chunks, vectors and layers that are stored are up to date" in text
    assert "Layers that were never made are in the plan" in text
    kb.put_document("docs", "a", "A new kettle.")
    text = ask("GET", "/console/work").text
    assert "Nothing waits" not in text
    assert "stale layers" in text


@pytest.mark.parametrize("path", ["/console/work", "/console/documents/docs/a", "/console/keys"])
def test_an_unknown_action_is_refused(path: str, kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.")
    assert post(ask, path, do="dance").status_code == 400


def test_what_is_not_there_is_a_page_for_a_browser_and_json_for_a_program(ask: Client) -> None:
    for path in ("/console/nope", "/nope", "/console/documents/%ff/x"):
        shown = ask("GET", path, headers={"Accept": "text/html,*/*;q=0.8"})
        assert shown.status_code in (400, 404)
        assert "Back to the search" in shown.text
        assert ask("GET", path).headers["content-type"] == "application/json"


def test_the_doctor_reads_everything_only_for_who_may_write(kb: Service) -> None:
    kb.put_document("docs", "a", "A kettle.", {"team": "red"})
    keys = KeyStore.of(kb)
    token = keys.add("reader").token
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True)
    headers = {"Cookie": f"triptych_key={token}"}
    text = Client(app)("GET", "/console/work?doctor=1", headers=headers).text
    assert "found nothing wrong" not in text
    assert "Examine" not in text


def test_the_sign_in_page_speaks_to_a_person(kb: Service) -> None:
    keys = KeyStore.of(kb)
    keys.add("reader")
    ask = Client(create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True))
    text = post(ask, "/console/sign-in", key="tk_wrong").text
    assert "Authorization" not in text
    assert "triptych admin keys add" in text


def test_a_kept_setting_is_json(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.")
    post(ask, "/console/golden", q="kettle", dataset="docs", name="a", verdict="right")
    assert kb.capabilities.settings is not None
    text = kb.capabilities.settings.get_setting("golden/docs")
    assert text is not None
    assert json.loads(text)["queries"][0]["question"] == "kettle"


def test_old_documents_that_answers_use_may_have_any_name(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="hash", question_log=True) as kb:
        for name in ("<a>.md", "$and"):
            kb.put_document("docs", name, "A kettle boils water for tea.")
        log = QuestionLog(kb.capabilities.settings)
        hits = kb.search("kettle", dataset_id="docs").hits
        assert log.note("a kettle of what", ["docs"], "weak", hits) is None
        text = unescape(Client(create_app(kb, console=True))("GET", "/console/gaps").text)
        assert "Old documents that answers use" in text
        assert "<bdi><a>.md</bdi>" in text
        assert "<bdi>$and</bdi>" in text


def test_chunks_beyond_those_that_are_drawn_are_told_of(kb: Service, ask: Client) -> None:
    kb.put_document(
        "docs", "long.md", "\n\n".join(f"## {at}\n\n{'word ' * 150}" for at in range(2_100))
    )
    assert "more than 2,000 chunks" in ask("GET", "/console/documents/docs/long.md").text
    kb.put_document("docs", "short.md", "One.")
    assert "· 1 chunk<" in ask("GET", "/console/documents/docs/short.md").text


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("year>=2024", '{"year": {"$gte": 2024}}'),
        ("kind=note\nlang != en", "a condition is KEY=VALUE"),
        ('{"team": "red", "team": "blue"}', "has the key 'team' twice"),
        ('{"year": NaN}', "NaN is not a number"),
    ],
)
def test_a_key_s_conditions_are_those_that_were_typed(
    where: str, said: str, kb: Service, ask: Client
) -> None:
    answer = post(ask, "/console/keys", do="add", name="reader", where=where)
    assert answer.status_code == 400
    assert said in unescape(answer.text)
    assert list(KeyStore.of(kb).list()) == []


def test_what_no_page_offers_is_refused_by_name(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "a", "A kettle.")
    for path, said in (
        ("/console/datasets/docs?sort=size", "sort is one of $name, "),
        ("/console/sandbox?text=a&chunker=knife", "chunker is one of markdown, "),
        ('/?f.year=%23{"a":1,"a":2}&q=kettle', "is no value of a filter"),
    ):
        answer = ask("GET", path)
        assert answer.status_code == 400
        assert said in unescape(answer.text)
    assert ask("GET", "/console/datasets/docs?sort=&prefix=a").status_code == 200
