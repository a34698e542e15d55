"""The console's pages over a real store: what they show, and what they let a person do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, strategies as st

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import HOSTILE, TOKEN, post, read
from support.servers import served
from triptych.access import Access
from triptych.errors import PendingReviewError, ProviderError
from triptych.proposals import Proposals
from triptych.question_log import QuestionLog
from triptych.records import NewDocument
from triptych.records.serialization import to_json
from triptych.service import Service
from triptych_server.console import documents
from triptych_server.console.documents import Span, pieces
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeLLM


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as opened:
        docs = opened.dataset("docs")
        docs.put("guide/tea.md", "# Tea\n\nGreen tea steeps for two minutes.", {"kind": "guide"})
        docs.put("guide/tea.md", "# Tea\n\nGreen tea steeps for three minutes.", {"kind": "guide"})
        docs.put("coffee.md", "# Coffee\n\nBeans are roasted.", {"kind": "note"})
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, write=True, console=True))


PAGES = [
    "/",
    "/?q=green+tea&lanes=1&numbers=1&why=coffee.md",
    "/?q=nothing+of+the+kind&mode=bm25",
    "/?q=tea&d=docs&f.kind=note",
    "/?q=tea&as_of=nonsense",
    "/console/ask",
    "/console/datasets",
    "/console/datasets/docs",
    "/console/documents/docs/guide%2Ftea.md?old=1&new=2&from=0&to=5",
    "/console/put",
    "/console/sandbox?text=One.+Two.",
    "/console/work?plan=docs&doctor=1",
    "/console/reviews",
    "/console/gaps",
    "/console/impact",
    "/console/impact?dataset=docs&name=guide%2Ftea.md",
    "/console/golden",
    "/console/connect",
    "/console/keys",
    "/console/sign-in",
]


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_whole_and_runs_nothing_but_the_console_s_script(
    path: str, write: bool, kb: Service
) -> None:
    answer = Client(create_app(kb, write=write, console=True))("GET", path)
    assert answer.status_code == 200
    tags = read(answer.text)
    assert tags.open == []
    assert all(each.startswith("script /console/static/") for each in tags.active)
    assert len(tags.active) == 1
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert answer.headers["cache-control"] == "private, no-store"
    forms = re.findall(r'<form method="post"([^>]*)>', answer.text)
    assert write or [each for each in forms if "/sign-in" not in each] == []


def test_a_search_marks_words_and_links_to_the_passage(ask: Client) -> None:
    text = ask("GET", "/?q=green+tea&d=docs").text
    assert "<mark>Green</mark> <mark>tea</mark> steeps for three" in text
    assert re.search(r"/console/documents/docs/guide%2Ftea\.md\?v=2&amp;from=\d+&amp;to=\d+", text)
    call = "kb.search('green tea', dataset_id='docs', top_k=10, syntax=True)"
    assert call in unescape(text)


def test_a_quote_that_is_not_closed_is_warned_of(ask: Client) -> None:
    assert "has no partner" in ask("GET", "/?q=%22green+tea").text
    assert "has no partner" not in ask("GET", "/?q=%22green+tea&plain=1").text


def test_it_says_why_a_document_is_not_found(ask: Client) -> None:
    text = ask("GET", "/?q=green+tea&d=docs&mode=bm25&why=coffee.md").text
    assert "is not among the hits" in text
    assert "not_found" in text
    assert "green, tea" in text


def test_a_document_shows_chunks_versions_and_their_difference(ask: Client) -> None:
    path = "/console/documents/docs/guide%2Ftea.md"
    text = ask("GET", f"{path}?old=1&new=2&view=source").text
    assert 'class="chunk-a"' in text
    assert '<span class="added">+Green tea steeps for three minutes.</span>' in text
    earlier = ask("GET", f"{path}?v=1").text
    assert "two minutes" in earlier
    assert "an earlier state" in earlier


@pytest.mark.parametrize(
    ("path", "current"),
    [
        ("/", ["page", "Search"]),
        ("/console/datasets", ["page", "Documents"]),
        ("/console/documents/docs/coffee.md", ["true", "Documents"]),
        ("/console/put", ["true", "Documents"]),
    ],
)
def test_the_menu_says_where_one_is(path: str, current: list[str], ask: Client) -> None:
    header = ask("GET", path).text.partition("</header>")[0]
    found = re.findall(r'aria-current="(\w+)">([^<]+)<', header)
    assert found == [tuple(current)]


def test_the_menu_counts_what_waits_for_whoever_sees_it(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="none", question_log=True) as kb:
        kb.put_document("docs", "tea.md", "Tea.")
        Proposals.of(kb).set_reviewed("docs", True)
        bot = kb.restricted(Access(can_write=True, agent=True))
        with pytest.raises(PendingReviewError):
            bot.put_document("docs", "new.md", "Text.")
        for asked in ("a zeppelin", "zeppelin, a", "another thing"):
            kb.search(asked, dataset_id="docs")
        keys = KeyStore.of(kb)
        app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True)
        for dataset_ids, found in ((None, ["1", "2"]), (["other"], [])):
            token = keys.add("x", can_write=True, dataset_ids=dataset_ids).token
            key = {"Cookie": f"triptych_key={token}"}
            header = Client(app)("GET", "/", headers=key).text.partition("</header>")[0]
            links = re.findall(
                r'(?:Reviews|Unanswered) <span class="badge">(\d+)</span></a>', header
            )
            assert links == found


def test_a_document_that_was_read_from_a_table_is_of_that_kind(kb: Service, ask: Client) -> None:
    kind = {"kind": "markdown"}
    table = NewDocument(name="t", content="a: 1", metadata=kind, parser_sig="csv/2")
    prose = NewDocument(name="p", content="Text.", metadata=kind, parser_sig="markdown/5")
    kb.put_documents("other", [table, prose])
    pages = {name: ask("GET", f"/console/documents/other/{name}").text for name in ("t", "p")} | {
        "listing": ask("GET", "/console/datasets/other").text
    }
    chips = {
        name: re.findall(r'class="chip"[^>]*>(kind: \w+)', text) for name, text in pages.items()
    }
    assert chips == {
        "t": ["kind: csv"],
        "p": ["kind: markdown"],
        "listing": ["kind: markdown", "kind: csv"],
    }


def names(text: str) -> list[str]:
    return re.findall(r'<li class="doc"><a href="[^"]*"><bdi>([^<]*)</bdi>', text)


def test_documents_are_a_tree_and_a_list_where_they_are_filtered_or_sorted(
    kb: Service, ask: Client
) -> None:
    deep = "x/" * 500 + "end.md"
    for name in ("guide/pots/Clay.md", "guide/pots/iron.md", "a//b.md", deep):
        kb.put_document("docs", name, "Text.")
    page = "/console/datasets/docs"
    text = ask("GET", page).text
    assert names(text)[:2] == ["b.md", "Clay.md"]
    assert "coffee.md" in names(text)
    folders = re.findall(r"<summary><bdi>([^<]*)</bdi> <span[^>]*>(\d+)</span>", text)
    assert folders[:4] == [("a", "1"), ("/", "1"), ("guide", "3"), ("pots", "2")]
    assert read(text).open == []
    assert names(ask("GET", f"{page}?part=CLAY").text) == ["guide/pots/Clay.md"]
    assert names(ask("GET", f"{page}?part=pots&prefix=guide/").text) == [
        "guide/pots/Clay.md",
        "guide/pots/iron.md",
    ]
    nothing = ask("GET", f"{page}?part=zebra").text
    assert "No document here" in nothing
    assert "Show all 6" in nothing
    part = ask("GET", f"{page}?part=iron", headers={"X-Part": "results"}).text
    assert names(part) == ["guide/pots/iron.md"]
    assert "<html" not in part
    assert len(names(ask("GET", f"{page}?sort=-$updated_at").text)) == 6
    in_folder = ask("GET", f"{page}?prefix=guide/pots/").text
    assert names(in_folder) == ["Clay.md", "iron.md"]
    assert f'<a href="{page}?prefix=guide/"><bdi>guide</bdi></a>' in in_folder


def test_of_many_documents_the_names_are_read_as_far_as_they_are_listed(
    kb: Service, ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_LISTED", 2)
    monkeypatch.setattr(documents, "_READ", 3)
    kb.put_documents("many", {f"{at}/Tea.md": "Text." for at in range(5)})
    page = "/console/datasets/many"
    first = ask("GET", page).text
    assert 'rel="next" href="/console/datasets/many?after=1%2FTea.md"' in first
    assert names(ask("GET", f"{page}?after=1%2FTea.md").text) == ["Tea.md", "Tea.md"]
    assert names(ask("GET", f"{page}?part=3/T").text) == ["3/Tea.md"]


def test_a_version_is_restored_and_a_reload_does_nothing(kb: Service, ask: Client) -> None:
    path = "/console/documents/docs/guide%2Ftea.md"
    answer = post(ask, path, do="restore", version="1")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?done=restored")
    assert "stored again, as a new version" in ask("GET", answer.headers["location"]).text
    assert "two minutes" in kb.get_document("docs", "guide/tea.md").content


def test_a_document_is_deleted_only_when_its_whole_name_is_typed(kb: Service, ask: Client) -> None:
    path = "/console/documents/docs/coffee.md"
    answer = post(ask, path, do="delete", confirm="coffee")
    assert "unconfirmed" in answer.headers["location"]
    assert kb.get_document("docs", "coffee.md").version == 1
    post(ask, path, do="delete", confirm="coffee.md")
    assert [each.name for each in kb.list_documents("docs")] == ["guide/tea.md"]


def test_hits_are_judged_kept_compared_and_exported(kb: Service, ask: Client) -> None:
    for question, name in (("green tea", "guide/tea.md"), ("roasted beans", "coffee.md")):
        for verdict in ("wrong", "right"):
            form = {"q": question, "dataset": "docs", "name": name, "verdict": verdict}
            assert post(ask, "/console/golden", **form).status_code == 303
    assert 'aria-pressed="true">right' in ask("GET", "/?q=green+tea&d=docs&judge=1").text
    assert (
        "<button"
        not in ask("GET", "/?q=green+tea&d=docs")
        .text.partition('id="hits"')[2]
        .partition("</section>")[0]
    )
    text = ask("GET", "/console/golden?dataset=docs&a=mode%3Dbm25&b=mode%3Dhybrid").text
    assert "paired, 2 questions" in text
    saved = ask("GET", "/console/golden?dataset=docs&download=1")
    assert {each["question"] for each in saved.json()["queries"]} == {"green tea", "roasted beans"}
    assert saved.json()["queries"][0]["relevance"] == {"guide/tea.md": 2}
    # No search finds them.
    assert {hit.dataset_id for hit in kb.search("green tea", scope="all")} == {"docs"}
    post(ask, "/console/golden", q="green tea", dataset="docs", verdict="drop")
    assert "green tea" not in ask("GET", "/console/golden?dataset=docs").text


def test_what_is_exported_is_what_eval_reads(kb: Service, ask: Client, tmp_path: Path) -> None:
    from triptych_evaluation import read_golden

    form = {"q": "green tea", "dataset": "docs", "name": "guide/tea.md", "verdict": "right"}
    post(ask, "/console/golden", **form)
    path = tmp_path / "golden.json"
    path.write_bytes(ask("GET", "/console/golden?dataset=docs&download=1").content)
    (query,) = read_golden(path).queries
    assert query.text == "green tea"


def test_the_work_list_makes_layers_within_a_budget(kb: Service, ask: Client) -> None:
    planned = ask("GET", "/console/work?plan=docs").text
    assert "Make them" in planned
    post(ask, "/console/work", do="layers", dataset="docs", max_calls="0")
    assert kb.layer("docs", "coffee.md", "L0") is not None  # extracts cost no call


def test_the_sandbox_writes_nothing(kb: Service, ask: Client) -> None:
    before = kb.stats()
    text = ask(
        "GET", "/console/sandbox?text=One+two.+Three+four.&chunker=fixed+windows&size=50"
    ).text
    assert "chunk</h2>" in text
    assert kb.stats() == before


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Client]:
    llm = FakeLLM(lambda prompt, text: "Three minutes [1]. Or not.")
    with triptych.open(tmp_path / "asked.db", embedder="hash", llm=llm) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps for <b>three</b> minutes.")
        yield Client(create_app(kb, console=True))


def test_an_answer_marks_what_its_sources_do_not_say(tmp_path: Path) -> None:
    said = "Three minutes [1]. It takes 9 <i>bar</i> & <MQTT> [1]."
    llm = FakeLLM(lambda prompt, text: said)
    with triptych.open(tmp_path / "asked.db", embedder="hash", llm=llm) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps for 3 minutes.")
        ask = Client(create_app(kb, console=True))
        text = ask("GET", "/console/ask?q=How+long+does+green+tea+steep?").text
        assert '<mark class="unproven" title="figure: nowhere">9</mark> &lt;i&gt;bar' in text
        assert '&amp; &lt;<mark class="unproven" title="name: nowhere">MQTT</mark>&gt; <a' in text
        assert "Marked words are not in the passages" in text
        answer = kb.ask("How long does green tea steep?", dataset_id="docs")
        fields = {"receipt": json.dumps(to_json(answer.receipt)), "answer": answer.text}
        again = post(ask, "/console/replay", **fields).text
        assert "2 claims of the answer were looked up again: each is where the receipt" in again
        wrong = post(ask, "/console/replay", **fields | {"answer": "Something else."}).text
        assert "this is not the text of the receipt" in wrong


def test_an_answer_links_its_citations_and_marks_what_cites_nothing(answering: Client) -> None:
    text = answering("GET", "/console/ask?q=How+long+does+green+tea+steep?").text
    assert 'Three minutes <a class="cite" href="#source-1">[1]</a>.' in text
    assert '<span class="uncited">Or not.</span>' in text
    assert re.search(r'<li id="source-1" value="1" class="card"><a href="[^"]*&amp;to=\d+#p', text)
    assert "fresh</span>" not in text
    assert "&lt;b&gt;three" in text


def test_an_answer_is_streamed_and_ends_with_the_page_s_part(answering: Client) -> None:
    path = "?q=How+long+does+green+tea+steep?"
    asked = answering("GET", f"/console/ask/stream{path}", headers=TOKEN)
    events = re.findall(r"event: (\w+)\ndata: (.*)\n\n", asked.text)
    assert [name for name, _ in events][-1] == "answer"
    said = "".join(json.loads(data)["text"] for name, data in events if name == "text")
    assert said == "Three minutes [1]. Or not."
    shown = json.loads(events[-1][1])["html"].partition("What the model saw")[0]
    assert "source-1" in shown
    assert shown.strip() in answering("GET", f"/console/ask{path}", headers=TOKEN).text


def test_a_question_that_follows_is_asked_with_what_was_said(tmp_path: Path) -> None:
    said: list[str] = []

    def answer(prompt: str, text: str) -> str:
        said.append(f"{prompt} {text}")
        return "It **steeps**:\n\n- three minutes [1]"

    with triptych.open(tmp_path / "asked.db", embedder="hash", llm=FakeLLM(answer)) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps for three minutes.")
        ask = Client(create_app(kb, console=True))
        first = ask(
            "GET", "/console/ask?q=How+long+does+green+tea+steep?&d=docs", headers=TOKEN
        ).text
        assert "It <strong>steeps</strong>" in first
        turns = re.findall(r'name="(asked|answered)" value="([^"]*)"', first)
        assert [name for name, _ in turns] == ["asked", "answered"]
        assert 'action="/console/ask?d=docs"' in first
        form = {
            "q": "Why does green tea steep so long?",
            **{name: unescape(value) for name, value in turns},
        }
        for path in ("/console/ask?d=docs", "/console/ask/stream?d=docs"):
            said.clear()
            answered = post(ask, path, **form)
            assert answered.status_code == 200
            assert "How long does green tea steep?" in answered.text
            assert "How long does green tea steep?" in said[0]
        sent = {**form, "form_token": "another"}
        assert ask("POST", "/console/ask", data=sent, headers=TOKEN).status_code == 403


def test_hits_alone_come_while_a_query_is_typed_and_nothing_is_logged_or_asked(
    tmp_path: Path,
) -> None:
    llm = FakeLLM(lambda *_: "No.")
    part = {"X-Part": "results"}
    with triptych.open(tmp_path / "p.db", embedder="none", llm=llm, question_log=True) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea.")
        ask = Client(create_app(kb, console=True))
        for path in ("/?q=zepp", "/?q=green", "/?q=", "/console/ask?q=zepp"):
            answer = ask("GET", path, headers=part)
            assert "<html" not in answer.text
            assert read(answer.text).open == []
            assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "green" in ask("GET", "/?q=green", headers=part).text
        log = QuestionLog(kb.capabilities.settings)
        assert llm.texts == []
        assert list(log.questions()) == []
        ask("GET", "/?q=zeppelin")
        assert [each.text for each in log.questions()] == ["zeppelin"]


def test_a_hit_says_where_it_is_from(kb: Service, ask: Client) -> None:
    kb.put_document("docs", "guide/pots/a.md", "# Pots\n\n## Clay\n\nA teapot.")
    kb.put_document("docs", "named.md", "A teapot.", {"title": "The <b>pot</b>"})
    text = ask("GET", "/?q=teapot&d=docs").text
    day = f"{kb.get_document('docs', 'named.md').updated_at:%Y-%m-%d}"
    assert '#passage"><bdi>Pots</bdi></a>' in text
    assert "<bdi>docs</bdi> / <bdi>guide/pots/a.md</bdi> · <bdi>Clay</bdi> · line" in text
    assert "<bdi>The &lt;b&gt;pot&lt;/b&gt;</bdi>" in text
    assert f">{day}</time>" in text
    assert "fresh</span>" not in text


@pytest.mark.parametrize("path", ["/console/ask", "/console/ask/stream"])
def test_a_model_that_is_away_is_named_to_whoever_sees_the_whole_store(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = "nothing at http://inside:11434: start it with `ollama serve`"
    llm = FakeLLM(lambda *_: ProviderError(said))
    with triptych.open(tmp_path / "away.db", embedder="hash", llm=llm) as kb:
        kb.put_document("docs", "tea.md", "# Tea\n\nGreen tea steeps for three minutes.")
        keys = KeyStore.of(kb)
        whole, part = keys.add("whole").token, keys.add("part", dataset_ids=["docs"]).token
        ask = Client(create_app(kb, authenticate=KeyAuthenticator(kb, keys), console=True))
        texts = []
        for key in (whole, part):
            caplog.clear()
            headers = {"Authorization": f"Bearer {key}"}
            texts.append(ask("GET", f"{path}?q=green+tea", headers=headers).text)
            assert said in caplog.text
    assert [said in each for each in texts] == [True, False]
    assert "s provider failed" in texts[1]


def test_without_a_model_asking_says_what_to_set(ask: Client) -> None:
    assert "TRIPTYCH_LLM" in ask("GET", "/console/ask?q=tea").text
    assert ask("GET", "/console/ask/stream?q=tea").status_code == 501


def test_a_text_is_put(kb: Service, ask: Client) -> None:
    answer = post(ask, "/console/put", dataset="new", name="a b/ä.md", content="One.\r\nTwo.")
    there = "/console/documents/new/" + quote("a b/ä.md", safe="")
    assert answer.headers["location"] == f"{there}?done=put"
    assert kb.get_document("new", "a b/ä.md").content == "One.\nTwo."


def test_an_empty_store_says_what_to_do_first(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "empty.db", embedder="hash") as kb:
        text = Client(create_app(kb, write=True, console=True))("GET", "/").text
        assert "There is no document yet" in text
        assert "triptych add FOLDER" in text


# Hostile texts


def test_no_text_of_a_document_becomes_part_of_a_page(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "hostile.db", embedder="hash") as kb:
        name = f"{HOSTILE}.md"
        content = f"# {HOSTILE}\n\n{HOSTILE} green tea"
        for text in (content, content + " more"):
            kb.put_document("docs", name, text, {"key": HOSTILE, HOSTILE[:60]: "value"})
        kb.put_document("docs", "second.md", content, {"key": HOSTILE})
        kb.put_document_layer("docs", name, "L0", HOSTILE, source_version=2)
        ask = Client(create_app(kb, write=True, console=True))
        form = {"q": HOSTILE, "dataset": "docs", "name": name, "verdict": "right"}
        post(ask, "/console/golden", **form)
        one = f"/console/documents/docs/{quote(name, safe='')}"
        typed = quote(HOSTILE)
        for path in (
            "/",
            f"/?q={typed}&lanes=1&numbers=1&why={quote(name)}&f.key={typed}",
            f"/?q={typed}&mode={typed}&pipeline={typed}&as_of={typed}",
            f"/?q=tea&why={typed}",
            f"{one}?old=1&new=2",
            f"/console/documents/docs/{typed.replace('/', '%2F')}",
            "/console/datasets/docs",
            f"/console/datasets/docs?prefix={typed}&f.key={typed}&sort={typed}",
            f"/console/golden?dataset=docs&a={typed}&b={typed}",
            f"/console/sandbox?text={typed}&chunker={typed}",
            f"/console/work?plan={typed}",
            "/console/work?doctor=1",
        ):
            answer = ask("GET", path)
            assert answer.status_code in (200, 400, 404, 422), (path, answer.text)
            active = read(answer.text).active
            assert [each.partition("?")[0] for each in active] == [
                "script /console/static/console.js"
            ], path


# Who asks


@pytest.fixture
def keyed(kb: Service) -> tuple[Client, dict[str, str]]:
    store = KeyStore.of(kb)
    tokens = {
        "all": store.add("the owner", can_write=True).token,
        "notes": store.add("notes only", where={"kind": "note"}).token,
    }
    app = create_app(kb, authenticate=KeyAuthenticator(kb, store), write=True, console=True)
    return Client(app), tokens


def test_a_key_is_asked_for_kept_in_a_cookie_and_never_in_a_url(
    keyed: tuple[Client, dict[str, str]],
) -> None:
    ask, tokens = keyed
    answer = ask("GET", "/")
    assert answer.status_code == 401
    assert "This server asks for a key" in answer.text
    assert "www-authenticate" not in answer.headers
    refused = post(ask, "/console/sign-in", key="tk_nothing")
    assert refused.status_code == 401
    assert "triptych_key" not in "".join(refused.headers.get_list("set-cookie"))
    answer = post(ask, "/console/sign-in", key=tokens["all"])
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    (cookie,) = [each for each in answer.headers.get_list("set-cookie") if "triptych_key" in each]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    headers = {"Cookie": f"triptych_key={tokens['all']}"}
    assert ask("GET", "/?q=tea", headers=headers).status_code == 200
    # The API takes no cookie: no page of another site could use it.
    assert ask("GET", "/v1/datasets", headers=headers).status_code == 401


def test_behind_tls_the_cookies_are_bound_to_the_host(
    keyed: tuple[Client, dict[str, str]],
) -> None:
    ask, tokens = keyed
    key = tokens["all"]
    sent = {"data": {"form_token": "token", "key": key}}
    path = "https://localhost/console/sign-in"
    plain = ask("POST", path, headers={"Cookie": "triptych_form=token"}, **sent)
    assert plain.status_code == 403  # of a cookie that another host may have set
    answer = ask("POST", path, headers={"Cookie": "__Host-triptych_form=token"}, **sent)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-triptych_key=")
    assert {"Secure", "Path=/", "HttpOnly"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    for name, status in (("__Host-triptych_key", 200), ("triptych_key", 401)):
        shown = ask("GET", "https://localhost/?q=tea", headers={"Cookie": f"{name}={key}"})
        assert shown.status_code == status


@pytest.mark.parametrize(
    ("asked", "back"),
    [
        ("/?q=green+tea&judge=1", "/?q=green+tea&judge=1"),
        ("/console/documents/docs/guide%2Ftea.md", None),
        ("/console/sign-in", "/"),
    ],
)
def test_who_signs_in_sees_the_page_that_was_asked_for(
    asked: str, back: str | None, keyed: tuple[Client, dict[str, str]]
) -> None:
    ask, tokens = keyed
    found = re.search(r'name="back" value="([^"]*)"', ask("GET", asked).text)
    assert found is not None
    answer = post(ask, "/console/sign-in", key=tokens["all"], back=unescape(found[1]))
    assert answer.headers["location"] == (back or asked)


@pytest.mark.parametrize("back", ["https://elsewhere.example", "//elsewhere", "/v1/x", "\r\nA: b"])
def test_nobody_is_led_elsewhere(back: str, keyed: tuple[Client, dict[str, str]]) -> None:
    ask, tokens = keyed
    answer = post(ask, "/console/sign-in", key=tokens["all"], back=back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_what_a_key_may_not_see_is_on_no_page(keyed: tuple[Client, dict[str, str]]) -> None:
    ask, tokens = keyed
    headers = {"Cookie": f"triptych_key={tokens['notes']}"}
    for path in PAGES:
        text = ask("GET", path.replace("guide%2Ftea.md", "coffee.md"), headers=headers).text
        assert "steeps" not in text
        assert not re.search(r"guide/tea|guide%2Ftea", text.replace("green+tea", "")), path
    assert ask("GET", "/console/keys", headers=headers).status_code == 403
    put = {"data": {"form_token": "token", "name": "x", "content": "y"}}
    put["headers"] = {"Cookie": f"triptych_form=token; triptych_key={tokens['notes']}"}
    assert ask("POST", "/console/put", **put).status_code == 403


def test_the_owner_sees_as_a_key(keyed: tuple[Client, dict[str, str]], kb: Service) -> None:
    ask, tokens = keyed
    (other,) = [each for each in KeyStore.of(kb).list() if each.name == "notes only"]
    cookie = f"triptych_form=token; triptych_key={tokens['all']}"
    form = {"form_token": "token", "id": other.id}
    answer = ask("POST", "/console/see-as", data=form, headers={"Cookie": cookie})
    assert f"triptych_as={other.id}" in answer.headers["set-cookie"]
    seen = {"Cookie": f"{cookie}; triptych_as={other.id}"}
    text = ask("GET", "/console/datasets/docs", headers=seen).text
    assert "coffee.md" in text
    assert "guide/tea.md" not in text
    assert "notes only" in text
    assert "Add a document" not in ask("GET", "/console/datasets", headers=seen).text
    # A restricted key has no such right, whatever its cookie says.
    mine = {"Cookie": f"triptych_key={tokens['notes']}; triptych_as={other.id}"}
    assert "sees it" not in ask("GET", "/", headers=mine).text


# Forms of other sites


@pytest.mark.parametrize(
    ("headers", "form"),
    [
        ({}, {"form_token": "token"}),
        (TOKEN, {}),
        (TOKEN, {"form_token": "other"}),
        (TOKEN | {"Sec-Fetch-Site": "cross-site"}, {"form_token": "token"}),
        (TOKEN | {"Sec-Fetch-Site": "same-site"}, {"form_token": "token"}),
        (TOKEN | {"Origin": "https://evil.example"}, {"form_token": "token"}),
    ],
)
def test_a_form_of_another_site_is_refused(
    headers: dict[str, str], form: dict[str, str], kb: Service, ask: Client
) -> None:
    data = {**form, "dataset": "docs", "name": "evil.md", "content": "Evil."}
    assert ask("POST", "/console/put", data=data, headers=headers).status_code == 403
    assert len(list(kb.list_documents("docs"))) == 2


def test_a_form_must_be_a_form(ask: Client) -> None:
    answer = ask("POST", "/console/put", json={"form_token": "token"}, headers=TOKEN)
    assert answer.status_code == 415
    raw = {
        "content": b"\xff",
        "headers": TOKEN | {"Content-Type": "application/x-www-form-urlencoded"},
    }
    assert ask("POST", "/console/put", **raw).status_code == 400


def test_a_read_only_console_takes_no_form(kb: Service) -> None:
    ask = Client(create_app(kb, console=True))
    assert post(ask, "/console/documents/docs/coffee.md", do="rebuild").status_code == 403


def test_without_the_console_its_pages_are_not_there(kb: Service) -> None:
    ask = Client(create_app(kb, write=True))
    assert ask("GET", "/").status_code == 404
    assert ask("GET", "/console/static/console.css").status_code == 404


def test_a_mounted_app_links_below_its_root(kb: Service) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    ask = Client(Starlette(routes=[Mount("/kb", create_app(kb, write=True, console=True))]))
    text = ask("GET", "/kb/?q=green+tea&d=docs&judge=1").text
    links = re.findall(r'(?:href|action|src)="([^"#]*)', text)
    assert links
    assert all(each.startswith("/kb/") for each in links if each)
    back = re.search(r'name="back" value="([^"]*)"', text)
    assert back is not None
    form = {"q": "green tea", "dataset": "docs", "name": "coffee.md", "verdict": "wrong"}
    answer = post(ask, "/kb/console/golden", **form, back=back[1].replace("&amp;", "&"))
    assert answer.headers["location"].startswith("/kb/?q=green+tea")


@given(
    st.text(max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5),
    st.tuples(st.integers(0, 90), st.integers(0, 90)),
)
def test_pieces_are_the_text_and_say_of_which_chunks_they_are(
    text: str, spans: list[tuple[int, int]], passage: tuple[int, int]
) -> None:
    chunks = [
        Span(at, min(each), max(each))
        for at, each in enumerate(spans)
        if min(each) < max(each) <= len(text)
    ]
    found = pieces(text, chunks, passage)
    assert "".join(each.text for each in found) == text
    at = 0
    for piece in found:
        for place in range(at, at + len(piece.text)):
            assert piece.chunks == tuple(
                chunk.number
                for chunk in sorted(chunks, key=lambda each: each.start)
                if chunk.start <= place < chunk.end
            )
            assert piece.passage == (passage[0] <= place < passage[1])
        at += len(piece.text)


def test_a_gap_becomes_a_golden_question_or_a_note(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="hash", question_log=True) as kb:
        kb.put_document("docs", "tea.md", "Green tea.")
        for _ in range(2):
            assert not kb.search("what is a zeppelin", dataset_id="docs", mode="bm25")
        ask = Client(create_app(kb, write=True, console=True))
        text = ask("GET", "/console/gaps").text
        assert "what is a zeppelin" in text
        assert "<td>2</td>" in text
        note = re.search(r'href="(/console/put\?dataset=docs&amp;content=[^"]*)"', text)
        assert note is not None
        assert "# what is a zeppelin" in ask("GET", note[1].replace("&amp;", "&")).text
        post(ask, "/console/golden", q="what is a zeppelin", dataset="docs", verdict="keep")
        assert "what is a zeppelin" in ask("GET", "/console/golden?dataset=docs").text


def test_a_purge_erases_a_name_from_golden_questions_and_a_deleted_dataset_takes_them(
    kb: Service, ask: Client
) -> None:
    for name in ("coffee.md", "guide/tea.md"):
        form = {"q": "tea", "dataset": "docs", "name": name, "verdict": "right"}
        post(ask, "/console/golden", **form)
    kb.purge("docs", "coffee.md")
    (question,) = ask("GET", "/console/golden?dataset=docs&download=1").json()["queries"]
    assert question["relevance"] == {"guide/tea.md": 2}
    kb.purge("docs")
    assert kb.capabilities.settings is not None
    assert kb.capabilities.settings.get_setting("golden/docs") is None


def test_a_console_over_another_server_shows_what_that_one_shows(kb: Service) -> None:
    pytest.importorskip("uvicorn")
    with served(kb, write=True) as url, triptych.open(url) as remote:
        ask = Client(create_app(remote, write=True, console=True))
        for path in PAGES:
            answer = ask("GET", path)
            assert answer.status_code == (501 if path == "/console/keys" else 200), answer.text
        path = "/console/documents/docs/guide%2Ftea.md"
        assert post(ask, path, do="restore", version="1").status_code == 303
        assert "two minutes" in kb.get_document("docs", "guide/tea.md").content
