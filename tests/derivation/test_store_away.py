"""A store that is away ends a call for many documents: it is not asked again for each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.extractive_layers import build_layers
from support.rows import each_row
from triptych import Progress, Service
from triptych.access import Access
from triptych.contracts.defaults import DocumentRepoBase, Repositories
from triptych.errors import StoreAwayError
from triptych.records import NewDocument
from triptych.sync.target import delete_documents
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import Failing

AWAY = StoreAwayError("the server stands still")
TEXTS = {f"n{number}.txt": f"Words of {number}." for number in range(600)}


def _delete(kb: Service) -> object:
    return delete_documents(kb, "d", kb.documents.list("d"))


def _put_one_by_one(kb: Service) -> object:
    return DocumentRepoBase.put_many(
        kb.documents, "d", [NewDocument(name=name, content="other") for name in TEXTS]
    )


def _put_ours(kb: Service) -> object:
    ours = kb.restricted(Access(where={"team": "ours"}, can_write=True))
    return ours.put_documents(
        "d", [NewDocument(name=f"{name}.md", content="new") for name in TEXTS]
    )


def _rebuild(kb: Service) -> object:
    kb.store.chunks.delete_by_dataset("d")
    return kb.rebuild(dataset_id="d")


CALLS: dict[str, tuple[str, str, Callable[[Service], object]]] = {
    "put": ("documents", "put_many", lambda kb: kb.put_documents("d", dict.fromkeys(TEXTS, "x"))),
    "derive": ("chunks", "replace_many", lambda kb: kb.put_documents("e", TEXTS)),
    "one by one": ("documents", "put", _put_one_by_one),
    "restricted": ("documents", "get_info", _put_ours),
    "rebuild": ("chunks", "replace_many", _rebuild),
    "metadata": (
        "documents",
        "put_many",
        lambda kb: kb.update_metadata("d", {"k": "v"}, names=TEXTS),
    ),
    "delete": ("documents", "delete_many", _delete),
    "layers": ("layers", "put", lambda kb: build_layers(kb, "d")),
}


@each_row("call", CALLS)
def test_a_store_that_is_away_ends_the_call(call: str) -> None:
    part, method, act = CALLS[call]
    store = MemoryStore()
    failing = Failing(getattr(store, part))
    with Service(Repositories.over(store, **{part: failing})) as kb:
        kb.put_documents("d", TEXTS)
        failing.counts.clear()
        failing.errors[method] = AWAY
        with pytest.raises(StoreAwayError, match="stands still"):
            act(kb)
        workers = 8 if call == "layers" else 1
        assert 1 <= failing.counts[method] <= workers
        if call == "delete":
            assert failing.counts["get_info"] == 0


def test_what_was_committed_before_stays() -> None:
    store = MemoryStore()
    documents = Failing(store.documents)
    with Service(Repositories.over(store, documents=documents)) as kb:

        def lose(progress: Progress) -> None:
            documents.errors["put_many"] = AWAY

        with pytest.raises(StoreAwayError):
            kb.put_documents("d", TEXTS, progress=lose)
        assert documents.counts["put_many"] == 2
        documents.errors.clear()
        there = len(kb.list_documents("d"))
        assert 0 < there < len(TEXTS)
        report = kb.put_documents("d", TEXTS)
        assert (report.unchanged, report.added) == (there, len(TEXTS) - there)
