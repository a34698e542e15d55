"""What other processes do with a store, named by its path or URL."""

from __future__ import annotations

import os

import triptych


def put(store: str, name: str) -> None:
    """Put a document that says its name."""
    with triptych.open(store, embedder="hash") as kb:
        kb.put_document("d", name, name)


def put_and_die(store: str) -> None:
    """Put a document, and end without closing the store."""
    kb = triptych.open(store, embedder="hash")
    kb.put_document("d", "killed.md", "words of the killed")
    os._exit(0)


def put_editions(store: str, who: str) -> None:
    """Put twelve versions of one document, and end without closing the store."""
    kb = triptych.open(store, embedder=None)
    for number in range(12):
        kb.put_document("d", "a", f"{who} {number}")


def names_in(store: str) -> list[str]:
    """The names of the documents, in order."""
    with triptych.open(store, embedder="hash") as kb:
        return sorted(info.name for info in kb.list_documents("d"))
