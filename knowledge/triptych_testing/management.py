"""Tests of many documents: listing and counting by filter, sorting, metadata, deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import attrs
import pytest

from triptych.contracts import Store
from triptych.contracts.defaults import Repositories
from triptych.errors import ConflictError, NotFoundError, ValidationError
from triptych.records import DocumentInfo, MetadataValue, NewDocument, Subject, parse_filter
from triptych.service import Service, ServiceOptions
from triptych_testing.builders import fill, put
from triptych_testing.fakes import Before, FakeEmbedder
from triptych_testing.filter_oracle import SCALARS, passes
from triptych_testing.harness import HarnessTests, failures, there

METADATA: Mapping[str, Mapping[str, MetadataValue]] = {
    "a/1": {"lang": "en", "year": 2024},
    "a/2": {"lang": "de", "year": 2023.5, "tags": ["x"]},
    "b": {"lang": "en", "year": "2024"},
    "c": {"year": True, "day": date(2026, 9, 1)},
    "d": {},
    "e": {"lang": "en", "year": 2024.0, "day": datetime(2026, 8, 31, tzinfo=UTC)},
}


def _service(store: Store, documents: Any = None) -> Service:
    parts = Repositories.over(store, documents=documents or store.documents)
    return Service(parts, options=ServiceOptions(embedder=FakeEmbedder()))


def _fill(store: Store) -> Service:
    kb = _service(store)
    kb.put_documents(
        "d",
        [
            NewDocument(name=name, content=f"# Part\n\nfish {name}", metadata=metadata)
            for name, metadata in METADATA.items()
        ],
    )
    return kb


def _calls(kb: Service) -> int:
    assert isinstance(kb.options.embedder, FakeEmbedder)
    return kb.options.embedder.calls


def _names(infos: Any) -> list[str]:
    return [info.name for info in infos]


_FILTERED: list[tuple[dict[str, Any], list[str]]] = [
    ({"lang": "en"}, ["a/1", "b", "e"]),
    ({"year": 2024}, ["a/1", "e"]),
    ({"year": {"$gt": 2023}}, ["a/1", "a/2", "e"]),
    ({"lang": {"$ne": "en"}}, ["a/2", "c", "d"]),
    ({"$prefix": "a/", "tags": {"$contains": "x"}}, ["a/2"]),
    ({"day": {"$exists": True}}, ["c", "e"]),
    ({"$version": {"$lt": 1}}, []),
    ({"$updated_at": {"$gt": date(2020, 1, 1)}, "$name": ["b", "x"]}, ["b"]),
]
_SORTED = {
    "$name": ["a/1", "a/2", "b", "c", "d", "e"],
    "-$name": ["e", "d", "c", "b", "a/2", "a/1"],
    "year": ["c", "a/2", "a/1", "e", "b", "d"],
    "-year": ["b", "a/1", "e", "a/2", "c", "d"],
    "day": ["e", "c", "a/1", "a/2", "b", "d"],
    "-$version": ["b", "a/1", "a/2", "c", "d", "e"],
    "-$updated_at": ["b"],
}


class ManagementTests(HarnessTests):
    """`DocumentRepo.list` and `count` with a filter, and what the Service makes of them."""

    def test_documents_are_listed_and_counted_by_filter(self, store: Store) -> None:
        _fill(store)
        documents = store.documents

        def is_listed_and_counted(row: tuple[dict[str, Any], list[str]]) -> None:
            where, names = row
            tree = parse_filter(where)
            assert _names(documents.list("d", where=tree)) == names
            assert documents.count("d", where=tree) == len(names)
            found = [documents.get_info("d", name) for name in names]
            assert list(documents.list("d", where=tree)) == found
            first = documents.list("d", where=tree, limit=1)
            assert _names(first) == names[:1]
            after = names[0] if names else ""
            assert _names(documents.list("d", where=tree, after=after)) == names[1:]
            inside = [name for name in names if name.startswith("a/")]
            assert _names(documents.list("d", where=tree, prefix="a/")) == inside

        assert failures(_FILTERED, is_listed_and_counted) == []

    def test_documents_are_listed_by_all_headings_of_their_chunks(self, store: Store) -> None:
        fill(store, "d", {"a": "fish\n\n# Part\nfish", "b": "# Other\nfish", "c": "fish"})
        put(store, "d", "not derived", "# Part\nfish")
        for where, names in (
            ({"$heading": "part"}, ["a"]),
            ({"heading": ["PART", "Other"]}, ["a", "b"]),
            ({"$not": {"$heading": "part"}}, ["b", "c", "not derived"]),
        ):
            tree = parse_filter(where)
            assert _names(store.documents.list("d", where=tree)) == names
            assert store.documents.count("d", where=tree) == len(names)

    def test_every_value_is_compared_with_every_other(self, store: Store) -> None:
        news = [
            NewDocument(name=f"{at:02}", content="text", metadata={"k": value})
            for at, value in enumerate([*SCALARS, list(SCALARS)])
        ]
        store.documents.put_many("d", news)
        infos = store.documents.list("d")
        for value in SCALARS:
            operators = ["$eq", "$ne", "$contains"]
            operators += [] if isinstance(value, bool) else ["$lt", "$lte", "$gt", "$gte"]
            for operator in operators:
                where = {"k": {operator: value}}
                wanted = [
                    info.name
                    for info in infos
                    if passes(where, Subject(name=info.name, metadata=info.metadata))
                ]
                assert _names(store.documents.list("d", where=parse_filter(where))) == wanted, where

    def test_counts_without_a_filter_and_of_nothing(self, store: Store) -> None:
        _fill(store)
        assert store.documents.count("d") == len(METADATA)
        assert store.documents.count("none") == 0
        assert store.documents.count("none", where=parse_filter({"lang": "en"})) == 0
        assert list(store.documents.list("none", where=parse_filter({"lang": "en"}))) == []

    def test_pages_in_any_order_hold_each_document_once(self, store: Store) -> None:
        kb = _fill(store)
        kb.put_document("d", "b", "another fish")

        def is_paged(sort: str) -> None:
            names = _SORTED[sort]
            assert _names(kb.list_documents("d", sort=sort))[: len(names)] == names
            for by_name in (True, False):
                paged: list[str] = []
                last: DocumentInfo | str = ""
                while page := kb.list_documents("d", sort=sort, after=last, limit=2):
                    paged += _names(page)
                    last = page[-1].name if by_name else page[-1]
                assert paged == _names(kb.list_documents("d", sort=sort))
            english = [name for name in paged if METADATA[name].get("lang") == "en"]
            assert _names(kb.list_documents("d", sort=sort, where={"lang": "en"})) == english
            if sort not in ("$name", "-$name"):
                with pytest.raises(ConflictError, match="was deleted"):
                    kb.list_documents("d", sort=sort, after="gone")

        assert failures(_SORTED, is_paged) == []

    def test_metadata_changes_without_any_embedding(self, store: Store) -> None:
        kb = _fill(store)
        chunks = list(store.chunks.iter_chunks("d"))
        asked = _calls(kb)
        report = kb.update_metadata(
            "d", {"year": 2025, "new": [1], "lang": None}, where={"lang": "en"}
        )
        assert (report.updated, report.unchanged, report.missing, report.failed) == (3, 0, (), ())
        for name in ("a/1", "b", "e"):
            old = {key: value for key, value in METADATA[name].items() if key != "lang"}
            assert kb.get_document("d", name).metadata == {**old, "year": 2025, "new": [1]}
        assert kb.get_document("d", "a/2").metadata == METADATA["a/2"]
        assert kb.count_documents("d", where={"year": 2025}) == 3
        again = kb.update_metadata("d", {"year": 2025}, names=["a/1", "none", "e"])
        assert (again.updated, again.unchanged, again.missing) == (0, 2, ("none",))
        # Neither embedded nor chunked: the sets are what they were, of the new versions.
        assert _calls(kb) == asked
        assert kb.stats("d")[0].stale == 0
        now = list(store.chunks.iter_chunks("d"))
        alike = [
            attrs.evolve(chunk, sig=before.sig) for chunk, before in zip(now, chunks, strict=True)
        ]
        assert alike == chunks
        hits = kb.search("fish", dataset_id="d", where={"year": 2025}).hits
        assert {hit.doc_name for hit in hits} == {"a/1", "b", "e"}
        assert {hit.stale for hit in hits} == {None}
        report_ = kb.rebuild(dataset_id="d")
        assert (report_.rebuilt, report_.embedded) == (0, 0)

    def test_system_data_and_origin_outlive_a_change_of_metadata(self, store: Store) -> None:
        kb = _service(store)
        new = NewDocument(
            name="a", content="text", original_sha256="0" * 64, parser_sig="p/1", sync_root="root"
        )
        kb.put_documents("d", [new])
        before = kb.get_document("d", "a")
        kb.update_metadata("d", {"k": "v"}, where={"$name": {"$exists": True}})
        after = kb.get_document("d", "a")
        assert after == attrs.evolve(
            before, metadata={"k": "v"}, version=after.version, updated_at=after.updated_at
        )
        assert after.version > before.version

    def test_another_title_makes_other_chunks(self, store: Store) -> None:
        kb = _fill(store)
        asked = _calls(kb)
        assert kb.update_metadata("d", {"title": "Another"}, names="b").updated == 1
        assert _calls(kb) > asked
        assert kb.stats("d")[0].stale == 0

    def test_documents_are_deleted_by_filter_and_by_name(self, store: Store) -> None:
        kb = _fill(store)
        report = kb.delete_documents("d", where={"lang": "en"})
        assert (report.deleted, report.missing, report.failed) == (("a/1", "b", "e"), (), ())
        assert _names(kb.list_documents("d")) == ["a/2", "c", "d"]
        assert list(store.chunks.doc_names("d")) == ["a/2", "c", "d"]
        report = kb.delete_documents("d", names=["c", "none", "a/2"], where={"$prefix": "a/"})
        assert (report.deleted, report.missing) == (("a/2",), ("c", "none"))
        assert kb.delete_documents("d", names=[]).deleted == ()
        assert kb.delete_documents("d", names="d").deleted == ("d",)
        assert {hit.doc_name for hit in kb.search("fish", dataset_id="d").hits} == {"c"}

    def test_what_to_change_must_be_said(self, store: Store) -> None:
        kb = _fill(store)
        refused: list[Callable[[], object]] = [
            lambda: kb.delete_documents("d"),
            lambda: kb.delete_documents("d", where={}),
            lambda: kb.delete_documents("d", names=[3]),  # type: ignore[list-item]  # refused
            lambda: kb.delete_documents("d", names=5),  # type: ignore[arg-type]  # refused
            lambda: kb.update_metadata("d", {"k": 1}),
            lambda: kb.update_metadata("d", {"k": 1}, where={}),
            lambda: kb.update_metadata("d", ["k"], names="b"),  # type: ignore[arg-type]  # refused
            lambda: kb.update_metadata("d", {"k": b"x"}, names="b"),
            lambda: kb.list_documents("d", sort="$size"),
            lambda: kb.list_documents("d", sort="-"),
        ]
        for call in refused:
            with pytest.raises(ValidationError):
                call()
        assert store.documents.count("d") == len(METADATA)
        assert not any("k" in each.metadata for each in kb.list_documents("d"))
        absent: list[Callable[[], object]] = [
            lambda: kb.delete_documents("none", names=["a"]),
            lambda: kb.update_metadata("none", {"k": 1}, names="b"),
            lambda: kb.count_documents("none"),
        ]
        for call in absent:
            with pytest.raises(NotFoundError):
                call()

    @pytest.mark.parametrize("step", ["list", "delete_many"])
    def test_a_delete_by_filter_spares_what_left_the_filter_meanwhile(
        self, store: Store, step: str
    ) -> None:
        _fill(store)
        left = iter([("a/1", {"lang": "fr"}), ("b", {"lang": "en"})])

        def others() -> None:
            for name, metadata in left:
                put(store, "d", name, f"written meanwhile {name}", **metadata)

        kb = _service(store, Before(store.documents, others, step))
        report = kb.delete_documents("d", where={"lang": "en"})
        assert report.failed == ()
        # One left the filter, the other still matches after it was written.
        assert report.deleted == ("b", "e")
        assert _names(store.documents.list("d")) == ["a/1", "a/2", "c", "d"]

    @pytest.mark.parametrize("step", ["list", "get", "put_many"])
    def test_an_update_by_filter_loses_no_write_in_between(self, store: Store, step: str) -> None:
        _fill(store)
        written: list[tuple[str, dict[str, MetadataValue]]] = [
            ("a/1", {"lang": "fr"}),
            ("b", {"lang": "en", "own": 1}),
        ]
        left = iter(written)

        def others() -> None:
            for name, metadata in left:
                put(store, "d", name, f"written meanwhile {name}", **metadata)

        kb = _service(store, Before(store.documents, others, step))
        report = kb.update_metadata("d", {"seen": True}, where={"lang": "en"})
        assert (report.updated, report.failed) == (2, ())
        found = {info.name: info.metadata for info in store.documents.list("d")}
        assert found["a/1"] == {"lang": "fr"}
        assert found["b"] == {"lang": "en", "own": 1, "seen": True}
        assert found["e"]["seen"] is True
        assert there(store.documents.get("d", "b")).content == "written meanwhile b"

    def test_what_others_keep_changing_is_reported(self, store: Store) -> None:
        _fill(store)
        count = 0

        def others() -> None:
            nonlocal count
            count += 1
            put(store, "d", "b", f"text {count}", lang="en")

        kb = _service(store, Before(store.documents, others, "delete_many", "put_many"))
        for failed in (
            kb.update_metadata("d", {"k": 1}, names=["b"]).failed,
            kb.delete_documents("d", names=["b"]).failed,
        ):
            (failure,) = failed
            assert failure.name == "b"
            assert isinstance(failure.error, ConflictError)
        assert store.documents.get_info("d", "b") is not None
