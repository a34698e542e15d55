"""`DocumentRepo`: versions, lossless content, pages, absence."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product
from typing import Any

import attrs
import pytest

from triptych.chunking import Locator, write_outline
from triptych.contracts import Store
from triptych.errors import ConflictError
from triptych.records import MetadataValue, NewDocument, SourceDocument, SystemData
from triptych.signatures import content_sha256, document_info, document_input_sig
from triptych_testing.builders import keyword_query, loaded, put, set_config
from triptych_testing.harness import Harness, HarnessTests, failures, guarantee, there

CONTENTS = {
    "empty": "",
    "CRLF": "one\r\ntwo\rthree\nfour\r\n",
    "byte order mark": "\ufefftext\ufeff",
    "NUL": "before\0after\0",
    "control characters": "".join(map(chr, range(32))) + "\x7f\x85\u2028\u2029",
    "astral": "𝔘nicode 🏴\u200d☠️ 𠮷",
    "combining": "e\u0301 is not é; \u1100\u1161 is not 가",
    "noncharacters": "\ufffe\uffff\U0010ffff",
    "white space": " \t\n leading and trailing \u3000\n\n",
    "a megabyte": "0123456789abcde\n" * 65_536,
}
"""Texts that careless code changes."""

AWKWARD_NAMES = [
    "a b/c.md",
    "..",
    "../up",
    "C:\\x",
    "%2F_%",
    "é",
    "e\u0301",
    "名前",
    "🦉",
    "' OR 1",
]


class DocumentTests(HarnessTests):
    """Every sentence of `DocumentRepo`."""

    @guarantee(4)
    def test_content_comes_back_code_point_for_code_point(
        self, store: Store, harness: Harness
    ) -> None:
        def comes_back(name: str) -> None:
            content = CONTENTS[name]
            stored = put(store, "d", name, content)
            assert stored.content == content
            assert store.documents.get("d", name) == stored
            if harness.raw is not None:
                assert harness.raw(store, "d").content[name] == content.encode("utf-8")

        assert failures(CONTENTS, comes_back) == []

    @guarantee(4)
    def test_metadata_comes_back_code_point_for_code_point(self, store: Store) -> None:
        def comes_back(name: str) -> None:
            text = CONTENTS[name][:100]
            metadata = {"key": text, text or "k": "value"}
            stored = store.documents.put("d", NewDocument(name=name, content="", metadata=metadata))
            assert stored.metadata == metadata
            assert there(store.documents.get_info("d", name)).metadata == metadata

        assert failures(CONTENTS, comes_back) == []

    def test_names_are_kept_apart_by_code_point(self, store: Store) -> None:
        for name in AWKWARD_NAMES:
            put(store, "d", name, f"content of {name}")
            put(store, name, "a", f"dataset {name}")
        for name in AWKWARD_NAMES:
            document = there(store.documents.get("d", name))
            assert (document.name, document.content) == (name, f"content of {name}")
        assert [info.name for info in store.documents.list("d")] == sorted(AWKWARD_NAMES)
        assert list(store.documents.list_datasets()) == sorted([*AWKWARD_NAMES, "d"])

    def test_names_that_differ_in_case_are_two_documents(self, store: Store) -> None:
        put(store, "d", "Readme", "upper")
        put(store, "d", "readme", "lower")
        assert [info.name for info in store.documents.list("d")] == ["Readme", "readme"]

    def test_put_returns_what_is_stored(self, store: Store) -> None:
        before = datetime.now(UTC) - timedelta(seconds=2)
        stored = store.documents.put(
            "d",
            NewDocument(
                name="a.md",
                content="text",
                metadata={"title": "A"},
                original_sha256="0" * 64,
                parser_sig="parser/1",
            ),
        )
        assert stored == store.documents.get("d", "a.md")
        assert (stored.dataset_id, stored.name, stored.content) == ("d", "a.md", "text")
        assert (stored.original_sha256, stored.parser_sig) == ("0" * 64, "parser/1")
        assert stored.version >= 1
        assert before <= stored.updated_at <= datetime.now(UTC) + timedelta(seconds=2)

    def test_system_data_is_kept_apart_from_the_metadata(self, store: Store) -> None:
        written = write_outline("text", [Locator(start=0, end=4, unit="page", number=1)], [])
        new = NewDocument(
            name="a.md", content="text", metadata={"k": "v"}, outline=written, sync_root="r"
        )
        first = store.documents.put("d", new)
        assert first.metadata == {"k": "v"}
        assert first.system == SystemData(outline=written, sync_root="r")
        info = store.documents.get_info("d", "a.md")
        assert store.documents.get("d", "a.md") == first
        assert info == document_info(first)
        digest = content_sha256("text")
        assert info.input_sig == document_input_sig("a.md", digest, {"k": "v"}, written)
        assert list(store.documents.list("d")) == [info]
        assert store.documents.put("d", new) == first
        plain = NewDocument(name="a.md", content="text")
        assert store.documents.put("d", plain) == first
        # Metadata neither removes it nor stands for it.
        forged = {"triptych.outline": "x", "triptych.sync_root": "y", "system": "z"}
        for metadata in (forged, {}):
            stored = put(store, "d", "a.md", "text", **metadata)
            assert (stored.metadata, stored.system) == (metadata, first.system)
            assert store.documents.get("d", "a.md") == stored
        # An outline is of one text; the root is the document's.
        other = put(store, "d", "a.md", "other")
        assert other.system == SystemData(sync_root="r")
        for change in ({"sync_root": ""}, {"sync_root": "s"}, {"outline": written}):
            before = there(store.documents.get("d", "a.md"))
            stored = store.documents.put("d", NewDocument(name="a.md", content="other", **change))
            assert stored.version > before.version
            assert stored.system == attrs.evolve(before.system, **change)
            assert store.documents.get("d", "a.md") == stored

    def test_metadata_comes_back_as_it_was_put(self, store: Store) -> None:
        zone = timezone(timedelta(hours=-3, minutes=30))
        moment = datetime(2026, 9, 1, 12, 30, 0, 5, tzinfo=zone)
        metadata: dict[str, MetadataValue] = {
            "text": "naïve\0🦉",
            "int": (1 << 63) - 1,
            "float": 0.1,
            "bool": True,
            "day": date(2026, 9, 1),
            "moment": moment,
            "naive": datetime(2026, 9, 1),
            "list": ["a", 1, 1.0, False, date(1, 1, 1), moment],
            "nothing": [],
        }
        stored = put(store, "d", "a", "text", **metadata)
        assert repr(stored.metadata) == repr(metadata)
        for read in (store.documents.get("d", "a"), store.documents.get_info("d", "a")):
            assert read is not None
            assert repr(sorted(read.metadata.items())) == repr(sorted(metadata.items()))
        # What was given, and what was answered, are the caller's to change.
        for mine in (metadata, stored.metadata):
            items = mine["list"]
            assert isinstance(items, list)
            items.append("mine")
        read = there(store.documents.get("d", "a"))
        assert len(read.metadata["list"]) == 6  # type: ignore[arg-type]  # a list

    def test_values_of_another_type_are_other_metadata(self, store: Store) -> None:
        values: list[MetadataValue] = [1, 1.0, True, "1", [1], [True], ["1"], 0.0, -0.0]
        instant = datetime(2026, 9, 1, 12, tzinfo=UTC)
        values += [date(2026, 9, 1), datetime(2026, 9, 1), datetime(2026, 9, 1, tzinfo=UTC)]
        values += [instant, instant.astimezone(timezone(timedelta(hours=2)))]
        before = 0
        for value in values:
            stored = put(store, "d", "a", "text", k=value)
            assert stored.version > before, value
            before = put(store, "d", "a", "text", k=value).version
            assert before == stored.version
            assert repr(store.documents.get("d", "a")) == repr(stored)

    def test_info_is_the_document_without_its_content(self, store: Store) -> None:
        content = "naïve 🦉\r\n"
        stored = put(store, "d", "a.md", content, title="T")
        info = there(store.documents.get_info("d", "a.md"))
        assert info.content_sha256 == content_sha256(content)
        assert info.size == len(content.encode("utf-8"))
        assert info.input_sig == document_input_sig("a.md", info.content_sha256, {"title": "T"})
        assert (info.version, info.updated_at) == (stored.version, stored.updated_at)
        assert (info.dataset_id, info.name, info.metadata) == ("d", "a.md", {"title": "T"})
        assert list(store.documents.list("d")) == [info]

    @guarantee(1)
    def test_every_change_raises_the_version(self, store: Store) -> None:
        first = put(store, "d", "a", "one")
        second = put(store, "d", "a", "two")
        third = put(store, "d", "a", "two", tag="new")
        fourth = put(store, "d", "a", "one")
        versions = [document.version for document in (first, second, third, fourth)]
        assert versions == sorted(set(versions))
        assert store.documents.get("d", "a") == fourth

    @guarantee(10)
    def test_identical_put_changes_nothing(self, store: Store) -> None:
        first = put(store, "d", "a", "text\r\n", tag="x")
        assert put(store, "d", "a", "text\r\n", tag="x") == first
        assert store.documents.get("d", "a") == first

    def test_put_with_the_stored_version_is_done(self, store: Store) -> None:
        first = store.documents.put("d", NewDocument(name="a", content="one", if_version=0))
        second = store.documents.put(
            "d", NewDocument(name="a", content="two", if_version=first.version)
        )
        assert second.version > first.version

    @guarantee(1)
    def test_put_with_another_version_is_refused(self, store: Store) -> None:
        stored = put(store, "d", "a", "one")
        for content, version in product(("one", "two"), (0, stored.version + 1)):
            with pytest.raises(ConflictError) as caught:
                store.documents.put("d", NewDocument(name="a", content=content, if_version=version))
            assert (caught.value.expected, caught.value.actual) == (version, stored.version)
        assert store.documents.get("d", "a") == stored

    def test_refused_put_brings_no_dataset_into_being(self, store: Store) -> None:
        with pytest.raises(ConflictError):
            store.documents.put("d", NewDocument(name="a", content="", if_version=3))
        assert store.documents.get("d", "a") is None
        assert list(store.documents.list_datasets()) == []

    def test_absence_is_no_error(self, store: Store) -> None:
        put(store, "d", "a", "")
        for dataset_id, name in (("d", "b"), ("other", "a")):
            assert store.documents.get(dataset_id, name) is None
            assert store.documents.get_info(dataset_id, name) is None
            assert store.documents.delete(dataset_id, name) is False
        assert list(store.documents.list("other")) == []
        assert store.documents.delete_dataset("other") is False

    def test_list_is_paged_in_code_point_order(self, store: Store) -> None:
        names = sorted(["a", "a/1", "a/10", "a/2", "B", "é", "z", "\uffee", "🦉", "a/%", "a/_"])
        for name in reversed(names):
            put(store, "d", name, "")

        def listed(prefix: str = "", after: str = "", limit: int | None = None) -> list[str]:
            page = store.documents.list("d", prefix=prefix, after=after, limit=limit)
            return [info.name for info in page]

        assert listed() == names
        for prefix in ("", "a", "a/", "a/%", "a/_", "A", "é", "🦉", "none"):
            for after in ("", "a", "a/10", "b", "🦉"):
                wanted = [n for n in names if n.startswith(prefix) and n > after]
                assert listed(prefix, after) == wanted
                assert listed(prefix, after, 2) == wanted[:2]
        pages, after = [], ""
        while page := listed(after=after, limit=3):
            pages += page
            after = page[-1]
        assert pages == names

    @guarantee(1)
    def test_document_made_again_starts_above_every_deleted_version(self, store: Store) -> None:
        high = [put(store, "d", "high", content) for content in "abc"][-1]
        put(store, "d", "other", "kept")
        assert store.documents.delete("d", "high") is True
        assert store.documents.delete("d", "high") is False
        assert store.documents.get("d", "high") is None
        assert put(store, "d", "high", "c").version > high.version
        assert put(store, "d", "new", "").version > high.version
        assert put(store, "d", "other", "changed").version > high.version

    def test_versions_stay_used_up_when_the_dataset_is_deleted(self, store: Store) -> None:
        last = [put(store, "d", "a", content) for content in "abcd"][-1]
        assert store.documents.delete_dataset("d") is True
        assert store.documents.delete_dataset("d") is False
        again = put(store, "d", "b", "")
        assert again.version > last.version
        store.documents.delete_dataset("d")
        assert put(store, "d", "c", "").version > again.version

    def test_deleted_dataset_is_gone(self, store: Store) -> None:
        for dataset_id in ("d", "e"):
            put(store, dataset_id, "a", dataset_id)
            set_config(store, dataset_id)
        store.documents.delete_dataset("d")
        assert list(store.documents.list_datasets()) == ["e"]
        assert store.documents.get("d", "a") is None
        assert list(store.documents.list("d")) == []
        assert store.chunks.config("d") is None
        assert store.documents.get("e", "a") is not None
        assert store.chunks.config("e") is not None

    def test_dataset_outlives_its_last_document(self, store: Store) -> None:
        put(store, "d", "a", "")
        store.documents.delete("d", "a")
        assert list(store.documents.list_datasets()) == ["d"]
        assert store.documents.delete_dataset("d") is True

    def test_load_keeps_version_and_time(self, store: Store) -> None:
        first = loaded(7)
        for _ in range(2):
            store.documents.load(first)
            assert store.documents.get("d", "a") == first
        newer = loaded(9, content="newer")
        store.documents.load(newer)
        assert store.documents.get("d", "a") == newer
        assert put(store, "d", "a", "changed").version > 9

    def test_load_below_a_used_version_is_refused(self, store: Store) -> None:
        store.documents.load(loaded(7))
        for older in (loaded(7, content="other"), loaded(6)):
            with pytest.raises(ConflictError):
                store.documents.load(older)
        assert store.documents.get("d", "a") == loaded(7)
        store.documents.delete("d", "a")
        for name in ("a", "b"):
            with pytest.raises(ConflictError):
                store.documents.load(loaded(7, name=name))
        store.documents.load(loaded(8))
        assert store.documents.get("d", "a") == loaded(8)

    def test_a_dataset_can_be_made_without_a_document(self, store: Store) -> None:
        set_config(store, "d")
        config = store.chunks.config("d")
        assert store.documents.create_dataset("d") is True
        assert store.documents.create_dataset("d") is False
        assert list(store.documents.list_datasets()) == ["d"]
        assert list(store.documents.list("d")) == []
        assert store.chunks.config("d") == config
        assert list(store.chunks.doc_names("d")) == []
        assert list(store.chunks.search(keyword_query("fish", "d"))) == []
        assert put(store, "d", "a", "one").version == 1
        assert store.documents.create_dataset("d") is False
        store.documents.delete("d", "a")
        assert list(store.documents.list_datasets()) == ["d"]
        assert store.documents.delete_dataset("d") is True
        assert list(store.documents.list_datasets()) == []
        assert store.documents.delete_dataset("d") is False
        assert store.documents.create_dataset("d") is True
        assert put(store, "d", "a", "one").version == 2

    def test_an_empty_dataset_is_there_when_the_store_is_opened_again(
        self, lasting: Harness
    ) -> None:
        with closing(lasting.open()) as store:
            store.documents.create_dataset("made")
            store.documents.create_dataset("made and deleted")
            store.documents.delete_dataset("made and deleted")
            put(store, "emptied", "a", "one")
            store.documents.delete("emptied", "a")
        with closing(lasting.open()) as store:
            assert list(store.documents.list_datasets()) == ["emptied", "made"]

    def test_a_put_without_metadata_keeps_what_is_there(self, store: Store) -> None:
        def put_plain(content: str, **fields: Any) -> SourceDocument:
            return store.documents.put("d", NewDocument(name="a", content=content, **fields))

        assert put_plain("one").metadata == {}
        stored = put(store, "d", "a", "one", lang="en")
        assert put_plain("one") == stored
        changed = put_plain("two")
        assert (changed.version, changed.metadata) == (stored.version + 1, {"lang": "en"})
        assert store.documents.get("d", "a") == changed
        assert there(store.documents.get_info("d", "a")).metadata == {"lang": "en"}
        with pytest.raises(ConflictError):
            put_plain("two", if_version=stored.version)
        emptied = put_plain("two", metadata={})
        assert (emptied.version, emptied.metadata) == (changed.version + 1, {})
        put(store, "d", "a", "two", lang="de")
        store.documents.delete("d", "a")
        assert put_plain("two").metadata == {}

    def test_many_puts_without_metadata_keep_what_those_before_them_left(
        self, store: Store
    ) -> None:
        put(store, "d", "a", "one", lang="en")
        outcomes = store.documents.put_many(
            "d",
            [
                NewDocument(name="a", content="one"),
                NewDocument(name="a", content="two"),
                NewDocument(name="a", content="two", metadata={"lang": "de"}),
                NewDocument(name="a", content="three"),
                NewDocument(name="b", content="one"),
            ],
        )
        changes = ["unchanged", "updated", "updated", "updated", "added"]
        assert [outcome.change for outcome in outcomes] == changes
        metadata = [outcome.document.metadata for outcome in outcomes if outcome.document]
        assert metadata == [{"lang": "en"}, {"lang": "en"}, {"lang": "de"}, {"lang": "de"}, {}]
        stored = there(store.documents.get("d", "a"))
        assert (stored.content, stored.metadata) == ("three", {"lang": "de"})

    def test_what_is_stored_is_safe_from_the_callers_hands(self, store: Store) -> None:
        metadata = {"k": "v"}
        document = NewDocument(name="a", content="text", metadata=metadata)
        stored = store.documents.put("d", document)
        info = store.documents.get_info("d", "a")
        read = store.documents.get("d", "a")
        assert info is not None
        assert read is not None
        for held in (metadata, document.metadata, stored.metadata, info.metadata, read.metadata):
            try:
                held["k"] = "changed"  # type: ignore[index]  # a caller who breaks the typing
            except TypeError:
                continue
        assert there(store.documents.get("d", "a")).metadata == {"k": "v"}

    def test_put_many_is_put_for_each_in_order(self, store: Store) -> None:
        kept = put(store, "d", "same", "text")
        old = put(store, "d", "changed", "old")
        outcomes = store.documents.put_many(
            "d",
            [
                NewDocument(name="same", content="text"),
                NewDocument(name="changed", content="new"),
                NewDocument(name="refused", content="", if_version=5),
                NewDocument(name="twice", content="first"),
                NewDocument(name="twice", content="second"),
            ],
        )
        assert [outcome.name for outcome in outcomes] == [
            "same",
            "changed",
            "refused",
            "twice",
            "twice",
        ]
        assert [outcome.change for outcome in outcomes] == [
            "unchanged",
            "updated",
            "failed",
            "added",
            "updated",
        ]
        assert outcomes[0].document == kept
        assert outcomes[1].document == store.documents.get("d", "changed")
        assert outcomes[1].document is not None
        assert outcomes[1].document.version > old.version
        assert outcomes[2].document is None
        assert isinstance(outcomes[2].error, ConflictError)
        assert store.documents.get("d", "refused") is None
        assert outcomes[3].document is not None
        assert outcomes[4].document == store.documents.get("d", "twice")

    def test_put_many_tells_no_wrong_input_sig(self, store: Store) -> None:
        store.documents.put("d", NewDocument(name="a.md", content="old", metadata={"title": "A"}))
        news = [
            NewDocument(name="a.md", content="# new\n"),
            NewDocument(name="b", content="text", metadata={"title": "B", "kind": "markdown"}),
            NewDocument(name="c", content="text", outline="[]"),
            NewDocument(name="a.md", content="# new\n", metadata={"title": ""}),
            NewDocument(name="b", content="text"),
        ]
        for outcome in store.documents.put_many("d", news):
            assert outcome.document is not None
            want = document_info(outcome.document).input_sig
            assert outcome.input_sig in ("", want)

    def test_put_many_of_nothing_does_nothing(self, store: Store) -> None:
        assert list(store.documents.put_many("d", [])) == []
        assert list(store.documents.list_datasets()) == []
