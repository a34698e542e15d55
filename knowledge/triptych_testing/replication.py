"""Tests of `CopyableStore`: snapshots, and importing them into another store."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest

from triptych.contracts import CopyableStore, Store
from triptych.copies import DatasetCheck, StoreStates, state_digest
from triptych.errors import ConflictError, ModelMismatchError, StoreError
from triptych.records import ChangeCursor, DerivedSig, Layer, NameState, dense
from triptych_testing.builders import (
    CONFIG,
    chunks_of,
    derive,
    fill,
    ids,
    keyword_query,
    layer_of,
    loaded,
    put,
    set_config,
    sig_of,
    vector_of,
    vector_query,
)
from triptych_testing.harness import Harness, HarnessTests, examined, or_skip, there

OTHER = attrs.evolve(CONFIG, chunker_sig="other/1", embed_sig="space/2")


def copying(store: Store) -> CopyableStore:
    """The capability; skips the test without it."""
    return or_skip(store.capabilities.copying)


def state_of(store: Store, name: str) -> NameState:
    """What the store holds under a name of "d"."""
    return StoreStates(store).state("d", name)


class ReplicationTests(HarnessTests):
    """Every sentence of `CopyableStore`, and `LayerRepo.get` with vectors."""

    def test_layer_has_its_vector_where_vectors_are_asked_for(self, store: Store) -> None:
        put(store, "d", "a", "text")
        layer = layer_of(store, "d", "a", "abstract")
        bare = attrs.evolve(layer_of(store, "d", "", "of all"), vector=None)
        assert store.layers.put(layer)
        assert store.layers.put(bare)
        assert store.layers.get("d", "a", Layer.ABSTRACT, vectors=True) == layer
        assert store.layers.get("d", "", Layer.ABSTRACT, vectors=True) == bare
        assert store.layers.get("d", "b", Layer.ABSTRACT, vectors=True) is None
        assert there(store.layers.get("d", "a", Layer.ABSTRACT)).vector is None

    # Snapshots

    def test_snapshot_shows_nothing_of_what_is_written_after_it(self, store: Store) -> None:
        reader = copying(store)
        fill(store, "d", {"a": "one\n\ntwo", "b": "three"})
        assert store.layers.put(layer_of(store, "d", "a", "abstract"))
        put(store, "d", "a", "newer")
        before = [state_digest(each) for each in StoreStates(store).states("d")]
        head = StoreStates(store).head("d")
        with reader.snapshot() as shown:
            put(store, "d", "a", "newest")
            assert derive(store, "d", "a")
            store.documents.delete("d", "b")
            put(store, "d", "c", "new")
            set_config(store, "d", OTHER)
            store.documents.create_dataset("e")
            states = StoreStates(shown)
            assert list(states.datasets()) == ["d"]
            assert [state_digest(each) for each in states.states("d")] == before
            assert states.head("d") == head
        assert store.documents.get_info("d", "b") is None

    def test_snapshot_has_the_settings_of_its_moment(self, store: Store) -> None:
        reader, settings = copying(store), or_skip(store.capabilities.settings)
        assert settings.set_setting("key", "old", expected=None)
        with reader.snapshot() as shown:
            assert settings.set_setting("key", "new", expected="old")
            kept = or_skip(shown.capabilities.settings)
            assert kept.get_setting("key") == "old"
            assert dict(kept.list_settings()) == {"key": "old"}

    def test_snapshot_has_the_log_of_its_moment(self, store: Store) -> None:
        reader, changes = copying(store), or_skip(store.capabilities.changes)
        put(store, "d", "a", "text")
        before = changes.read_changes(None, dataset_id=None, limit=100)
        with reader.snapshot() as shown:
            put(store, "d", "b", "text")
            log = or_skip(shown.capabilities.changes)
            assert log.read_changes(None, dataset_id=None, limit=100) == before

    def test_snapshot_is_not_written(self, store: Store) -> None:
        reader = copying(store)
        put(store, "d", "a", "text")
        with reader.snapshot() as shown:
            with pytest.raises(StoreError):
                put(shown, "d", "a", "other")
            with pytest.raises(StoreError):
                shown.documents.delete("d", "a")
            with pytest.raises(StoreError):
                shown.chunks.configure("d", CONFIG, expected=None)
        with pytest.raises(StoreError):
            shown.documents.list_datasets()
        put(store, "d", "a", "other")

    # Loading

    def test_loaded_state_is_what_was_read(self, store: Store) -> None:
        take = copying(store)
        fill(store, "d", {"a": "one\n\n~two\n\none"})
        put(store, "d", "a", "newer")
        for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
            assert store.layers.put(layer_of(store, "d", "a", f"the {kind}", kind))
        put(store, "d", "a", "newest")
        assert store.layers.put(layer_of(store, "d", "", "of all"))
        held = [state_of(store, name) for name in ("", "a")]
        assert store.documents.delete_dataset("d")
        set_config(store, "d")
        # Versions that were deleted are used up for a put, and not for this.
        take.load_states("d", held)
        assert [state_digest(state_of(store, name)) for name in ("", "a")] == [
            state_digest(each) for each in held
        ]
        assert list(store.documents.list_datasets()) == ["d"]
        assert put(store, "d", "a", "a put").version > held[1].versions[-1].version
        assert examined(store, ["d"]) == []

    def test_loading_it_again_changes_nothing(self, store: Store) -> None:
        take = copying(store)
        fill(store, "d", {"a": "one"})
        put(store, "d", "a", "newer")
        held = state_of(store, "a")
        take.load_states("d", [held, held])
        assert state_digest(state_of(store, "a")) == state_digest(held)
        assert examined(store, ["d"]) == []

    def test_document_that_is_there_is_no_change_of_it(self, store: Store) -> None:
        take, changes = copying(store), or_skip(store.capabilities.changes)
        fill(store, "d", {"a": "one"})
        page = changes.read_changes(None, dataset_id=None, limit=10)
        take.load_states("d", [attrs.evolve(state_of(store, "a"), sig=None, chunks=())])
        since = ChangeCursor.parse(page.cursor)
        assert changes.read_changes(since, dataset_id=None, limit=10).changes == ()

    def test_versions_that_are_lacking_are_added(self, store: Store) -> None:
        take = copying(store)
        versions = tuple(loaded(number, f"text {number}") for number in (3, 5, 6))
        take.load_states("d", [NameState(name="a", versions=versions[:1])])
        take.load_states("d", [NameState(name="a", versions=versions)])
        assert store.documents.get("d", "a") == versions[-1]
        reader = store.capabilities.versions
        if reader is not None:
            found = [info.version for info in reader.versions("d", "a")]
            assert found == [6, 5, 3]
            assert reader.get_version("d", "a", 3) == versions[0]

    def test_older_versions_go(self, store: Store) -> None:
        take, reader = copying(store), or_skip(store.capabilities.versions)
        versions = tuple(loaded(number, f"text {number}") for number in range(3, 8))
        take.load_states("d", [NameState(name="a", versions=versions)])
        for kept in (versions[2:], versions[3:4] + versions[4:], versions[4:]):
            take.load_states("d", [NameState(name="a", versions=kept)])
            found = [info.version for info in reader.versions("d", "a")]
            assert found == [each.version for each in reversed(kept)]
            assert reader.get_version("d", "a", 3) is None
            assert [reader.get_version("d", "a", number) for number in sorted(found)] == [*kept]

    def test_as_many_versions_are_kept_as_the_store_keeps(
        self, store: Store, harness: Harness
    ) -> None:
        take, reader = copying(store), or_skip(store.capabilities.versions)
        many = tuple(loaded(number, f"text {number}") for number in range(1, 20))
        take.load_states("d", [NameState(name="a", versions=many)])
        kept = [info.version for info in reader.versions("d", "a")]
        assert kept == list(range(19, 18 - harness.history, -1))

    def test_document_with_another_history_is_refused(self, store: Store) -> None:
        take = copying(store)
        put(store, "d", "a", "one")
        there = put(store, "d", "a", "two")
        for wrong in (
            (loaded(1, "one"),),
            (loaded(1, "one"), loaded(there.version, "another")),
            (loaded(1, "one"), loaded(there.version + 7, "newer")),
            (loaded(there.version + 7, "newer than all that is there"),),
        ):
            with pytest.raises(ConflictError) as refused:
                take.load_states("d", [NameState(name="a", versions=wrong)])
            assert refused.value.actual == there.version
        assert store.documents.get("d", "a") == there

    def test_document_with_another_history_is_replaced_if_that_is_said(self, store: Store) -> None:
        take, changes = copying(store), store.capabilities.changes
        fill(store, "d", {"a": "one\n\ntwo", "b": "other"})
        for text in ("mine", "mine, changed", "mine, changed again"):
            there = put(store, "d", "a", text)
        assert store.layers.put(layer_of(store, "d", "a", "the abstract"))
        page = changes.read_changes(None, dataset_id=None, limit=10) if changes else None
        for versions in (
            (loaded(1, "theirs"), loaded(2, "theirs, changed")),
            (loaded(there.version + 5, "newer"),),
            (loaded(3, "3"), loaded(4, "4"), loaded(there.version + 5, "5")),
        ):
            take.load_states("d", [NameState(name="a", versions=versions)], replace=True)
            wanted = NameState(name="a", versions=versions)
            assert state_digest(state_of(store, "a")) == state_digest(wanted)
            assert ids(store.chunks.search(keyword_query("two", "d"))) == []
            assert examined(store, ["d"]) == []
        if changes is not None and page is not None:
            since = ChangeCursor.parse(page.cursor)
            found = changes.read_changes(since, dataset_id=None, limit=10).changes
            assert [(each.name, each.version) for each in found] == [("a", there.version + 5)]
        # What is the same history is added to, as without it.
        newest = (*versions, loaded(there.version + 6, "6"))
        take.load_states("d", [NameState(name="a", versions=newest)], replace=True)
        assert store.documents.get("d", "a") == newest[-1]
        # Its versions are used up, as those of any document that was deleted.
        store.documents.delete("d", "a")
        assert put(store, "d", "a", "text").version > there.version + 6

    def test_versions_of_what_was_replaced_are_used_up(self, store: Store) -> None:
        take = copying(store)
        for number in range(5):
            there = put(store, "d", "a", f"text {number}")
        take.load_states("d", [NameState(name="a", versions=(loaded(1, "theirs"),))], replace=True)
        assert put(store, "d", "a", "newer").version > there.version

    def test_set_is_loaded_whatever_it_was_made_from(self, store: Store) -> None:
        take = copying(store)
        fill(store, "d", {"a": "one\n\ntwo"})
        put(store, "d", "a", "three")
        stale = state_of(store, "a")
        store.documents.delete("d", "a")
        set_config(store, "d", OTHER)
        take.load_states("d", [stale])
        found = state_of(store, "a")
        assert found.sig == stale.sig
        assert state_digest(found) == state_digest(stale)
        # It is found by keyword, and not by vectors of a space that is not the dataset's.
        assert ids(store.chunks.search(keyword_query("two", "d"))) == [("a", 1)]
        mine = attrs.evolve(vector_query(vector_of("two"), "d"), embed_sig=OTHER.embed_sig)
        assert ids(store.chunks.search(mine)) == []
        set_config(store, "d", CONFIG)
        assert ("a", 1) in ids(store.chunks.search(vector_query(vector_of("two"), "d")))

    def test_set_that_waits_has_just_the_vectors_it_had(self, store: Store) -> None:
        take = copying(store)
        set_config(store, "d")
        text = put(store, "d", "a", "one\n\ntwo")
        put(store, "d", "b", "two")
        waits = attrs.evolve(sig_of(store, "d", "a"), embed_sig="")
        assert store.chunks.replace("d", "a", chunks_of(text, waits), sig=waits)
        one = chunks_of(text, waits)[0].sig.input_sig
        store.chunks.put_vectors("d", dense(CONFIG.embed_sig), ["a"], {one: vector_of("one")})
        held = state_of(store, "a")
        assert [chunk.vector is not None for chunk in held.chunks] == [True, False]
        # Another document has the vector that this one lacks.
        assert derive(store, "d", "b")
        take.load_states("d", [held])
        assert state_digest(state_of(store, "a")) == state_digest(held)
        assert list(store.chunks.waiting("d", dense(CONFIG.embed_sig))) == ["a"]
        assert examined(store, ["d"]) == []

    def test_what_the_state_lacks_goes(self, store: Store) -> None:
        take = copying(store)
        fill(store, "d", {"a": "one"})
        for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
            assert store.layers.put(layer_of(store, "d", "a", f"the {kind}", kind))
        held = state_of(store, "a")
        bare = attrs.evolve(held, sig=None, chunks=(), layers=held.layers[:1])
        take.load_states("d", [bare])
        assert state_digest(state_of(store, "a")) == state_digest(bare)
        assert store.chunks.get_doc_sig("d", "a") is None
        assert ids(store.chunks.search(keyword_query("one", "d"))) == []
        assert examined(store, ["d"]) == []

    def test_all_that_a_backup_may_hold_is_loaded(self, store: Store) -> None:
        most, last_version = 2**62 - 1, 2**53 - 1
        load = copying(store)
        fill(store, "d", {"a": "one"})
        state = state_of(store, "a")
        sig = attrs.evolve(
            state.sig or DerivedSig(), source_version=last_version, chunker_sig="é" * 500
        )
        first, last = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        versions = [
            attrs.evolve(state.versions[0], name="b", version=number, updated_at=moment)
            for number, moment in ((1, last), (last_version, first))
        ]
        chunk = attrs.evolve(
            state.chunks[0],
            doc_name="b",
            sig=attrs.evolve(sig, input_sig=state.chunks[0].sig.input_sig),
            start=most - 3,
            end=most,
            offset=most,
            start_line=most,
            window_start=0,
            window_end=most,
        )
        held = attrs.evolve(
            state, name="b", versions=tuple(versions), sig=sig, chunks=(chunk,), layers=()
        )
        check = DatasetCheck(StoreStates(store).head("d"))
        check.add(held)
        load.load_states("d", [held])
        kept = attrs.evolve(held, versions=state_of(store, "b").versions)
        assert kept.versions[-1] == versions[-1]
        assert state_digest(state_of(store, "b")) == state_digest(kept)
        assert put(store, "d", "b", "another").version == last_version + 1
        load.use_up_versions("d", last_version)
        assert put(store, "d", "c", "text").version == last_version + 1

    def test_vector_of_another_width_is_refused(self, store: Store) -> None:
        take = copying(store)
        fill(store, "d", {"a": "one", "b": "two"})
        held = state_of(store, "a")
        wide = attrs.evolve(held.chunks[0], vector=vector_of("one", dimension=3))
        newer = (*held.versions, loaded(held.versions[-1].version + 1, "newer"))
        with pytest.raises(ModelMismatchError):
            take.load_states("d", [attrs.evolve(held, versions=newer, chunks=(wide,))])
        assert state_digest(state_of(store, "a")) == state_digest(held)

    def test_versions_that_are_used_up_are_given_to_no_new_document(self, store: Store) -> None:
        take, reader = copying(store), or_skip(store.capabilities.versions)
        take.use_up_versions("d", 41)
        take.use_up_versions("d", 7)
        assert list(store.documents.list_datasets()) == []
        assert reader.deleted_version("d") == 41
        assert put(store, "d", "a", "text").version == 42
