"""What tests of the console share: a form as its pages send it, hostile text, a reader of pages."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from support.asgi import Client

TOKEN = {"Cookie": "triptych_form=token"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


def post(ask: Client, path: str, **form: str) -> Any:
    """The answer to a form with the token that a page set."""
    return ask("POST", path, data={"form_token": "token", **form}, headers=TOKEN)


class Tags(HTMLParser):
    """Counts the tags that are open at the end, and what a page would run or load."""

    VOID = frozenset({"meta", "link", "input", "br", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.active: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "style", "object"):
            self.active.append(f"{tag} {given.get('src')}")
        self.active += [name for name in given if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Tags:
    """The tags of a page."""
    tags = Tags()
    tags.feed(text)
    tags.close()
    return tags
