"""One worker in this process: what it does, what it leaves, and when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import triptych
from triptych.contracts.defaults import Repositories
from triptych.deadlines import deadline
from triptych.errors import (
    CancelledError,
    ModelMismatchError,
    NotAvailableError,
    ProviderTimeoutError,
    ValidationError,
)
from triptych.leases import LeaseHolder
from triptych.records import Failure
from triptych.service import Service, ServiceOptions
from triptych.testing.fakes import FakeEmbedder
from triptych.workers import Share, Worker
from triptych_backends.memory import MemoryStore

QUEUE = '["documents", "d"]'


class CountedEmbedder(FakeEmbedder):
    """Counts the texts that it is asked for; fails for those that have a word of ``bad``."""

    def __init__(self, signature: str = "fake/1") -> None:
        super().__init__(signature)
        self.asked: list[str] = []
        self.bad: set[str] = set()
        self.error: Exception = RuntimeError("out of order")

    def embed(self, texts: Any, *, kind: Any) -> Any:
        if kind == "document":
            self.asked += texts
            if any(word in text for word in self.bad for text in texts):
                raise self.error
        return super().embed(texts, kind=kind)


@pytest.fixture
def embedder() -> CountedEmbedder:
    return CountedEmbedder()


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        yield store


@pytest.fixture
def kb(store: MemoryStore, embedder: CountedEmbedder) -> Service:
    return Service(store, options=ServiceOptions(embedder=embedder))


def texts(count: int = 40) -> dict[str, str]:
    return {f"n{number:03}": f"Note {number}." for number in range(count)}


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def running(worker: Worker) -> Iterator[None]:
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def test_once_it_does_what_lacks_vectors_and_ends(kb: Service, embedder: CountedEmbedder) -> None:
    kb.put_documents("d", texts(), embed="later")
    kb.put_document("e", "a", "Another dataset.", embed="later")
    shares: list[Share] = []
    report = Worker(kb, on_share=shares.append).run(once=True)
    assert (report.documents, report.embedded, report.failed) == (41, 41, ())
    assert len(embedder.asked) == len(set(embedder.asked)) == 41
    assert [each.pending for each in kb.stats()] == [0, 0]
    assert sum(share.documents for share in shares) == 41
    assert report.shares == len(shares) > 2
    assert Worker(kb).run(once=True).shares == 0
    assert kb.capabilities.settings is not None
    assert dict(kb.capabilities.settings.list_settings()) == {}


def test_what_is_stale_or_has_no_chunks_is_derived(store: MemoryStore, kb: Service) -> None:
    kb.put_documents("d", texts(4))
    for name in ("n000", "new"):  # a writer that was killed after the source was stored
        store.documents.put("d", triptych.NewDocument(name=name, content="Quinces."))
    assert kb.stats()[0].stale == 2
    assert Worker(kb).run(once=True).documents == 2
    assert kb.stats()[0].stale == 0
    assert len(kb.search("quinces", dataset_id="d", mode="bm25").hits) == 2


def test_it_works_on_the_datasets_that_it_was_given(kb: Service) -> None:
    for dataset_id in ("d", "e", "f"):
        kb.put_document(dataset_id, "a", f"Text of {dataset_id}.", embed="later")
    assert Worker(kb, ["f", "d", "missing"]).run(once=True).documents == 2
    assert [each.pending for each in kb.stats()] == [0, 1, 0]


def test_four_threads_do_each_document_once(kb: Service, embedder: CountedEmbedder) -> None:
    kb.put_documents("d", texts(300), embed="later")
    workers = [Worker(kb) for _ in range(4)]
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda each=each: done.append(each.run(once=True).documents))
        for each in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == 300
    assert len(embedder.asked) == len(set(embedder.asked)) == 300


def test_once_it_waits_for_what_others_have_and_takes_it_over(kb: Service) -> None:
    kb.put_documents("d", texts(8), embed="later")
    leases = kb.capabilities.leases
    assert leases is not None
    leases.hold_leases(QUEUE, ["n001", "n002"], holder="killed", seconds=0.5)
    shares: list[Share] = []
    report = Worker(kb, on_share=shares.append).run(once=True)
    assert report.documents == 8
    assert [share.documents for share in shares][-1] == 2
    assert len(shares) == 2


def test_what_another_finishes_meanwhile_is_not_done_again(
    kb: Service, embedder: CountedEmbedder
) -> None:
    kb.put_documents("d", texts(8), embed="later")
    assert kb.capabilities.leases is not None
    with LeaseHolder(kb.capabilities.leases, QUEUE) as other:
        assert other.claim(["n003"]) == ["n003"]
        shares: list[Share] = []
        thread = threading.Thread(target=lambda: Worker(kb, on_share=shares.append).run(once=True))
        thread.start()
        until(lambda: shares)
        kb.embed_pending("d", doc_names=["n003"])
    thread.join()
    assert [share.documents for share in shares] == [7]
    assert len(embedder.asked) == len(set(embedder.asked)) == 8


def test_it_waits_for_new_work_until_it_is_stopped(kb: Service) -> None:
    worker = Worker(kb, poll=0.01)
    with running(worker):
        for number in range(3):
            kb.put_document("d", f"n{number}", f"Note {number}.", embed="later")
            until(lambda: kb.stats() and kb.stats()[0].pending == 0)
    assert worker.stopped
    assert worker.run().shares == 3, "a worker that was stopped does nothing more"


def test_a_document_that_fails_holds_up_no_other_and_is_tried_again(
    kb: Service, embedder: CountedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych.workers._FIRST_PAUSE", 0.05)
    kb.put_documents("d", texts(8), embed="later")
    embedder.bad, embedder.error = {"Note 3."}, ProviderTimeoutError("slow")
    report = Worker(kb).run(once=True)
    assert [(each.dataset_id, each.name) for each in report.failed] == [("d", "n003")]
    assert kb.stats()[0].pending == 1
    with running(Worker(kb, poll=0.01)):
        until(lambda: embedder.asked.count("Note 3.") > 6)
        embedder.bad = set()
        until(lambda: kb.stats()[0].pending == 0)


def test_a_text_that_is_refused_waits_until_it_is_to_be_sent_again(
    kb: Service, embedder: CountedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych.workers._FIRST_PAUSE", 0.01)
    kb.put_documents("d", texts(8), embed="later")
    embedder.bad = {"Note 3."}
    assert [each.name for each in Worker(kb).run(once=True).failed] == ["n003"]
    asked = embedder.asked.count("Note 3.")
    shares: list[Share] = []
    with running(Worker(kb, poll=0.01, on_share=shares.append)):
        until(lambda: len(shares) > 3)
        assert embedder.asked.count("Note 3.") == asked
        embedder.bad = set()
        kb.embed_pending("d", retry=True)
        until(lambda: kb.stats()[0].pending == 0)


def test_a_dataset_of_another_model_is_left_alone(store: MemoryStore, kb: Service) -> None:
    kb.put_documents("d", texts(3))
    other = Service(store, options=ServiceOptions(embedder=CountedEmbedder("fake/2")))
    other.put_document("e", "a", "Its own.", embed="later")
    report = Worker(other).run(once=True)
    assert report.documents == 1
    (failure,) = report.failed
    assert isinstance(failure, Failure)
    assert (failure.dataset_id, failure.name) == ("d", "")
    assert isinstance(failure.error, ModelMismatchError)
    assert kb.stats("d")[0].vectors == 3
    bare = Worker(Service(store, options=ServiceOptions())).run(once=True)
    assert bare.documents == 0
    assert kb.stats("d")[0].vectors == 3, "a worker without an embedder removes no vectors"


def test_a_stop_keeps_what_was_embedded_and_releases_the_rest(kb: Service) -> None:
    kb.put_documents("d", texts(200), embed="later")
    worker = Worker(kb, on_share=lambda share: worker.stop())
    report = worker.run(once=True)
    assert report.shares == 1
    assert kb.stats()[0].pending == 200 - report.documents
    assert kb.capabilities.settings is not None
    assert dict(kb.capabilities.settings.list_settings()) == {}


def test_a_deadline_ends_it(kb: Service) -> None:
    with deadline(0.2), pytest.raises(CancelledError):
        Worker(kb, poll=0.01).run()


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "1", True])
@pytest.mark.parametrize("name", ["poll", "lease"])
def test_seconds_are_numbers_above_0(kb: Service, name: str, wrong: Any) -> None:
    with pytest.raises(ValidationError, match=f"{name} is a number of seconds"):
        Worker(kb, **{name: wrong})


def test_a_store_without_settings_has_no_workers(store: MemoryStore) -> None:
    bare = Repositories(documents=store.documents, chunks=store.chunks, layers=store.layers)
    with pytest.raises(NotAvailableError, match="keeps no settings"):
        Worker(Service(bare))
