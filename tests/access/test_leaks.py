"""What could tell a caller of others, one by one: beside what every method answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from support.access_pair import OURS, THEIRS, Pair, filled, names_nothing, options
from triptych import contracts
from triptych.access import Access
from triptych.contracts.defaults import Repositories
from triptych.errors import AccessDeniedError, NotAvailableError, NotFoundError, TriptychError
from triptych.question_log import QuestionLog
from triptych.records import NewDocument, dense
from triptych.search import Pipeline
from triptych.service import Service
from triptych.sync import DirectorySync, SyncRoot
from triptych.text import get_analyzer
from triptych_adapters.tools import knowledge_tools
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import ScriptedLLM


@pytest.fixture
def kb() -> Iterator[Service]:
    with filled() as made:
        yield made


# What stands under every method


def _own(kind: type, package: str) -> set[str]:
    """The public names that the classes of this package give to ``kind``."""
    own = (each for each in kind.__mro__ if each.__module__.startswith(f"{package}."))
    return {name for each in own for name in vars(each) if not name.startswith("_")}


def test_every_method_of_a_repository_is_decided_on(kb: Service) -> None:
    restricted = kb.restricted(Access(can_write=True))
    can = restricted.capabilities
    views = {
        contracts.DocumentRepo: restricted.documents,
        contracts.VersionReader: can.versions,
        contracts.ChunkRepo: restricted.chunks,
        contracts.LayerRepo: restricted.layer_repo,
        contracts.DocLevelSearcher: can.document_search,
        contracts.SettingsStore: can.settings,
        contracts.ChangeReader: can.changes,
    }
    for contract, view in views.items():
        asked = _own(contract, "triptych.contracts")
        assert asked
        assert asked - _own(type(view), "triptych.access") == set(), contract


def test_a_capability_that_nobody_decided_on_is_not_there(kb: Service) -> None:
    known = {
        "versions", "document_search",
        "settings", "sparse", "changes",
    }  # fmt: skip
    for access in (Access(can_write=True), Access(where=OURS, can_write=True)):
        found = attrs.asdict(kb.restricted(access).capabilities, recurse=False)
        assert {name for name, each in found.items() if each is not None} <= known


def test_what_is_forbidden_and_what_is_missing_take_the_same_path(kb: Service) -> None:
    """The store is asked the same, for a document of others and for one that is not there."""
    asked: list[str] = []

    class Traced:
        def __init__(self, inner: Any, what: str) -> None:
            self._inner, self._what = inner, what

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._inner, name)
            if not callable(found):
                return found

            def call(*args: Any, **kwargs: Any) -> Any:
                asked.append(f"{self._what}.{name}")
                return found(*args, **kwargs)

            return call

    class Store:
        documents = Traced(kb.store.documents, "documents")
        chunks = Traced(kb.store.chunks, "chunks")
        layers = Traced(kb.store.layers, "layers")
        stats = Traced(kb.store, "store").stats
        scrub = kb.store.scrub
        capabilities = Repositories.over(
            kb.store, documents=documents, chunks=chunks, layers=layers
        ).capabilities

        def close(self) -> None:
            pass

    traced = Service(Store(), options=options())
    ours = traced.restricted(Access(where=OURS, can_write=True))
    one = traced.restricted(Access(dataset_ids=["kb"]))
    cases: list[tuple[Any, Sequence[tuple[str, str]]]] = [
        (lambda d, n: ours.get_document(d, n), [("kb", "zebra.md"), ("kb", "none.md")]),
        (lambda d, n: ours.layer(d, n, "L0"), [("kb", "zebra.md"), ("kb", "none.md")]),
        (lambda d, n: ours.delete_document(d, n), [("kb", "zebra.md"), ("kb", "none.md")]),
        (lambda d, n: ours.list_documents(d), [("zoo", ""), ("none", "")]),
        (lambda d, n: ours.search("zebra", dataset_id=d), [("zoo", ""), ("none", "")]),
        (lambda d, n: one.search("zebra", dataset_id=d), [("zoo", ""), ("none", "")]),
        (lambda d, n: one.stats(d), [("zoo", ""), ("none", "")]),
        (lambda d, n: one.get_document(d, n), [("zoo", "animals.md"), ("none", "animals.md")]),
    ]
    ours.list_datasets()  # from here on it knows a document of each dataset that it sees
    for call, places in cases:
        paths = []
        for place in places:
            asked.clear()
            with suppress(TriptychError):
                call(*place)
            paths.append(list(asked))
        assert paths[0] == paths[1]


# Statistics


def test_statistics_of_terms_are_of_the_callers_chunks(by_filter: Pair) -> None:
    terms = get_analyzer("english").analyze_query("zebra anchor rope tide code")
    readers = [each.capabilities.document_search for each in (by_filter.ours, by_filter.twin)]
    found, wanted = (
        each.corpus_stats(["kb", "zoo"], terms) for each in readers if each is not None
    )
    assert found == wanted
    assert "zebra" not in found.document_frequencies


def test_a_calibration_of_all_documents_judges_nothing_under_a_filter(kb: Service) -> None:
    settings = kb.capabilities.settings
    assert settings is not None
    settings.set_setting("answerability/kb", "zebra", expected=None)
    settings.set_setting("answerability/zoo", "zebra", expected=None)
    assert kb.restricted(Access(where=OURS)).capabilities.settings is None
    reader = kb.restricted(Access(dataset_ids=["kb"])).capabilities.settings
    assert reader is not None
    assert set(reader.list_settings()) == {"answerability/kb"}
    assert reader.get_setting("answerability/zoo") is None
    found = kb.restricted(Access(where=OURS)).search("anchor", dataset_id="kb")
    assert (found.evidence and found.evidence.calibrated, found.warnings) == (False, ())


def test_layers_of_folders_have_no_part_in_the_scores_of_a_filter_on_names() -> None:
    with filled() as kb, Service(MemoryStore(), options=options()) as twin:
        for one in (kb, twin):
            for name in ("guide/anchor.md", "guide/rope.md"):
                one.put_document("kb", name, f"# About {name}\n\nText.", OURS)
                one.put_document_layer("kb", name, "L0", f"The abstract of {name}, an anchor.")
        kb.delete_document("kb", "guide/secret.md")
        kb.put_folder_layer("kb", "guide/", "L0", "All abstracts of anchor things.")
        kb.put_dataset_layer("kb", "L0", "The abstract of all.")
        ours = kb.restricted(Access(where={"doc_prefix": "guide/"}))
        for mode in ("bm25", "vector", "hybrid"):
            for top_k in (1, 2, 3):
                found, wanted = (
                    each.search(
                        "abstract anchor", dataset_id="kb", layer="L0", mode=mode, top_k=top_k
                    )
                    for each in (ours, twin)
                )
                assert [(h.doc_name, h.score) for h in found.hits] == [
                    (h.doc_name, h.score) for h in wanted.hits
                ]
                assert found.exhausted == wanted.exhausted
        assert ours.layer("kb", "guide/", "L0") is None
        assert ours.dataset_layer("kb", "L0") is None


def test_warnings_count_the_callers_documents(kb: Service) -> None:
    ours = kb.restricted(Access(where=OURS))
    kb.store.documents.put("kb", NewDocument(name="new.md", content="Zebra.", metadata=THEIRS))
    assert kb.search("anchor", dataset_id="kb").warnings != ()
    assert ours.search("anchor", dataset_id="kb").warnings == ()
    kb.store.documents.put("kb", NewDocument(name="own.md", content="Ours.", metadata=OURS))
    (warning,) = ours.search("anchor", dataset_id="kb").warnings
    assert warning.startswith("1 document is not indexed yet")


def test_a_vector_is_given_to_who_has_read_its_text(kb: Service) -> None:
    ours = kb.restricted(Access(where=OURS))
    config = kb.chunks.config("kb")
    assert config is not None
    chunks = {name: next(kb.chunks.iter_chunks("kb", name)) for name in ("tide.md", "zebra.md")}
    digests = [each.sig.input_sig for each in chunks.values()]
    assert len(kb.chunks.known_vectors("kb", dense(config.embed_sig), digests)) == 2
    assert ours.chunks.known_vectors("kb", dense(config.embed_sig), digests) == {}
    assert len(list(ours.chunks.iter_chunks("kb"))) == 3
    known = ours.chunks.known_vectors("kb", dense(config.embed_sig), digests)
    assert list(known) == [chunks["tide.md"].sig.input_sig]


# What is kept between calls


def test_cached_answers_do_not_cross_accesses() -> None:
    with filled(semantic_cache=True) as kb:
        accesses = [
            Access(), Access(where=OURS), Access(where=THEIRS), Access(dataset_ids=["kb"]),
            Access(where={"team": ["ours", "theirs"]}),
        ]  # fmt: skip
        services = [kb, *(kb.restricted(each) for each in accesses)]
        with filled() as plain:
            uncached = [plain, *(plain.restricted(each) for each in accesses)]
            for _ in range(2):
                for cached, other in zip(services, uncached, strict=True):
                    found = cached.search("zebra anchor", dataset_id="kb")
                    wanted = other.search("zebra anchor", dataset_id="kb")
                    assert [(h.doc_name, h.score) for h in found.hits] == [
                        (h.doc_name, h.score) for h in wanted.hits
                    ]
                    if cached._parts.cached is not None:
                        cached._parts.cached.flush()
        # Each found its own answer the second time, and counts itself alone.
        assert [each.cache_stats().hits for each in services[1:]] == [1] * len(accesses)
        assert kb.cache_stats().hits == len(services)
        same = kb.restricted(Access(where=OURS))
        assert same.search("zebra anchor", dataset_id="kb").cache_similarity is not None
        assert same.cache_stats().entries == 0
        # What docs/how-to/access.md owns up to: that something was written shows, and not what.
        kb.put_document("kb", "hidden.md", "A zebra.", THEIRS)
        assert same.search("zebra anchor", dataset_id="kb").cache_similarity is None


def test_logged_questions_are_not_shown() -> None:
    log = QuestionLog(MemoryStore().capabilities.settings)
    with filled(observer=log) as kb:
        ours = kb.restricted(Access(where=OURS))
        ours.search("quantum", dataset_id="kb", mode="bm25")
        assert [each.text for each in log.questions()] == ["quantum"]
        own = QuestionLog(kb.capabilities.settings)
        assert own.note("quantum", ["kb"], "nothing", []) is None
        with pytest.raises(NotAvailableError):
            QuestionLog(ours.capabilities.settings).questions()


def test_a_cursor_is_of_what_the_caller_sees(by_filter: Pair) -> None:
    def pages(kb: Service) -> list[Any]:
        tool = knowledge_tools(kb, max_tokens=256)[0]
        found, more = [], {}
        while True:
            answer = tool.call({"query": "anchor rope", "top_k": 10, **more})
            found.append(answer)
            cursor = answer["cursor"] if isinstance(answer, dict) else None
            if cursor is None:
                return found
            more = {"cursor": cursor}

    assert pages(by_filter.ours) == pages(by_filter.twin)


# Receipts


def test_a_receipt_of_others_tells_nothing(kb: Service) -> None:
    receipt = kb.context("zebra code", 4000, dataset_id="kb", counter=len).receipt
    ours = kb.restricted(Access(where=OURS))
    replayed = ours.replay(receipt)
    shown = {piece.citation.doc_name for piece in replayed.pieces}
    assert not shown & {"zebra.md", "guide/secret.md", "untagged.md"}
    assert {each.reason for each in replayed.missing if each.piece.doc_name == "zebra.md"} == {
        "the document 'zebra.md' is gone"
    }
    gone = attrs.evolve(receipt, pieces=tuple(
        attrs.evolve(each, doc_name="none.md") for each in receipt.pieces
    ))  # fmt: skip
    assert {each.reason for each in ours.replay(gone).missing} == {"the document 'none.md' is gone"}
    answer = kb.ask("zebra code", dataset_id="kb", llm=ScriptedLLM("It is 4711 [1]."))
    assert "4711" not in ours.replay(answer.receipt).text


# Costs


def test_a_text_of_others_is_embedded_as_if_it_was_new() -> None:
    with Service(MemoryStore(), options=options()) as kb:
        kb.put_document("kb", "theirs.md", "The zebra code is 4711.", THEIRS)
        ours = kb.restricted(Access(where=OURS, can_write=True))
        document = NewDocument(name="guess.md", content="The zebra code is 4711.", metadata=OURS)
        report = ours.put_documents("kb", [document])
        other = NewDocument(name="other.md", content="The zebra code is 4712.", metadata=OURS)
        assert attrs.asdict(report) == attrs.asdict(ours.put_documents("kb", [other]))
        assert (report.added, report.chunks, report.embedded, report.encoded) == (1, 1, 0, 0)
        for call in (
            lambda: ours.put_documents("kb", [document], embed="later"),
            lambda: ours.put_document("kb", "guess.md", "The code.", OURS, embed="later"),
        ):
            with pytest.raises(AccessDeniedError, match="at once"):
                call()
        steps: list[object] = []
        ours.put_documents("kb", [attrs.evolve(other, name="o.md")], progress=steps.append)
        assert steps == []
        report = kb.put_documents("kb", [attrs.evolve(document, name="again.md")])
        assert report.embedded + report.reused == 1


# Errors


def test_errors_name_nothing_of_others(by_filter: Pair, by_dataset: Pair) -> None:
    cases = [
        lambda s: s.search("x", dataset_id="none"),
        lambda s: s.search("x", dataset_ids=["kb", "none"]),
        lambda s: s.get_document("kb", "none.md"),
        lambda s: s.get_document("none", "none.md"),
        lambda s: s.list_documents("none"),
        lambda s: s.put_document_layer("kb", "none.md", "L0", "x"),
        lambda s: s.put_folder_layer("kb", "none/", "L0", "x"),
        lambda s: s.update_metadata("none", {"a": 1}, names=["x"]),
        lambda s: s.delete_documents("none", names=["x"]),
        lambda s: s.restore("kb", "none.md", 1),
        lambda s: s.pipeline("none"),
        lambda s: s.list_documents("kb", sort="-$version", after="none.md"),
    ]
    for call in cases:
        with pytest.raises(TriptychError) as error:
            call(by_filter.ours)
        names_nothing((error.value, getattr(error.value, "__notes__", ())))
        with pytest.raises(TriptychError) as error:
            call(by_dataset.ours)
        assert "zoo" not in str(error.value)


@pytest.mark.parametrize("if_version", [None, 0, 1, 9])
def test_a_writer_of_a_prefix_learns_no_name_outside_it(
    kb: Service, monkeypatch: pytest.MonkeyPatch, if_version: int | None
) -> None:
    kb.put_document("kb", "blue/secret.md", "Hidden.")
    access = Access(can_write=True, where={"doc_prefix": "red/"})
    writer = kb.restricted(access)
    read: list[str] = []
    get = kb.store.documents.get
    monkeypatch.setattr(
        type(kb.store.documents), "get", lambda self, d, name: read.append(name) or get(d, name)
    )
    said = []
    for name in ("blue/secret.md", "blue/nothing.md"):
        with pytest.raises(AccessDeniedError) as error:
            writer.put_document("kb", name, "x", if_version=if_version)
        (failure,) = writer.put_documents(
            "kb", [NewDocument(name=name, content="x", if_version=if_version)]
        ).failed
        said.append((str(error.value).replace(name, "it"), str(failure.error).replace(name, "it")))
    assert said[0] == said[1]
    assert read == []


def test_the_doctor_reports_of_the_callers_documents(by_dataset: Pair) -> None:
    report = by_dataset.ours.doctor()
    assert report.checked["datasets"] == 1
    assert report.checked["documents"] == by_dataset.twin.count_documents("kb")
    assert "zoo" not in repr(report)


# Files


def test_where_the_server_has_its_files_is_not_shown(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "tea.md").write_text("# Tea\n\nA pot of tea.\n")
    with triptych.open(
        tmp_path / "kb.db", embedder="hash", pipelines=[Pipeline(name="p")], semantic_cache=True
    ) as kb:
        DirectorySync(kb, [SyncRoot(path=folder, dataset_id="kb")]).sync()
        assert kb.search("tea", dataset_id="kb").hits[0].path == folder / "tea.md"
        for access in (Access(dataset_ids=["kb"]), Access(where={"doc_prefix": "t"}), Access()):
            ours = kb.restricted(access)
            asked = {"query": "tea", "dataset_id": "kb"}
            shown: list[Any] = [tool.call(asked) for tool in knowledge_tools(ours)[:1]]
            for searched in (ours, ours.pipeline("p")):
                shown += [
                    searched.search("tea", dataset_id="kb"),
                    searched.search_documents("tea", dataset_id="kb"),
                    searched.context("tea", 500, dataset_id="kb"),
                    searched.ask("tea", dataset_id="kb", llm=ScriptedLLM("Tea [1].")),
                ]
            shown.append(ours.dataset("kb").search("tea"))
            shown += ours.search_many(["tea"], dataset_id="kb")
            for each in shown:
                assert "tea.md" in repr(each)
                assert "private" not in repr(each)


def test_a_pipeline_does_not_name_a_dataset_that_is_not_there_for_the_caller() -> None:
    pipelines = [Pipeline(name="all"), Pipeline(name="zebras", datasets=["zoo"])]
    with triptych.open("memory://", embedder=None, pipelines=pipelines) as kb:
        kb.put_document("kb", "a.md", "Text.", {"team": "red"})
        kb.put_document("zoo", "z.md", "Text.", {"team": "blue"})
        red = kb.restricted(Access(where={"team": "red"}))
        assert list(red.pipelines) == ["all"]
        with pytest.raises(NotFoundError) as caught:
            red.pipeline("zebras")
        assert "zoo" not in str(caught.value)
        assert list(kb.restricted(Access(where={"team": "blue"})).pipelines) == ["all", "zebras"]
        kb.put_document("zoo", "r.md", "Text.", {"team": "red"})
        assert list(red.pipelines) == ["all", "zebras"]
