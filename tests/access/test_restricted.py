"""What a restricted Service writes, and what becomes of it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from support.access_pair import OURS, THEIRS, options
from triptych import AsyncService
from triptych.access import Access
from triptych.contracts.defaults import Repositories
from triptych.errors import (
    AccessDeniedError,
    ConflictError,
    NotFoundError,
    StoreError,
    TriptychError,
    ValidationError,
)
from triptych.layers import LayerBuilder, LayerJournal
from triptych.records import Layer, ModelUsage, NewDocument, QuarantinedLayer, RebuildScope
from triptych.service import Effect, Service
from triptych.service.operations import operations_of
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeLLM


@pytest.fixture
def kb() -> Iterator[Service]:
    with Service(MemoryStore(), options=options()) as service:
        service.put_document("kb", "mine.md", "An anchor.", OURS)
        service.put_document("kb", "theirs.md", "A zebra.", THEIRS)
        service.put_document("zoo", "z.md", "A zebra.", THEIRS)
        yield service


@pytest.fixture
def writer(kb: Service) -> Service:
    return kb.restricted(Access(where=OURS, can_write=True))


def state(kb: Service) -> list[tuple[str, str, int, dict[str, Any]]]:
    """All documents, as they are."""
    return [
        (dataset_id, info.name, info.version, dict(info.metadata))
        for dataset_id in kb.list_datasets()
        for info in kb.list_documents(dataset_id)
    ]


WRITES: dict[str, Callable[[Service], Any]] = {
    "put_document": lambda s: s.put_document("kb", "theirs.md", "Mine.", OURS),
    "put_documents": lambda s: s.put_documents("kb", {"theirs.md": "Mine."}).raise_for_failures(),
    "update_metadata": lambda s: s.update_metadata("kb", OURS, names=["theirs.md"]),
    "delete_document": lambda s: s.delete_document("kb", "theirs.md"),
    "delete_documents": lambda s: s.delete_documents("kb", where={"$name": {"$exists": True}}),
    "restore": lambda s: s.restore("kb", "theirs.md", 1),
    "remove_expired": lambda s: s.remove_expired(),
    "purge": lambda s: s.purge("kb", "theirs.md"),
    "put_document_layer": lambda s: s.put_document_layer("kb", "theirs.md", "L0", "A horse."),
    "embed_pending": lambda s: s.embed_pending(),
    "rebuild": lambda s: s.rebuild(),
    "create_dataset": lambda s: s.create_dataset("new"),
    "configure_dataset": lambda s: s.configure_dataset("kb", language="german"),
    "delete_dataset": lambda s: s.delete_dataset("kb"),
    "recreate": lambda s: s.recreate("kb"),
    "put_dataset_layer": lambda s: s.put_dataset_layer("kb", "L0", "All of it."),
    "put_folder_layer": lambda s: s.put_folder_layer("kb", "g/", "L0", "All of it."),
}
"""Writes, each at what is not the caller's."""


def test_every_method_that_writes_has_a_case() -> None:
    assert set(WRITES) == {
        name for name, each in operations_of(Service).items() if each.effect is not Effect.READS
    } - {"doctor"}


def test_every_public_method_says_what_it_does() -> None:
    methods = {name for name, each in inspect.getmembers(Service, inspect.isfunction)}
    others = {each for each in methods if each[0] != "_"} - set(operations_of(Service))
    assert others == {"close", "dataset", "pipeline", "restricted"}


def test_what_an_access_looks_at_is_given_by_name() -> None:
    for name, traits in operations_of(Service).items():
        looked_at = {"embed", "progress", traits.writes_if}
        for each in inspect.signature(getattr(Service, name)).parameters.values():
            assert each.name not in looked_at or each.kind is each.KEYWORD_ONLY, name


@pytest.mark.parametrize("name", WRITES)
def test_who_may_only_read_changes_nothing(name: str, kb: Service) -> None:
    for access in (Access(), Access(dataset_ids=["kb"]), Access(where=OURS)):
        before = state(kb)
        with pytest.raises(AccessDeniedError, match="may only read"):
            WRITES[name](kb.restricted(access))
        assert state(kb) == before


@pytest.mark.parametrize("name", WRITES)
def test_what_is_not_the_callers_stays_as_it_is(name: str, kb: Service, writer: Service) -> None:
    before = [each for each in state(kb) if each[3] == THEIRS]
    layers, config = kb.layers("kb"), kb.stats("kb")[0].config
    said = ""
    try:
        WRITES[name](writer)
    except TriptychError as error:
        said = str(error)
    assert "zebra" not in said
    assert "zoo" not in said
    assert [each for each in state(kb) if each[3] == THEIRS] == before
    assert [each for each in kb.layers("kb") if each.doc_name != "mine.md"] == layers
    assert kb.stats("kb")[0].config == config
    assert kb.list_datasets() == ["kb", "zoo"]


def test_a_document_is_the_callers_before_and_after(kb: Service, writer: Service) -> None:
    for name, metadata in (
        ("theirs.md", OURS), ("mine.md", THEIRS), ("mine.md", {}), ("new.md", {}), ("new.md", None),
    ):  # fmt: skip
        with pytest.raises(AccessDeniedError, match=f"not allow writing the document '{name}'"):
            writer.put_document("kb", name, "Other.", metadata)
        report = writer.put_documents(
            "kb", [NewDocument(name=name, content="Other.", metadata=metadata)]
        )
        assert [type(each.error) for each in report.failed] == [AccessDeniedError]
    assert writer.put_document("kb", "mine.md", "Kept.").metadata == OURS
    assert writer.put_document("kb", "new.md", "New.", {**OURS, "year": 1}).version == 1
    report = writer.put_documents(
        "kb",
        [
            NewDocument(name="mine.md", content="Once more."),
            NewDocument(name="theirs.md", content="Mine now.", metadata=OURS),
            NewDocument(name="mine.md", content="And again."),
            NewDocument(name="third.md", content="Third.", metadata=OURS),
        ],
    )
    assert (report.added, report.updated, len(report.failed)) == (1, 2, 1)
    assert writer.get_document("kb", "mine.md").content == "And again."
    with pytest.raises(AccessDeniedError):
        writer.update_metadata("kb", {"team": None}, names=["mine.md"]).raise_for_failures()
    assert kb.get_document("kb", "theirs.md").content == "A zebra."


def test_a_dataset_of_others_takes_a_put_as_a_new_one_does(kb: Service, writer: Service) -> None:
    kb.create_dataset("german", language="german")
    kb.put_document("german", "theirs.md", "Die Häuser.", THEIRS)
    before = kb.store.chunks.config("german")
    for dataset_id in ("german", "zoo", "none"):
        stored = writer.put_document(dataset_id, "mine.md", "Viele Häuser.", OURS)
        assert (stored.version, stored.metadata) == (1, OURS)
        more = NewDocument(name="more.md", content="Haus.", metadata=OURS)
        report = writer.put_documents(dataset_id, [more])
        assert report.added == 1
    assert kb.store.chunks.config("german") == before
    found = writer.search("Haus", dataset_id="german", mode="bm25").hits
    assert [hit.doc_name for hit in found] == ["more.md", "mine.md"]


def test_who_has_a_filter_configures_nothing_whether_it_is_there_or_not(
    kb: Service, writer: Service
) -> None:
    kb.create_dataset("german", language="german")
    kb.put_document("german", "theirs.md", "Die Häuser.", THEIRS)
    datasets = ("german", "zoo", "kb", "none")
    before = [kb.store.chunks.config(each) for each in datasets]
    calls: list[Callable[[Service, str], Any]] = [
        lambda s, d: s.configure_dataset(d, language="german"),
        lambda s, d: s.configure_dataset(d, language="english"),
        lambda s, d: s.create_dataset(d),
        lambda s, d: s.create_dataset(d, language="german"),
    ]
    for call in calls:
        said = set()
        for dataset_id in datasets:
            with pytest.raises(AccessDeniedError) as error:
                call(writer, dataset_id)
            said.add(str(error.value).replace(dataset_id, "it"))
        assert len(said) == 1
    assert [kb.store.chunks.config(each) for each in datasets] == before
    assert "none" not in kb.list_datasets()


def test_versions_count_for_the_callers_documents_alone(kb: Service, writer: Service) -> None:
    with pytest.raises(ConflictError) as error:
        writer.put_document("kb", "mine.md", "Other.", if_version=7)
    assert error.value.actual == 1
    with pytest.raises(AccessDeniedError):
        writer.put_document("kb", "theirs.md", "Other.", OURS, if_version=0)
    with pytest.raises(ConflictError) as error:
        writer.delete_document("kb", "theirs.md", if_version=1)
    assert error.value.actual == 0
    assert writer.delete_document("kb", "theirs.md") is False
    assert writer.delete_document("kb", "mine.md", if_version=1) is True


def test_others_that_write_meanwhile_are_not_written_over(kb: Service) -> None:
    """Two callers put the same name at once: it stays with whoever had it first."""
    red, blue = (
        kb.restricted(Access(where={"team": team}, can_write=True)) for team in ("red", "blue")
    )
    refused: list[str] = []

    def put(service: Service, team: str) -> None:
        for at in range(20):
            try:
                service.put_document("kb", f"{at}.md", f"Of {team}.", {"team": team})
            except AccessDeniedError:
                refused.append(team)

    threads = [threading.Thread(target=put, args=each) for each in ((red, "red"), (blue, "blue"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 20
    # By whoever sees all: to a caller who was always second the dataset does not exist.
    assert kb.count_documents("kb", where={"team": ["red", "blue"]}) == 20
    for info in kb.list_documents("kb", where={"team": ["red", "blue"]}):
        assert (info.version, kb.get_document("kb", info.name).content) == (
            1, f"Of {info.metadata['team']}.",
        )  # fmt: skip


def test_a_document_that_becomes_anothers_while_it_is_written_is_left_alone(kb: Service) -> None:
    class Meddling:
        """Documents that another writer takes over just before they are put."""

        def __init__(self) -> None:
            self.left = 1

        def __getattr__(self, name: str) -> Any:
            return getattr(kb.store.documents, name)

        def taken_over(self, dataset_id: str, name: str) -> None:
            if self.left:
                self.left -= 1
                kb.put_document(dataset_id, name, "A zebra by now.", THEIRS)

        def put(self, dataset_id: str, document: NewDocument) -> Any:
            self.taken_over(dataset_id, document.name)
            return kb.store.documents.put(dataset_id, document)

        def put_many(self, dataset_id: str, documents: Any) -> Any:
            self.taken_over(dataset_id, documents[0].name)
            return kb.store.documents.put_many(dataset_id, documents)

        def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
            self.taken_over(dataset_id, name)
            return kb.store.documents.delete(dataset_id, name, if_version=if_version)

    class Store:
        documents = Meddling()
        chunks, layers, stats = kb.store.chunks, kb.store.layers, kb.store.stats
        capabilities = Repositories.over(kb.store, documents=documents).capabilities

        def close(self) -> None:
            pass

    ours = Service(Store(), options=options()).restricted(  # type: ignore[arg-type]
        Access(where=OURS, can_write=True)
    )
    with pytest.raises(AccessDeniedError):
        ours.put_document("kb", "mine.md", "Mine.")
    Store.documents.left = 1
    kb.put_document("kb", "mine.md", "Mine.", OURS)
    report = ours.put_documents("kb", {"mine.md": "Mine again."})
    assert [type(each.error) for each in report.failed] == [AccessDeniedError]
    Store.documents.left = 1
    kb.put_document("kb", "mine.md", "Mine.", OURS)
    assert ours.delete_document("kb", "mine.md") is False
    assert kb.get_document("kb", "mine.md").content == "A zebra by now."


def test_what_becomes_the_callers_brings_no_history_with_it(kb: Service) -> None:
    reader = kb.restricted(Access(where=OURS))
    kb.put_document("kb", "doc.md", "Public draft.", OURS)
    kb.put_document("kb", "doc.md", "Secret zebra plan.", THEIRS)
    with pytest.raises(NotFoundError):
        reader.get_document("kb", "doc.md", 1)
    kb.put_document("kb", "doc.md", "Public text.", OURS)
    assert [each.version for each in reader.history("kb", "doc.md")] == [3]
    for version in (1, 2):
        with pytest.raises(NotFoundError, match="3"):
            reader.get_document("kb", "doc.md", version)
        found = reader.search("draft zebra public", dataset_id="kb", as_of=version)
        assert "doc.md" not in [hit.doc_name for hit in found.hits]
    pack = reader.context("zebra plan", 200, dataset_id="kb", as_of=2, counter=len)
    assert "zebra" not in pack.render()


def test_what_was_derived_from_a_text_of_others_is_not_shown(kb: Service) -> None:
    """The chunks and the abstract of a document still are of its last text, which was another's."""
    kb.put_document("kb", "doc.md", "Secret zebra plan.", THEIRS)
    kb.put_document_layer("kb", "doc.md", Layer.ABSTRACT, "About a zebra plan.")
    store = kb.store
    store.documents.put("kb", NewDocument(name="doc.md", content="Nothing here.", metadata=OURS))
    reader = kb.restricted(Access(where=OURS))
    assert kb.search("zebra plan", dataset_id="kb", mode="bm25").hits[0].stale == "source"
    for mode in ("bm25", "vector", "hybrid", "sparse"):
        assert "zebra" not in repr(reader.search("zebra plan", dataset_id="kb", mode=mode).hits)
    assert "zebra" not in repr(reader.search("zebra plan", dataset_id="kb", layer="L0").hits)
    assert reader.layers("kb") == []
    assert reader.layer("kb", "doc.md", "L0") is None
    assert list(reader.chunks.iter_chunks("kb", "doc.md")) == []


def test_restricting_again_narrows(kb: Service) -> None:
    ours = kb.restricted(Access(where=OURS))
    assert ours.restricted(Access(can_write=True)).access.can_write
    with pytest.raises(AccessDeniedError):
        ours.restricted(Access(can_write=True)).put_document("kb", "mine.md", "Other.")
    both = ours.restricted(Access(where=THEIRS))
    assert both.list_datasets() == []
    assert both.search("zebra anchor", scope="all").hits == ()
    only = ours.restricted(Access(dataset_ids=["zoo", "kb"]))
    assert only.list_datasets() == ["kb"]
    with pytest.raises(NotFoundError):
        only.count_documents("zoo")
    named = kb.restricted(Access(dataset_ids=["kb", "zoo"], where=OURS))
    assert named.list_datasets() == ["kb", "zoo"]
    assert named.count_documents("zoo") == 0


def test_it_is_closed_with_the_service_it_is_made_of_and_closes_nothing_else(kb: Service) -> None:
    one, two = kb.restricted(Access()), kb.restricted(Access(where=OURS))
    one.search("anchor", dataset_id="kb")
    one.close()
    with pytest.raises(StoreError, match="closed"):
        one.list_datasets()
    assert two.list_datasets() == ["kb"]
    kb.close()
    with pytest.raises(StoreError, match="closed"):
        two.list_datasets()


@pytest.mark.parametrize("given", [None, {"dataset_ids": ["kb"]}, Access])
def test_restricted_takes_an_access(kb: Service, given: Any) -> None:
    with pytest.raises(ValidationError, match="takes an Access"):
        kb.restricted(given)


def test_a_rebuild_under_a_filter_is_of_the_callers_documents(kb: Service, writer: Service) -> None:
    report = writer.rebuild()
    assert (report.checked, report.fresh) == (1, 1)
    report = writer.rebuild(RebuildScope(dataset_id="kb", doc_names=("theirs.md", "none.md")))
    assert (report.checked, report.removed) == (0, 0)
    assert kb.search("zebra", dataset_id="kb").hits
    with pytest.raises(NotFoundError) as error:
        writer.rebuild(dataset_id="zoo")
    assert str(error.value) == "there is no dataset 'zoo'; the datasets are: 'kb'"


def test_it_can_be_awaited(kb: Service) -> None:
    async def asked() -> list[str]:
        ours = AsyncService(kb).restricted(Access(where=OURS))
        found = await ours.search("anchor zebra", scope="all")
        assert [hit.doc_name for hit in found.hits] == ["mine.md"]
        return list(await ours.list_datasets())

    assert asyncio.run(asked()) == ["kb"]


def test_what_expires_is_the_callers_or_is_not_there(kb: Service, writer: Service) -> None:
    soon = datetime.now(UTC) + timedelta(milliseconds=150)
    for name, metadata in (("mine2.md", OURS), ("theirs2.md", THEIRS)):
        kb.put_document("kb", name, "An anchor zebra.", metadata, expires_at=soon)
    wait = threading.Event()
    while datetime.now(UTC) <= soon:
        wait.wait(0.02)
    assert [hit.doc_name for hit in writer.search("anchor zebra", scope="all").hits] == ["mine.md"]
    assert writer.count_documents("kb") == 1
    assert writer.remove_expired() == 1
    assert [info.name for info in kb.store.documents.list("kb")] == [
        "mine.md", "theirs.md", "theirs2.md",
    ]  # fmt: skip
    assert writer.documents.with_expired(["kb"], datetime.now(UTC)) == []
    with pytest.raises(AccessDeniedError):  # a name of theirs, though nothing finds it
        writer.put_document("kb", "theirs2.md", "Mine.", OURS)


def test_whoever_writes_a_whole_dataset_builds_layers_with_the_journal_of_the_store() -> None:
    with Service(MemoryStore(), options=options()) as kb:
        for dataset_id in ("kb", "zoo"):
            kb.put_document(dataset_id, "a.md", "An anchor.")
        caller = kb.restricted(Access(dataset_ids=["kb"], can_write=True))
        assert LayerBuilder(caller).plan("kb").warnings == ()
        settings, own = caller.capabilities.settings, kb.capabilities.settings
        assert settings is not None
        assert own is not None
        journal = LayerJournal(settings)
        journal.record_usage("kb", ModelUsage(model="m", calls=1))
        assert [each.calls for each in LayerJournal(own).usage("kb")] == [1]
        quarantined = QuarantinedLayer(
            dataset_id="zoo",
            doc_name="a.md",
            layer=Layer.ABSTRACT,
            input_sig="i",
            prompt_sig="p",
            reason="empty",
            message="",
            quarantined_at=datetime.now(UTC),
        )
        with pytest.raises(AccessDeniedError):
            journal.quarantine(quarantined)
        journal.quarantine(attrs.evolve(quarantined, dataset_id="kb"))
        assert [each.doc_name for each in LayerBuilder(caller).quarantined("kb")] == ["a.md"]
        LayerJournal(own).record_usage("zoo", ModelUsage(model="m", calls=1))
        assert journal.usage("zoo") == []
        reader = LayerBuilder(kb.restricted(Access()), llm := FakeLLM())
        assert [each.doc_name for each in reader.quarantined("kb")] == ["a.md"]
        with pytest.raises(AccessDeniedError):
            reader.apply(reader.plan("kb"))
        assert not llm.requests
        kb.put_document("kb", "ours.md", "An anchor.", OURS)
        ours = kb.restricted(Access(where=OURS, can_write=True))
        assert "forgotten" in LayerBuilder(ours).plan("kb").warnings[0]
