"""What a put answers whose store fails after the document is stored."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.asgi import Client
from triptych import errors
from triptych_adapters.wire.errors import error_form, public_message
from triptych_backends.filesystem.disk import disk_errors
from triptych_models import HashEmbedder
from triptych_server.http import create_app

PATH = "/v1/datasets/d/documents/a.md"


class Locking(HashEmbedder):
    """An embedder during whose work another program locks the store."""

    def __init__(self, other: sqlite3.Connection) -> None:
        super().__init__()
        self.other = other

    def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        if not self.other.in_transaction:
            self.other.execute("BEGIN IMMEDIATE")
        return super().embed(texts, kind=kind)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    triptych.open(tmp_path / "kb.db", embedder="hash").close()
    with closing(
        sqlite3.connect(tmp_path / "kb.db", isolation_level=None, check_same_thread=False)
    ) as connection:
        yield connection


def test_a_put_whose_store_is_locked_after_it_is_stored_is_to_be_repeated(
    tmp_path: Path, other: sqlite3.Connection
) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=Locking(other), lock_timeout=0.05) as service:
        client = Client(create_app(service, write=True))
        put = {"json": {"content": "Pull the lid."}}
        answer = client("PUT", PATH, **put)
        assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1")
        assert answer.json()["error"]["code"] == "DERIVATION_ERROR"
        assert service.get_document("d", "a.md").version == 1
        other.execute("ROLLBACK")
    with triptych.open(tmp_path / "kb.db", embedder="hash") as service:
        again = Client(create_app(service, write=True))("PUT", PATH, **put)
        assert (again.status_code, again.json()["version"]) == (200, 1)
        assert service.search("lid", dataset_id="d").hits[0].doc_name == "a.md"


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (errors.StoreAwayError("x"), 503),
        (errors.StoreLockedError("x"), 503),
        (errors.StoreFullError("x"), 507),
        (errors.CorruptStoreError("x"), 500),
        (errors.ProviderError("x"), 500),
        (None, 500),
    ],
)
def test_a_derivation_that_fails_has_the_status_of_an_outage_of_its_store(
    cause: Exception | None, status: int
) -> None:
    error = errors.DerivationError("y")
    error.__cause__ = cause
    form = error_form(error)
    assert form is not None
    assert (form.kind, form.status) == (errors.DerivationError, status)


def test_a_full_disk_is_named_without_its_place() -> None:
    error = errors.StoreFullError("the store /srv/kb.db failed: the disk is full")
    form = error_form(error)
    assert form is not None
    assert (form.status, public_message(error)) == (507, "the store's disk is full")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_store_of_files_names_a_full_disk(code: int) -> None:
    with pytest.raises(errors.StoreFullError, match="free some space"), disk_errors("files"):
        raise OSError(code, os.strerror(code), "a.md")
