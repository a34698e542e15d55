"""Tests of `VersionReader`: which versions are kept, how many, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from triptych.contracts import Store
from triptych.errors import ConflictError
from triptych.records import NewDocument, SourceDocument
from triptych.signatures import document_info
from triptych_testing.builders import loaded, put
from triptych_testing.documents import CONTENTS
from triptych_testing.harness import Harness, HarnessTests, guarantee, or_skip, there


class HistoryTests(HarnessTests):
    """Every sentence of `VersionReader`."""

    def test_a_change_keeps_the_version_it_replaces(self, store: Store) -> None:
        first = store.documents.put(
            "d",
            NewDocument(
                name="a",
                content="one\r\n",
                metadata={"k": "v"},
                original_sha256="0" * 64,
                parser_sig="parser/1",
                outline="{}",
                sync_root="root",
            ),
        )
        assert kept(store) == [first]
        second = put(store, "d", "a", "two")
        third = put(store, "d", "a", "two", tag="x")
        fourth = put(store, "d", "a", "one\r\n")
        assert kept(store) == [fourth, third, second, first]

    def test_the_newest_old_versions_are_kept(self, store: Store, harness: Harness) -> None:
        made: list[SourceDocument] = []
        for number in range(harness.history + 3):
            # Some versions share their content, at every place of what is cut.
            made.insert(0, put(store, "d", "a", f"text {number // 2}", number=str(number)))
            assert kept(store) == made[: harness.history + 1]
        assert kept(store, made[-1].version) is None

    def test_an_identical_put_keeps_nothing(self, store: Store) -> None:
        first = put(store, "d", "a", "one")
        second = put(store, "d", "a", "two")
        for _ in range(3):
            put(store, "d", "a", "two")
        assert kept(store) == [second, first]

    def test_a_refused_put_keeps_nothing(self, store: Store) -> None:
        first = put(store, "d", "a", "one")
        with pytest.raises(ConflictError):
            store.documents.put("d", NewDocument(name="a", content="two", if_version=9))
        assert kept(store) == [first]

    @guarantee(4)
    def test_contents_come_back_code_point_for_code_point(
        self, store: Store, harness: Harness
    ) -> None:
        made = [put(store, "d", "a", content, key=content[:9]) for content in CONTENTS.values()]
        assert kept(store) == made[::-1][: harness.history + 1]

    def test_put_many_keeps_every_version(self, store: Store) -> None:
        first = put(store, "d", "a", "one")
        outcomes = store.documents.put_many(
            "d",
            [
                NewDocument(name="a", content="two"),
                NewDocument(name="b", content="new"),
                NewDocument(name="a", content="two", metadata={"k": "v"}),
                NewDocument(name="a", content="two", metadata={"k": "v"}),
                NewDocument(name="b", content="newer"),
                NewDocument(name="a", content="three", if_version=99),
                NewDocument(name="a", content="three"),
            ],
        )
        made = [outcome.document for outcome in outcomes]
        assert kept(store) == [made[6], made[2], made[0], first]
        assert kept(store, name="b") == [made[4], made[1]]

    def test_loading_keeps_what_it_replaces(self, store: Store) -> None:
        versions = [loaded(number, f"text {number}") for number in (3, 4, 7)]
        for document in versions:
            store.documents.load(document)
            store.documents.load(document)
        assert kept(store) == versions[::-1]

    def test_a_deleted_document_leaves_no_versions(self, store: Store) -> None:
        for content in ("one", "two"):
            for name in ("a", "b"):
                put(store, "d", name, content)
        store.documents.delete("d", "a")
        assert kept(store) == []
        assert kept(store, 1) is None
        again = put(store, "d", "a", "three")
        assert kept(store) == [again]
        assert kept(store, 1) is None
        assert len(kept(store, name="b")) == 2

    def test_a_deleted_dataset_leaves_no_versions(self, store: Store) -> None:
        for content in ("one", "two"):
            for dataset_id in ("d", "e"):
                put(store, dataset_id, "a", content)
        store.documents.delete_dataset("d")
        assert kept(store) == []
        again = put(store, "d", "a", "three")
        assert kept(store) == [again]
        assert len(or_skip(store.capabilities.versions).versions("e", "a")) == 2

    def test_the_greatest_deleted_version_is_known(self, store: Store) -> None:
        reader = or_skip(store.capabilities.versions)
        assert reader.deleted_version("d") == 0
        for name, content in (("a", "one"), ("a", "two"), ("b", "one"), ("c", "one")):
            put(store, "d", name, content)
        put(store, "e", "a", "one")
        assert reader.deleted_version("d") == 0
        store.documents.delete("d", "a")
        assert reader.deleted_version("d") == 2
        store.documents.delete_many("d", {"b": 1})
        assert reader.deleted_version("d") == 2
        first = put(store, "d", "new", "one")
        assert first.version <= 3
        store.documents.delete_dataset("d")
        assert reader.deleted_version("d") == first.version
        assert reader.deleted_version("e") == reader.deleted_version("none") == 0

    def test_absence_of_versions_is_no_error(self, store: Store) -> None:
        reader = or_skip(store.capabilities.versions)
        put(store, "d", "a", "one")
        for dataset_id, name in (("d", "b"), ("other", "a")):
            assert list(reader.versions(dataset_id, name)) == []
            assert reader.get_version(dataset_id, name, 1) is None
        assert reader.get_version("d", "a", 2) is None

    def test_versions_are_safe_from_the_callers_hands(self, store: Store) -> None:
        reader = or_skip(store.capabilities.versions)
        first = put(store, "d", "a", "one", k="v")
        put(store, "d", "a", "two", k="v")
        read = there(reader.get_version("d", "a", first.version))
        for held in (read.metadata, *(info.metadata for info in reader.versions("d", "a"))):
            try:
                held["k"] = "changed"  # type: ignore[index]  # a caller who breaks the typing
            except TypeError:
                continue
        assert [info.metadata for info in reader.versions("d", "a")] == [{"k": "v"}] * 2
        assert reader.get_version("d", "a", first.version) == first


def kept(store: Store, version: int | None = None, *, name: str = "a") -> Any:
    """The versions as they are read one by one; each is what the list says of it."""
    reader = or_skip(store.capabilities.versions)
    if version is not None:
        return reader.get_version("d", name, version)
    infos = reader.versions("d", name)
    found = [reader.get_version("d", name, info.version) for info in infos]
    assert [each and document_info(each) for each in found] == list(infos)
    return found
