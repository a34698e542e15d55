"""Events rebuild a real Service, by itself and only what they touch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import triptych
from triptych import (
    CancelledError,
    DerivationError,
    NotFoundError,
    ProviderError,
    RebuildScope,
    Service,
    deadlines,
)
from triptych.errors import ProviderTimeoutError
from triptych.events import EventReloader, QueueNotifier, RebuildRecord, ReloaderOptions
from triptych.records import ChangeEvent, EmbedKind
from triptych_testing.fakes import FakeEmbedder

WAIT = 60
QUICK = ReloaderOptions(debounce=0.01, max_delay=0.05, backoff_initial=0.01, backoff_max=0.02)
NEVER = ReloaderOptions(debounce=3600, max_delay=3600, backoff_initial=3600, backoff_max=3600)


class Gate(FakeEmbedder):
    """Asks ``check`` about every batch before it is embedded."""

    def __init__(self) -> None:
        super().__init__()
        self.check: Callable[[Sequence[str]], None] = lambda texts: None

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if kind == "document":
            self.check(texts)
        return super().embed(texts, kind=kind)


def refuse(texts: Sequence[str]) -> None:
    raise ProviderError("no answer")


def allow(texts: Sequence[str]) -> None:
    pass


def put_stale(kb: Service, gate: Gate, dataset_id: str, *names: str) -> None:
    """Store documents whose chunks are missing, as after an outage of the embedder."""
    gate.check = refuse
    for name in names:
        with pytest.raises(DerivationError):
            kb.put_document(dataset_id, name, f"All about {name} here.")
    gate.check = allow


def stale(kb: Service, dataset_id: str) -> int:
    counts = kb.stats(dataset_id)[0]
    return counts.stale + counts.pending


def put(dataset_id: str, name: str) -> ChangeEvent:
    return ChangeEvent(kind="put", dataset_id=dataset_id, doc_name=name)


def test_an_event_repairs_its_document_alone() -> None:
    gate, notifier = Gate(), QueueNotifier()
    rebuilt = threading.Event()
    with triptych.open("memory://", embedder=gate) as kb:
        put_stale(kb, gate, "d", "apples", "pears")
        with EventReloader(kb, notifier, QUICK, on_rebuild=lambda _: rebuilt.set()) as reloader:
            reloader.start()
            notifier.notify(put("d", "apples"))
            assert rebuilt.wait(WAIT)
        assert gate.texts == ["apples\nAll about apples here."]
        assert stale(kb, "d") == 1
        assert [hit.doc_name for hit in kb.search("about", dataset_id="d", mode="vector").hits] == [
            "apples"
        ]


def test_several_datasets_rebuild_everything_and_a_failed_document_is_retried_alone() -> None:
    def refuse_pears(texts: Sequence[str]) -> None:
        if any("pears" in text for text in texts):
            raise ProviderTimeoutError("no pears yet")  # a refusal would not be tried again

    gate, notifier = Gate(), QueueNotifier()
    records: list[RebuildRecord] = []
    with triptych.open("memory://", embedder=gate) as kb:
        put_stale(kb, gate, "d", "apples", "pears", "plums")
        put_stale(kb, gate, "e", "figs")
        gate.check = refuse_pears
        with EventReloader(kb, notifier, NEVER, on_rebuild=records.append) as reloader:
            reloader.start()
            notifier.notify(put("d", "apples"))
            notifier.notify(put("e", "figs"))
            report = reloader.flush()
            assert report is not None
            assert (report.rebuilt, [each.name for each in report.failed]) == (3, ["pears"])
            pending = [reloader.pending]
            gate.check = allow
            assert reloader.flush() is not None
            pending.append(reloader.pending)
            assert pending == [RebuildScope(dataset_id="d", doc_name="pears"), None]
        assert (stale(kb, "d"), stale(kb, "e")) == (0, 0)
    assert [(each.scope, each.attempt) for each in records] == [
        (RebuildScope(), 1),
        (RebuildScope(dataset_id="d", doc_name="pears"), 2),
    ]


def test_close_cancels_between_batches_and_what_was_committed_stays() -> None:
    gate, notifier = Gate(), QueueNotifier()
    hanging = threading.Event()

    def hang_late(texts: Sequence[str]) -> None:
        if gate.texts:
            hanging.set()
            while True:
                deadlines.check("embedding")
                threading.Event().wait(0.002)

    with triptych.open("memory://", embedder=gate) as kb:
        put_stale(kb, gate, "d", "apples")
        put_stale(kb, gate, "e", "figs")
        gate.check = hang_late
        reloader = EventReloader(kb, notifier, QUICK)
        reloader.start()
        notifier.notify(ChangeEvent(kind="bulk", dataset_id=""))
        assert hanging.wait(WAIT)
        reloader.close()
        assert (stale(kb, "d"), stale(kb, "e")) == (0, 1)
        assert reloader.pending == RebuildScope()


def test_a_dataset_that_has_gone_is_reported_and_forgotten() -> None:
    notifier = QueueNotifier()
    records: list[RebuildRecord] = []
    with (
        triptych.open("memory://", embedder=None) as kb,
        EventReloader(kb, notifier, NEVER, on_rebuild=records.append) as reloader,
    ):
        reloader.start()
        kb.put_document("d", "a", "text")
        kb.delete_dataset("d")
        notifier.notify(put("d", "a"))
        with pytest.raises(NotFoundError):
            reloader.flush()
        assert reloader.pending is None
    assert records[0].retry is None


def test_puts_searches_and_rebuilds_go_on_side_by_side() -> None:
    gate, notifier = Gate(), QueueNotifier(capacity=4)
    records: list[RebuildRecord] = []
    with triptych.open("memory://", embedder=gate) as kb:
        put_stale(kb, gate, "d", *(f"old {at}" for at in range(5)))

        def work(worker: int) -> None:
            for at in range(15):
                name = f"{worker} {at % 3}"
                kb.put_document("d", name, f"Version {at} of {name}")
                notifier.notify(put("d", name))
                assert kb.search(f"Version {at}", dataset_id="d").hits

        with EventReloader(kb, notifier, QUICK, on_rebuild=records.append) as reloader:
            reloader.start()
            threads = [threading.Thread(target=work, args=(each,)) for each in range(3)]
            for thread in threads:
                thread.start()
            for at in range(5):
                notifier.notify(put("d", f"old {at}"))
            for thread in threads:
                thread.join(WAIT)
            reloader.flush()
            assert stale(kb, "d") == 0
    assert all(isinstance(each.error, CancelledError | None) for each in records)
    assert not any(each.report.failed for each in records if each.report)
