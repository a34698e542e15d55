"""What an attack on the console found: requests that are hostile, or of another site."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import TOKEN, post
from triptych.access import Access
from triptych.errors import AccessDeniedError, PendingReviewError
from triptych.proposals import Proposals
from triptych.service import Service
from triptych_server.console.documents import CHUNKS
from triptych_server.http import create_app
from triptych_server.keys import KeyAuthenticator, KeyStore
from triptych_testing.fakes import FakeLLM

DEEP = 1_500


@pytest.fixture
def kb(tmp_path: Path) -> Service:
    kb = triptych.open("memory://", embedder="hash")
    for dataset_id in ("a", "a/b"):
        kb.put_document(dataset_id, "doc.md", "# Tea\n\nGreen tea.")
        Proposals.of(kb).set_reviewed(dataset_id, True)
    return kb


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, write=True, console=True))


def proposed(kb: Service, dataset_id: str, name: str, text: str, **access: str) -> str:
    bot = kb.restricted(Access(can_write=True, agent=True, caller="the bot", **access))
    with pytest.raises(PendingReviewError) as waits:
        bot.put_document(dataset_id, name, text)
    (found,) = waits.value.proposals.values()
    return str(found)


@pytest.mark.parametrize("do", ["refuse", "approve"])
def test_a_key_of_a_dataset_does_not_reach_proposals_of_one_below_its_name(
    do: str, kb: Service
) -> None:
    id = proposed(kb, "a/b", "doc.md", "Another text.")
    keys = KeyStore.of(kb)
    token = keys.add("of a", dataset_ids=["a"], can_write=True).token
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True)
    form = {"form_token": "token", "do": do, "dataset": "a", "id": f"b/{id}"}
    headers = TOKEN | {"Authorization": f"Bearer {token}"}
    assert Client(app)("POST", "/console/reviews", data=form, headers=headers).status_code == 404
    (there,) = Proposals.of(kb).list("a/b")
    assert there.state == "pending"


def test_proposals_of_another_dataset_leave_room_in_this_one(kb: Service) -> None:
    proposed(kb, "a/b", "0.md", "word " * 190_000)
    assert proposed(kb, "a", "new.md", "word " * 50_000)


def test_an_agent_neither_judges_nor_drops_questions_of_a_reviewed_dataset(kb: Service) -> None:
    keys = KeyStore.of(kb)
    app = create_app(kb, authenticate=KeyAuthenticator(kb, keys), write=True, console=True)
    tokens = {agent: keys.add("x", can_write=True, agent=agent).token for agent in (False, True)}
    for agent, verdict, status in (
        (False, "right", 303), (True, "drop", 403), (True, "wrong", 403), (False, "drop", 303),
    ):  # fmt: skip
        form = {"q": "tea", "dataset": "a", "name": "doc.md", "verdict": verdict}
        headers = TOKEN | {"Authorization": f"Bearer {tokens[agent]}"}
        form["form_token"] = "token"
        answer = Client(app)("POST", "/console/golden", data=form, headers=headers)
        assert answer.status_code == status, (agent, verdict)
    bot = kb.restricted(Access(can_write=True, agent=True, caller="the bot"))
    settings = bot.capabilities.settings
    assert settings is not None
    with pytest.raises(AccessDeniedError, match="reviewed"):
        settings.set_setting("golden/a", "{}", expected=None)


def test_a_chunker_that_is_tried_is_given_so_much_text_and_draws_so_many_chunks(
    kb: Service, ask: Client
) -> None:
    kb.put_document("plain", "big.txt", "word and other words here. " * 15_000)
    path = "/console/sandbox?dataset=plain&name=big.txt&chunker=markdown&size=50&overlap=49"
    text = ask("GET", path).text
    assert "The first 40,000 characters are cut; 365,000 more are left out." in text
    assert f"The first {CHUNKS:,} chunks are drawn." in text


@pytest.mark.parametrize(
    ("method", "path", "form"),
    [
        ("GET", f"/?q=x&f.t=%23{'[' * DEEP}{']' * DEEP}", {}),
        ("GET", f"/console/datasets/a?f.t=%23{'[' * DEEP}", {}),
        ("GET", f"/console/pages/a/doc.md/{'9' * 5_000}", {}),
        ("POST", "/console/keys", {"do": "add", "name": "n", "where": '{"a":' * DEEP}),
        ("POST", "/console/see-as", {"id": "\u4e2d"}),
        ("POST", "/console/reviews", {"dataset": "a", "do": "dance"}),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    method: str, path: str, form: dict[str, str], ask: Client
) -> None:
    answer = post(ask, path, **form) if method == "POST" else ask("GET", path)
    # A search says above its form what is wrong: newer Pythons read JSON of this depth.
    assert answer.status_code in (400, 404) or 'class="failed"' in answer.text


def test_a_server_without_keys_takes_none_by_its_sign_in_page(ask: Client) -> None:
    answer = post(ask, "/console/sign-in", key="\u4e2d")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "triptych_key" not in "".join(answer.headers.get_list("set-cookie"))


@pytest.mark.parametrize(("site", "calls"), [("cross-site", 0), ("none", 1), ("same-origin", 1)])
def test_a_link_of_another_site_asks_no_model(site: str, calls: int, kb: Service) -> None:
    model = FakeLLM(lambda *_: "It is green [1].")
    with triptych.open("memory://", embedder="hash", llm=model) as asked:
        asked.put_document("a", "doc.md", "Green tea.")
        ask = Client(create_app(asked, console=True))
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"}
        text = ask("GET", "/console/ask?q=green+tea", headers=headers).text
        stream = ask("GET", "/console/ask/stream?q=green+tea", headers=headers)
    assert len(model.texts) == 2 * calls
    assert stream.status_code == (200 if calls else 403)
    assert ("A link of another site led here" in text) is (calls == 0)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_of_another_site_starts_no_long_work(site: str, kb: Service) -> None:
    ask = Client(create_app(kb, write=True, console=True))
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document"}
    for path in (
        "/?q=tea", "/console/ask?q=tea", "/console/work?doctor=1", "/console/reviews",
        "/console/golden?dataset=a&a=mode%3Dbm25&b=mode%3Dhybrid", "/console/pages/a/doc.md/1",
    ):  # fmt: skip
        text = ask("GET", path, headers=headers).text
        assert f'<a href="{path.replace("&", "&amp;")}">Open it</a>' in text
    for path in ("/", "/console/datasets", "/console/documents/a/doc.md"):
        assert "A link of another site" not in ask("GET", path, headers=headers).text


@pytest.mark.parametrize(
    ("site", "dest", "status"),
    [
        ("cross-site", "image", 403),
        ("cross-site", "iframe", 403),
        ("same-site", "empty", 403),
        ("cross-site", "document", 200),
        ("same-origin", "empty", 200),
        ("none", "document", 200),
    ],
)
def test_no_page_of_another_site_can_have_one_made(
    site: str, dest: str, status: int, ask: Client
) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest}
    for path in ("/?q=tea", "/console/ask?q=tea", "/console/work?doctor=1"):
        assert ask("GET", path, headers=headers).status_code == status
