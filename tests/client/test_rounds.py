"""Long calls that a server ends in time: the client goes on, and counts all that was done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import triptych
from support.servers import served
from triptych import NewDocument, Service
from triptych.errors import CancelledError
from triptych.service import ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_server.client import RemoteService, connect
from triptych_testing.fakes import FakeEmbedder

MANY = [NewDocument(name=f"{n:03}.md", content=f"Page {n}.") for n in range(200)]


def ended() -> CancelledError:
    """As the server's time passes while texts are embedded."""
    return CancelledError("the deadline passed during embedding; what was committed stays")


@contextmanager
def remote(**failures: CancelledError) -> Iterator[tuple[Service, RemoteService, FakeEmbedder]]:
    """A knowledge base here and through a server; its embedder fails in calls of these numbers."""
    embedder = FakeEmbedder(failures={int(each[1:]): error for each, error in failures.items()})
    with (
        triptych.open("memory://", embedder=embedder) as kb,
        served(kb, write=True) as url,
        connect(url) as there,
    ):
        yield kb, there, embedder


def test_a_put_that_is_cut_off_counts_what_every_request_did() -> None:
    with remote(_2=ended(), _4=ended()) as (kb, there, _):
        report = there.put_documents("d", MANY)
        assert (report.added, report.updated, report.unchanged) == (200, 0, 0)
        assert report.chunks == 200
        assert (report.pending, report.failed) == (0, ())
        assert report.embedded + report.reused == 200
        assert kb.stats("d")[0].vectors == 200
        again = there.put_documents("d", MANY)
        assert (again.added, again.unchanged, again.embedded) == (0, 200, 0)


def test_embedding_counts_what_every_request_did() -> None:
    with remote(_2=ended(), _6=ended()) as (kb, there, _):
        kb.put_documents("d", MANY, embed="later")
        report = there.embed_pending("d")
        assert (report.documents, report.embedded, report.pending) == (200, 200, 0)


def test_a_rebuild_counts_what_every_request_did() -> None:
    store = MemoryStore()
    Service(store, options=ServiceOptions(embedder=FakeEmbedder())).put_documents("d", MANY)
    model = FakeEmbedder("fake/2", failures={2: ended(), 4: ended()})
    with (
        served(Service(store, options=ServiceOptions(embedder=model)), write=True) as url,
        connect(url) as there,
    ):
        report = there.rebuild(dataset_id="d")
    assert (report.checked, report.rebuilt, report.fresh, report.pending) == (200, 200, 0, 0)
    assert report.embedded == 200


def test_a_call_that_is_cut_off_reports_what_was_committed() -> None:
    with triptych.open("memory://", embedder=FakeEmbedder(failures={2: ended()})) as kb:
        kb.put_documents("d", MANY, embed="later")
        with pytest.raises(CancelledError) as caught:
            kb.embed_pending("d")
        assert caught.value.report.embedded > 0
        assert caught.value.report.pending == 200 - caught.value.report.documents


def test_what_gets_no_further_ends() -> None:
    failures = {f"_{n}": ended() for n in range(1, 50)}
    with remote(**failures) as (_, there, embedder):
        with pytest.raises(CancelledError, match="made no progress"):
            there.put_documents("d", MANY[:1])
        calls = embedder.calls
        with pytest.raises(CancelledError, match="made no progress"):
            there.embed_pending("d")
        with pytest.raises(CancelledError, match="made no progress"):
            there.rebuild(dataset_id="d")
        assert calls <= 3
        assert embedder.calls <= 8
