"""Preconditions, pages of lists, and requests that are sent twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import triptych
from support.asgi import Client
from support.sync_folder import until
from triptych import Service
from triptych.access import Access
from triptych_server.http import (
    Limits,
    create_app,
    server as http_server,
)

PATH = "/v1/datasets/d/documents/a.md"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="none") as service:
        service.put_document("d", "a.md", "one")
        yield service


@pytest.fixture
def client(service: Service) -> Client:
    return Client(create_app(service, write=True))


def put(client: Client, content: str, path: str = PATH, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return client("PUT", path, json={"content": content}, headers=given)


def test_what_a_client_has_is_not_sent_again(client: Client) -> None:
    first = client("GET", PATH)
    tag = first.headers["etag"]
    assert tag.startswith('"1-')
    again = client("GET", PATH, headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    put(client, "two")
    assert client("GET", PATH, headers={"If-None-Match": tag}).json()["content"] == "two"
    listed = client("GET", "/v1/datasets").headers["etag"]
    assert client("GET", "/v1/datasets", headers={"If-None-Match": listed}).status_code == 304


def test_a_write_holds_only_over_the_version_that_it_names(
    service: Service, client: Client
) -> None:
    tag = client("GET", PATH).headers["etag"]
    assert put(client, "two", If_Match=tag).json()["version"] == 2
    for old in (tag, f"W/{tag}", '"1"', "2", '"x-1"', f'W/"2-{tag[3:]}'):
        answer = put(client, "three", If_Match=old)
        assert (answer.status_code, answer.json()["error"]["code"]) == (412, "PRECONDITION_FAILED")
        assert client("DELETE", PATH, headers={"If-Match": old}).status_code == 412
    assert service.get_document("d", "a.md").content == "two"
    newer = client("GET", PATH).headers["etag"]
    assert put(client, "three", If_Match=f"{tag}, {newer}").status_code == 200
    assert put(client, "four", If_Match="*").status_code == 200
    assert client("DELETE", PATH, headers={"If-Match": "*"}).json() is True
    assert put(client, "five", If_Match="*").status_code == 412


@pytest.mark.parametrize("form", ['"{}"', '"99", "{}"', '"9-ab","{}"', 'W/"7", "{}"'])
def test_a_version_in_quotes_stands_for_the_tag(client: Client, form: str) -> None:
    given = {"If-Match": form.format(1)}
    assert client("PUT", PATH, json={"content": "two"}, headers=given).json()["version"] == 2
    restore = "/v1/datasets/d/restore/a.md"
    for path, method, body in ((restore, "POST", {"version": 1}), (PATH, "DELETE", None)):
        found = client("GET", PATH).json()["version"]
        old = {"If-Match": form.format(found - 1)}
        assert client(method, path, json=body, headers=old).status_code == 412
        now = {"If-Match": form.format(found)}
        assert client(method, path, json=body, headers=now).status_code == 200
    for wrong in ('W/"1"', "1", '"1', '"1-"', '"-1"', '"1 "', '"01x"'):
        assert put(client, "x", If_Match=wrong).status_code == 412


def test_who_has_the_version_has_the_answer(client: Client) -> None:
    for tag, status in (('"1"', 304), ('W/"1"', 304), ('"2", "1"', 304), ('"2"', 200), ("1", 200)):
        assert client("GET", PATH, headers={"If-None-Match": tag}).status_code == status


def test_what_stores_a_document_answers_with_its_tag(client: Client) -> None:
    other = "/v1/datasets/d/documents/b.md"
    made = put(client, "new", other, Idempotency_Key="k")
    assert made.headers["etag"] == client("GET", other).headers["etag"]
    again = put(client, "new", other, Idempotency_Key="k")
    assert (again.headers["etag"], again.status_code) == (made.headers["etag"], 201)
    updated = put(client, "newer", other, If_Match=made.headers["etag"])
    assert updated.json()["version"] == 2
    given = {"If-Match": updated.headers["etag"]}
    restored = client("POST", "/v1/datasets/d/restore/b.md", json={"version": 1}, headers=given)
    assert restored.headers["etag"] == client("GET", other).headers["etag"]
    refused = put(client, "x", other, If_Match='"1"', Idempotency_Key="r")
    assert (refused.status_code, "etag" in refused.headers) == (412, False)
    assert put(client, "x", other, If_Match='"1"', Idempotency_Key="r").content == refused.content


def test_a_write_may_ask_that_there_is_none(client: Client) -> None:
    assert put(client, "two", If_None_Match="*").status_code == 412
    other = "/v1/datasets/d/documents/b.md"
    assert put(client, "new", other, If_None_Match="*").status_code == 201
    assert put(client, "new", other, If_None_Match='"1-a"').status_code == 400


def test_conditions_are_given_once(client: Client) -> None:
    tag = client("GET", PATH).headers["etag"]
    both = client("PUT", PATH, json={"content": "x", "if_version": 1}, headers={"If-Match": tag})
    assert both.status_code == 400
    assert put(client, "x", If_Match=tag, If_None_Match="*").status_code == 400
    conflict = client("PUT", PATH, json={"content": "x", "if_version": 9})
    assert (conflict.status_code, conflict.json()["error"]["details"]) == (
        409,
        {"expected": 9, "actual": 1},
    )


def test_what_is_made_is_answered_with_created(client: Client) -> None:
    other = "/v1/datasets/d/documents/b.md"
    assert [put(client, "x", other).status_code for _ in range(2)] == [201, 200]
    client("DELETE", other)
    assert put(client, "x", other).status_code == 201
    made = [client("PUT", "/v1/datasets/new", json={}).status_code for _ in range(2)]
    assert made == [201, 200]


def test_a_list_leads_to_its_next_page(service: Service) -> None:
    names = sorted(f"{n:02}/ä &?.md" for n in range(10))
    service.put_documents("d/e", dict.fromkeys(names, "x"))
    client = Client(create_app(service, limits=Limits(listed=4)))
    for asked in ("", "?limit=3", "?sort=-%24name&limit=4", "?prefix=0"):
        found: list[str] = []
        url = f"/v1/datasets/d%2Fe/documents{asked}"
        pages = 0
        while url:
            answer = client("GET", url)
            found += [each["name"] for each in answer.json()]
            link = next((v for v in answer.links.values() if v.get("rel") == "next"), None)
            url = "" if link is None else link["url"]
            pages += 1
        assert found == sorted(names, reverse="sort" in asked)
        assert pages == (4 if "=3" in asked else 3)
    assert client("GET", "/v1/datasets/d%2Fe/documents?limit=5").status_code == 400
    assert client("GET", "/v1/datasets/d%2Fe/documents?limit=0").json() == []


def changes(client: Client, key: str, day: str = "monday", **headers: str) -> httpx.Response:
    body = {"changes": {"day": day}, "names": ["a.md"]}
    given = {"Idempotency-Key": key, **headers}
    return client("POST", "/v1/datasets/d/metadata", json=body, headers=given)


def test_a_request_that_is_sent_again_is_answered_as_before(
    service: Service, client: Client
) -> None:
    first = changes(client, "k1")
    assert first.json()["updated"] == 1
    assert "idempotent-replayed" not in first.headers
    elsewhere = Client(create_app(service, write=True))  # another process
    again = changes(elsewhere, "k1")
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert changes(client, "k2").json()["updated"] == 0


def test_a_precondition_is_a_part_of_the_request(client: Client) -> None:
    new = PATH.replace("a.md", "new.md")
    assert put(client, "x", new, Idempotency_Key="k").status_code == 201
    for other in ({"If_None_Match": "*"}, {"If_Match": "*"}):
        assert put(client, "x", new, Idempotency_Key="k", **other).status_code == 422


def test_what_was_done_is_answered_where_the_answer_cannot_be_kept(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(service.capabilities.settings)
    original = kind.set_setting

    def fails(self: Any, key: str, value: str | None, *, expected: str | None) -> bool:
        if value is not None and '"status"' in value:
            raise triptych.StoreError("disk full")
        return bool(original(self, key, value, expected=expected))

    with monkeypatch.context() as patch:
        patch.setattr(kind, "set_setting", fails)
        assert changes(client, "k").json()["updated"] == 1
    assert changes(client, "k").json()["unchanged"] == 1


def test_a_key_belongs_to_one_request_and_one_sender(client: Client) -> None:
    changes(client, "k")
    other = changes(client, "k", "tuesday")
    assert (other.status_code, other.json()["error"]["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
    mine = changes(client, "k", "tuesday", Authorization="Bearer somebody else")
    assert mine.json()["updated"] == 1
    assert changes(client, "").status_code == 400
    assert changes(client, "x" * 256).status_code == 400


def test_a_refusal_is_repeated_and_a_failure_is_tried_again(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/v1/datasets/d/documents/z.md"
    options: dict[str, Any] = {
        "json": {"content": "x", "if_version": 3},
        "headers": {"Idempotency-Key": "k"},
    }
    refused = [client("PUT", path, **options) for _ in range(2)]
    assert [each.status_code for each in refused] == [409, 409]
    assert refused[0].content == refused[1].content
    assert refused[1].headers["idempotent-replayed"] == "true"

    def broken(*args: Any, **given: Any) -> Any:
        raise triptych.StoreError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(Service, "update_metadata", broken)
        assert changes(client, "later").status_code == 500
    assert changes(client, "later").json()["updated"] == 1


def test_the_same_request_twice_at_once_is_done_once(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()
    original = Service.update_metadata

    def slow(*args: Any, **given: Any) -> Any:
        entered.set()
        go_on.wait(30)
        return original(*args, **given)

    monkeypatch.setattr(Service, "update_metadata", slow)
    first: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: first.append(changes(client, "k")))
    thread.start()
    entered.wait(30)
    second = changes(client, "k")
    go_on.set()
    thread.join()
    assert (second.status_code, second.json()["error"]["code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert first[0].json()["updated"] == 1


def test_kept_answers_are_bounded(service: Service) -> None:
    client = Client(create_app(service, write=True, limits=Limits(idempotency_keys=3)))
    for number in range(8):
        changes(client, f"k{number}")
    settings = service.capabilities.settings
    assert settings is not None
    assert len(settings.list_settings("http.idempotency.")) == 6
    assert changes(client, "k7").headers.get("idempotent-replayed")
    assert not changes(client, "k0").headers.get("idempotent-replayed")


def test_a_key_that_a_killed_process_left_open_is_taken_over(service: Service) -> None:
    client = Client(create_app(service, write=True))
    changes(client, "k")
    settings = service.capabilities.settings
    assert settings is not None
    ((name, state),) = settings.list_settings("http.idempotency.state.").items()
    left = {**json.loads(state), "at": time.time() - 16}
    del left["status"]
    assert settings.set_setting(name, json.dumps(left), expected=state)
    assert changes(client, "k").json()["unchanged"] == 1


def test_a_request_that_lasts_keeps_its_key(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_LOOK_AGAIN", 0.05)
    monkeypatch.setattr("triptych_server.http.preconditions._STANDS", 2.0)
    settings = service.capabilities.settings
    assert settings is not None
    entered, go_on = threading.Event(), threading.Event()
    original = Service.update_metadata

    def slow(*args: Any, **given: Any) -> Any:
        entered.set()
        go_on.wait(30)
        return original(*args, **given)

    monkeypatch.setattr(Service, "update_metadata", slow)
    first: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: first.append(changes(client, "k")))
    thread.start()
    assert entered.wait(30)

    def began() -> float:
        (state,) = settings.list_settings("http.idempotency.state.").values()
        at: float = json.loads(state)["at"]
        return at

    at = began()
    until(lambda: began() > at + 2.0)  # longer than a request stands that says nothing
    second = changes(client, "k")
    go_on.set()
    thread.join()
    assert (second.status_code, second.json()["error"]["code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert first[0].json()["updated"] == 1
    assert changes(client, "k").headers["idempotent-replayed"] == "true"


def test_a_purge_removes_the_answers_that_hold_the_document(
    service: Service, client: Client, tmp_path: Path
) -> None:
    path = "/v1/datasets/d/documents/iban.md"
    assert put(client, "4711-0815", path, Idempotency_Key="k").status_code == 201
    settings = service.capabilities.settings
    assert settings is not None
    (body,) = settings.list_settings("http.idempotency.body.").values()
    access = Access(dataset_ids=["d"], can_write=True, where={"team": "red"})
    mine = service.restricted(access)
    mine.put_document("d", "other.md", "x", {"team": "red"})
    purged = client("POST", "/v1/datasets/d/purge", json={"name": "iban.md"})
    assert (purged.json()["existed"], purged.json()["requests"]) == (True, 1)
    assert not settings.list_settings("http.idempotency.")
    files = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert body.encode() not in files
    assert changes(client, "later").status_code == 200
    mine.purge("d", "other.md")  # it sees no settings at all
    assert not settings.list_settings("http.idempotency.")


def test_a_purge_removes_no_answers_of_others(service: Service, client: Client) -> None:
    settings = service.capabilities.settings
    assert settings is not None
    client("POST", "/v1/datasets/e/documents", json={"documents": [{"name": "x", "content": "y"}]})

    def kept() -> int:
        return len(settings.list_settings("http.idempotency.body."))

    def ask() -> None:
        for dataset_id in ("d", "e"):
            for name in ("a.md", "b.md"):
                path = f"/v1/datasets/{dataset_id}/documents/{name}"
                put(client, "one", path, Idempotency_Key=f"{dataset_id}-{name}")
        body = {"documents": [{"name": "c.md", "content": "three"}]}
        key = {"Idempotency-Key": "many"}
        client("POST", "/v1/datasets/d/documents", json=body, headers=key)

    ask()
    assert kept() == 5
    access = Access(dataset_ids=["d"], can_write=True, where={"team": "red"})
    mine = service.restricted(access)
    assert not mine.purge("d", "a.md")
    assert not mine.purge("d", "none.md")
    assert kept() == 5
    assert service.purge("d", "a.md").requests == 2  # and that of several documents
    assert kept() == 3
    service.delete_document("d", "b.md")
    assert service.purge("d", "b.md").requests == 1  # what was deleted may be kept in an answer
    ask()
    assert service.purge("e").requests == 2
    assert kept() == 3


def test_a_request_that_a_purge_overtakes_leaves_no_answer(
    service: Service, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Service.put_document

    def overtaken(self: Service, *args: Any, **given: Any) -> Any:
        stored = original(self, *args, **given)
        service.purge("d", "a.md")
        return stored

    monkeypatch.setattr(Service, "put_document", overtaken)
    assert put(client, "4711-0815", Idempotency_Key="k").status_code == 200
    settings = service.capabilities.settings
    assert settings is not None
    assert not settings.list_settings("http.idempotency.")
