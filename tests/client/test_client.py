"""A Service on a server answers as one that is here, record for record and error for error."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from support.bare_store import BareStore
from support.rows import each_row
from support.servers import served
from triptych import Dataset, NewDocument, Query, Service
from triptych.errors import (
    CancelledError,
    ConflictError,
    NotAvailableError,
    NotFoundError,
    StoreError,
    ValidationError,
)
from triptych.search import Pipeline
from triptych.service import KnowledgeBase, service_of
from triptych.service.operations import operations_of
from triptych_backends.memory import MemoryStore
from triptych_server.client import RemoteService, connect
from triptych_testing.fakes import ScriptedLLM

TEA = "# Tea\n\nA pot of tea is brewed with water that boils.\n"
MILK = "# Milk\n\nMilk is warmed slowly in a pan.\n"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("served")
    with triptych.open(
        folder / "kb.db",
        embedder="hash",
        llm=ScriptedLLM(*["Tea is brewed [1]."] * 20),
        pipelines=[Pipeline(name="short", search={"top_k": 1}, token_budget=300)],
    ) as kb:
        kb.put_documents("d", {"tea.md": TEA, "food/milk.md": MILK})
        yield kb


@pytest.fixture(scope="module")
def remote(local: Service) -> Iterator[RemoteService]:
    with served(local, write=True) as url, connect(url) as kb:
        yield kb


def shape(kind: type, name: str) -> list[tuple[object, ...]]:
    signature = inspect.signature(getattr(kind, name))
    return [(each.name, each.kind, each.default) for each in signature.parameters.values()]


def test_both_take_what_a_knowledge_base_takes() -> None:
    for name in operations_of(KnowledgeBase):
        wanted = shape(KnowledgeBase, name)
        assert [shape(kind, name) for kind in (Service, RemoteService)] == [wanted, wanted], name
        # The Service runs each itself; a client sends those that it does not define.
        assert getattr(Service, name) is not getattr(KnowledgeBase, name)


def test_searches_and_records_are_the_same(local: Service, remote: RemoteService) -> None:
    for query in (
        "pot of tea",
        Query(text="milk", dataset_id="d", top_k=1, where={"$name": {"$in": ["food/milk.md"]}}),
    ):
        options = {} if isinstance(query, Query) else {"dataset_id": "d"}
        ours, theirs = local.search(query, **options), remote.search(query, **options)
        assert [hit.doc_name for hit in theirs] == [hit.doc_name for hit in ours]
        assert [(h.score, h.scores, h.content, h.sig) for h in theirs] == [
            (h.score, h.scores, h.content, h.sig) for h in ours
        ]
    assert len(remote.search_many(["tea"] * 300, dataset_id="d", mode="bm25")) == 300
    both = remote.search_many(["tea", Query(text="milk", dataset_id="d", top_k=1)], dataset_id="d")
    assert [len(each.hits) > 0 for each in both] == [True, True]
    assert remote.get_document("d", "food/milk.md") == local.get_document("d", "food/milk.md")
    assert list(remote.list_documents("d")) == list(local.list_documents("d"))
    assert list(remote.list_documents("d", limit=1)) == list(local.list_documents("d", limit=1))
    assert remote.stats() == local.stats()
    assert remote.lanes == local.lanes
    ours, theirs = (
        local.context("tea", 200, dataset_id="d"),
        remote.context("tea", 200, dataset_id="d"),
    )
    assert theirs.render() == ours.render()
    assert remote.verify(theirs.pieces[0].citation) == local.verify(ours.pieces[0].citation)
    assert isinstance(remote.dataset("d"), Dataset)
    assert remote.dataset("d").count() == 2


def test_writes_with_metadata_versions_and_moments(remote: RemoteService) -> None:
    from datetime import UTC, date, datetime

    day = {"day": date(2026, 9, 1), "tags": ["a", "b"], "n": 1.5}
    stored = remote.put_document("w", "a/ä .md", "One.", day, if_version=0)
    assert (stored.version, dict(stored.metadata)) == (1, day)
    with pytest.raises(ConflictError) as caught:
        remote.put_document("w", "a/ä .md", "Two.", if_version=7)
    assert (caught.value.expected, caught.value.actual) == (7, 1)
    late = datetime(2030, 1, 1, tzinfo=UTC)
    again = remote.put_document("w", "a/ä .md", "Two.", expires_at=late)
    assert again.system.expires_at == late
    assert len(remote.history("w", "a/ä .md")) == 2
    assert "+Two." in remote.diff("w", "a/ä .md", 1)
    found = remote.search("two", dataset_id="w", where={"day": {"$gte": date(2026, 1, 1)}})
    assert len(found.hits) == 1
    report = remote.update_metadata("w", {"n": None}, names=["a/ä .md"])
    assert report.updated == 1
    assert remote.delete_document("w", "a/ä .md")
    assert remote.delete_dataset("w")


def test_a_bulk_put_goes_in_batches(remote: RemoteService) -> None:
    seen: list[int] = []
    many = (NewDocument(name=f"{n}.md", content=f"Page {n}.") for n in range(600))
    report = remote.put_documents("many", many, progress=lambda p: seen.append(p.done))
    assert (report.added, report.chunks, report.pending, report.failed) == (600, 600, 0, ())
    assert seen[0] == 256
    assert remote.stats("many")[0].vectors == 600
    large = {f"{n}.md": "word " * 60_000 for n in range(4)}
    assert remote.put_documents("many", large, embed="later").updated == 4
    with pytest.raises(ValidationError, match="NewDocument"):
        remote.put_documents("many", ["x"])  # type: ignore[list-item]
    remote.delete_dataset("many")


@pytest.mark.parametrize(
    "name", ["..", "a/../b", "/etc/passwd", "//", "a?b#c%2e", "ü/\u2028.md", "{x}"]
)
def test_any_name_goes_there_and_back(remote: RemoteService, name: str) -> None:
    try:
        remote.put_document("names", name, "Text.")
    except ValidationError:
        return
    assert remote.get_document("names", name).name == name
    assert remote.delete_document("names", name)


def test_errors_are_the_services_own(local: Service, remote: RemoteService) -> None:
    for call, kind in (
        (lambda kb: kb.get_document("d", "none.md"), NotFoundError),
        (lambda kb: kb.search("x", dataset_id="none"), NotFoundError),
        (lambda kb: kb.search("x", dataset_id="d", top_k=0), ValidationError),
        (lambda kb: kb.search("x", dataset_id="d", mode="colbert"), ValidationError),
        (lambda kb: kb.delete_documents("d"), ValidationError),
        (lambda kb: kb.pipeline("none"), NotFoundError),
    ):
        with pytest.raises(kind) as ours:
            call(local)
        with pytest.raises(kind) as theirs:
            call(remote)
        assert type(theirs.value) is type(ours.value)
        # What does not fit the schema of an operation is refused before the Service sees it.
        assert str(theirs.value) == str(ours.value) or "top_k" in str(theirs.value)
    with pytest.raises(NotAvailableError, match="takes no counter"):
        remote.context("tea", 100, dataset_id="d", counter=len)
    assert service_of(local, "this") is local
    with pytest.raises(NotAvailableError, match="this works on the store itself"):
        service_of(remote, "this")
    with pytest.raises(TypeError):
        remote.get_document()  # type: ignore[call-arg]


def test_pipelines_and_answers(local: Service, remote: RemoteService) -> None:
    short = remote.pipeline("short")
    assert len(short.search("milk tea", dataset_id="d").hits) == 1
    assert short.context("tea", dataset_id="d").budget == 300
    answer = remote.ask("How is tea made?", dataset_id="d")
    assert (answer.text, len(answer.citations)) == ("Tea is brewed [1].", 1)
    assert remote.replay(answer.receipt) == local.replay(answer.receipt)
    again = remote.replay(answer.receipt, answer=answer.text)
    assert again == local.replay(answer.receipt, answer=answer.text)
    assert again.proven is True
    strict = remote.ask("How is tea made?", dataset_id="d", proof="refuse")
    assert (strict.text, strict.proof) == (answer.text, answer.proof)
    with remote.ask_stream("How is tea made?", dataset_id="d") as stream:
        assert stream.pack.pieces
        assert "".join(stream) == stream.answer.text == answer.text
    assert "".join(short.ask_stream("How is tea made?", dataset_id="d")) == answer.text


def test_a_store_that_keeps_no_settings_is_written() -> None:
    with served(Service(BareStore(MemoryStore())), write=True) as url, connect(url) as kb:
        assert [kb.put_document("d", f"{n}.md", "Text.").version for n in range(2)] == [1, 1]
        assert kb.put_documents("d", {"2.md": "Text."}).added == 1
        assert kb.count_documents("d") == 3


def test_deadlines_and_closing(local: Service) -> None:
    with served(local) as url:
        kb = connect(url)
        with triptych.deadline(0), pytest.raises(CancelledError):
            kb.search("x", dataset_id="d")
        with pytest.raises(Exception, match="read-only"):
            kb.put_document("d", "x", "y")
        kb.close()
        kb.close()
        with pytest.raises(StoreError, match="closed"):
            kb.search("x", dataset_id="d")
    with (
        connect(url) as gone,
        pytest.raises(StoreError, match=r"cannot be reached .*Connection refused"),
    ):
        gone.list_datasets()


@each_row("url", ["ftp://x", "http://", "http://u:p@h", "http://h/?q"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        connect(url)


def test_changes_are_followed(local: Service, remote: RemoteService) -> None:
    page = remote.changes(dataset_id="d")
    assert page == local.changes(dataset_id="d")
    assert {each.name for each in page.changes} == {"tea.md", "food/milk.md"}
    follower = remote.follow(page.cursor, dataset_id="d", poll=0.01)
    local.put_document("d", "new.md", "New.")
    assert [(each.name, each.kind) for each in next(follower).changes] == [("new.md", "added")]
    local.delete_document("d", "new.md")
    assert [(each.name, each.kind) for each in next(follower).changes] == [("new.md", "deleted")]
    with triptych.deadline(0.05), pytest.raises(CancelledError):
        next(follower)
