"""A second writer between the page that a person sees and the form that they send from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("starlette")

import triptych
from support.asgi import Client
from support.console import TOKEN
from triptych.service import Service
from triptych_server.http import create_app

PAGE = "/console/documents/docs/tea.md"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as opened:
        for minutes in ("two", "three"):
            opened.put_document("docs", "tea.md", f"Green tea steeps for {minutes} minutes.")
        yield opened


@pytest.fixture
def ask(kb: Service) -> Client:
    return Client(create_app(kb, write=True, console=True))


def form(text: str, do: str) -> dict[str, str]:
    """The fields of a form of a page, with the values that it has."""
    found = re.search(rf"<form[^>]*>(?:(?!</form>).)*value=\"{do}\".*?</form>", text, re.DOTALL)
    assert found is not None
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[0])
    return {name: unescape(value) for name, value in fields} | {"form_token": "token"}


@pytest.mark.parametrize("do", ["restore", "delete"])
def test_what_a_second_writer_stored_meanwhile_is_neither_replaced_nor_deleted(
    do: str, kb: Service, ask: Client
) -> None:
    fields = form(ask("GET", PAGE).text, do) | {"confirm": "tea.md"}
    kb.put_document("docs", "tea.md", "Green tea steeps for nine minutes.")
    answer = ask("POST", PAGE, data=fields, headers=TOKEN)
    assert answer.status_code == 409
    assert "open the page again" in unescape(answer.text)
    assert "nine minutes" in kb.get_document("docs", "tea.md").content
    again = form(ask("GET", PAGE).text, do) | {"confirm": "tea.md"}
    assert ask("POST", PAGE, data=again, headers=TOKEN).status_code == 303


def test_what_a_second_writer_deleted_meanwhile_is_said_to_be_gone(
    kb: Service, ask: Client
) -> None:
    fields = {do: form(ask("GET", PAGE).text, do) for do in ("restore", "delete")}
    kb.delete_document("docs", "tea.md")
    for do, each in fields.items():
        answer = ask("POST", PAGE, data=each | {"confirm": "tea.md"}, headers=TOKEN)
        assert answer.status_code in (404, 409), do
        assert "tea.md" in answer.text
    assert list(kb.list_documents("docs")) == []
