"""Changes as server-sent events."""

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
from support.servers import served
from triptych import Service
from triptych.records import DocumentChange
from triptych.records.serialization import from_dict
from triptych_server.http import Limits, create_app

EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="none") as service:
        yield service


def read(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """Id, name and data of each event."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields.get("id", ""), fields.get("event", ""), json.loads(fields["data"])
            fields = {}
        else:
            fields = {}


def events(answer: httpx.Response) -> list[tuple[str, str, Any]]:
    assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    return list(read(iter(answer.text.split("\n"))))


def test_changes_are_streamed_and_go_on_from_the_last_that_was_seen(service: Service) -> None:
    client = Client(create_app(service, limits=Limits(seconds=1.2)))
    for name in ("a.md", "b.md"):
        service.put_document("d", name, "x")
    first = events(client("GET", "/v1/changes", headers=EVENTS))
    assert [(kind, each["name"], each["kind"]) for _, kind, each in first] == [
        ("change", "a.md", "added"),
        ("change", "b.md", "added"),
    ]
    service.delete_document("d", "a.md")
    again = {**EVENTS, "Last-Event-ID": first[0][0]}
    later = events(client("GET", "/v1/changes", headers=again))
    assert [(each["name"], each["kind"]) for _, _, each in later] == [
        ("b.md", "added"),
        ("a.md", "deleted"),
    ]
    last = {"since": later[-1][0]}
    assert events(client("GET", "/v1/changes", params=last, headers=EVENTS)) == []


def test_a_change_is_sent_when_it_is_committed(service: Service) -> None:
    service.put_document("d", "a.md", "x")
    with served(service) as url, httpx.Client(base_url=url, timeout=30) as client:
        with client.stream("GET", "/v1/changes", headers=EVENTS) as answer:
            found = read(answer.iter_lines())
            assert next(found)[2]["name"] == "a.md"
            thread = threading.Timer(0.3, service.put_document, ("d", "b.md", "y"))
            thread.start()
            began = time.monotonic()
            change = from_dict(DocumentChange, next(found)[2])
            assert (change.name, change.kind) == ("b.md", "added")
            assert time.monotonic() - began > 0.2
            thread.join()
        assert client.get("/v1/live").is_success


def test_a_cursor_that_is_none_is_refused_before_the_stream(service: Service) -> None:
    answer = Client(create_app(service))("GET", "/v1/changes?since=x", headers=EVENTS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


def test_a_follower_of_another_store_begins_again(service: Service, tmp_path: Path) -> None:
    with triptych.open(tmp_path / "other.db", embedder="none") as other:
        other.put_document("d", "z.md", "x")
        cursor = other.changes().cursor
    service.put_document("d", "a.md", "x")
    client = Client(create_app(service, limits=Limits(seconds=1.2)))
    found = events(client("GET", "/v1/changes", params={"since": cursor}, headers=EVENTS))
    assert [kind for _, kind, _ in found] == ["reset", "change"]


def test_a_browser_gets_past_a_reset(service: Service) -> None:
    service.put_document("d", "a.md", "x")
    cursor = service.changes(dataset_id="d").cursor
    service.purge("d", "a.md")
    service.put_document("other", "a.md", "x")
    client = Client(create_app(service, limits=Limits(seconds=1.2)))
    kinds = []
    for _ in range(2):
        headers = {**EVENTS, "Last-Event-ID": cursor}
        answer = client("GET", "/v1/changes?dataset_id=d", headers=headers)
        kinds.append([kind for _, kind, _ in events(answer)])
        cursor = [line for line in answer.text.splitlines() if line.startswith("id: ")][-1][4:]
    assert kinds == [["reset"], []]
