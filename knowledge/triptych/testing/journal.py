"""Pages of layers, and the capability `LayerJournal`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import attrs
import pytest

from triptych.contracts import Store
from triptych.records import DerivedLayer, Layer, ModelUsage, ParkedReason, QuarantinedLayer
from triptych.testing.builders import layer_of, put
from triptych.testing.harness import Harness, HarnessTests, or_skip

L0, L1 = Layer.ABSTRACT, Layer.OVERVIEW
NAMES = ("", "a", "a/", "a/b", "a/c", "b", "b/", "z\U0010ffff", "z\U0010ffff\U0010ffff")


def quarantined(
    name: str, layer: Layer = L0, reason: ParkedReason = "empty", message: str = "said\nnothing: 🦉"
) -> QuarantinedLayer:
    return QuarantinedLayer(
        dataset_id="d",
        doc_name=name,
        layer=layer,
        input_sig="input",
        prompt_sig="prompt",
        reason=reason,
        message=message,
        quarantined_at=datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC),
    )


class JournalTests(HarnessTests):
    """Every sentence of `LayerRepo.page` and `LayerJournal`."""

    def test_pages_of_layers_are_the_list_cut_in_pieces(self, store: Store) -> None:
        for name in NAMES:
            if name and not name.endswith("/"):
                put(store, "d", name, "text")
            for kind in (L0, L1) if name != "a/c" else (L1,):
                assert store.layers.put(layer_of(store, "d", name, f"{kind} of {name}", kind))
        for kind in (L0, L1):
            whole = store.layers.list("d", layer=kind)
            for prefix in ("", "a", "a/", "b/", "z", "z\U0010ffff", "\U0010ffff", "none"):
                wanted = [each for each in whole if each.doc_name.startswith(prefix)]
                for limit in (1, 2, 100):
                    found: list[DerivedLayer] = []
                    after: str | None = None
                    while page := store.layers.page(
                        "d", kind, prefix=prefix, after=after, limit=limit
                    ):
                        assert len(page) <= limit
                        found += page
                        after = page[-1].doc_name
                    assert found == wanted
        assert list(store.layers.page("d", L0, limit=0)) == []
        assert list(store.layers.page("nowhere", L0, limit=9)) == []

    def test_what_is_parked_comes_back_as_it_was(self, store: Store) -> None:
        journal = or_skip(store.capabilities.journal)
        assert list(journal.quarantined("d")) == []
        entries = [
            quarantined("", L1),
            quarantined("a"),
            quarantined("a", L1, "refusal"),
            quarantined("a/"),
        ]
        for entry in reversed(entries):
            journal.quarantine(entry)
        assert list(journal.quarantined("d")) == entries
        assert list(journal.quarantined("other")) == []
        again = attrs.evolve(entries[1], reason="endless", input_sig="other", message="")
        journal.quarantine(again)
        assert list(journal.quarantined("d")) == [entries[0], again, *entries[2:]]
        for _ in range(2):
            journal.release_quarantined("d", "a", L0)
            journal.release_quarantined("nowhere", "a", L0)
        assert list(journal.quarantined("d")) == [entries[0], *entries[2:]]
        assert list(store.documents.list_datasets()) == []

    def test_usage_adds_up_by_model(self, store: Store) -> None:
        journal = or_skip(store.capabilities.journal)
        first = ModelUsage(model="m", calls=2, failures=1, input_tokens=30, output_tokens=4)
        second = ModelUsage(model="m", calls=1, input_tokens=5, output_tokens=6, cost=0.25)
        other = ModelUsage(model="a", calls=9, cost=1.5)
        for usage in (first, other, second):
            journal.record_usage("d", usage)
        assert list(journal.usage("d")) == [other, first + second]
        assert list(journal.usage("nowhere")) == []

    def test_usage_loses_nothing_when_many_charge(self, store: Store) -> None:
        journal = or_skip(store.capabilities.journal)

        def record_usage() -> None:
            for _ in range(10):
                journal.record_usage("d", ModelUsage(model="m", calls=1, output_tokens=3))

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(record_usage) for _ in range(4)]:
                done.result()
        assert list(journal.usage("d")) == [ModelUsage(model="m", calls=40, output_tokens=120)]

    def test_notes_are_kept_by_name_and_key(self, store: Store) -> None:
        journal = or_skip(store.capabilities.journal)
        assert dict(journal.checkpoints("d", "a")) == {}
        journal.put_checkpoint("d", "a", "k1", "old")
        journal.put_checkpoint("d", "a", "k1", "new\0🦉")
        journal.put_checkpoint("d", "a", "k2", "")
        journal.put_checkpoint("d", "a/", "k1", "of the folder")
        assert dict(journal.checkpoints("d", "a")) == {"k1": "new\0🦉", "k2": ""}
        journal.prune_checkpoints("d", "a", {"k2", "unknown"})
        journal.prune_checkpoints("nowhere", "a", ())
        assert dict(journal.checkpoints("d", "a")) == {"k2": ""}
        assert dict(journal.checkpoints("d", "a/")) == {"k1": "of the folder"}
        journal.prune_checkpoints("d", "a", ())
        assert dict(journal.checkpoints("d", "a")) == {}

    def test_deletes_take_the_journal_with_them(self, store: Store) -> None:
        journal = or_skip(store.capabilities.journal)

        def fill() -> None:
            for name in ("a", "b", "c/"):
                if name != "c/":
                    put(store, "d", name, "text")
                journal.quarantine(quarantined(name))
                journal.put_checkpoint("d", name, "k", "note")
            journal.record_usage("d", ModelUsage(model="m", calls=1))

        def left() -> set[str]:
            noted = {name for name in ("a", "b", "c/") if journal.checkpoints("d", name)}
            assert noted == {entry.doc_name for entry in journal.quarantined("d")}
            return noted

        fill()
        store.documents.delete("d", "a")
        assert left() == {"b", "c/"}
        store.layers.delete_by_doc("d", "c/")
        assert left() == {"b"}
        fill()
        assert list(store.documents.delete_orphans("d", ["b", "c/"])) == ["c/"]
        assert left() == {"a", "b"}
        for name in ("a", "b"):
            store.documents.delete("d", name)
            journal.quarantine(quarantined(name))
            journal.put_checkpoint("d", name, "k", "note")
        assert store.documents.delete("d", "a") is False
        assert left() == {"b"}
        assert list(store.documents.delete_orphans("d", ["a", "b"])) == ["b"]
        assert left() == set()
        fill()
        store.layers.delete_by_dataset("d")
        assert left() == set()
        assert list(journal.usage("d")) == [ModelUsage(model="m", calls=3)]
        fill()
        store.documents.delete_dataset("d")
        assert left() == set()
        assert list(journal.usage("d")) == []

    def test_journal_survives_the_process(self, harness: Harness) -> None:
        if not harness.persistent:
            pytest.skip("the store is not kept")
        with closing(harness.open()) as store:
            journal = or_skip(store.capabilities.journal)
            journal.quarantine(quarantined("a/"))
            journal.record_usage("d", ModelUsage(model="m", calls=3))
            journal.put_checkpoint("d", "a/", "k", "note")
        with closing(harness.open()) as store:
            journal = or_skip(store.capabilities.journal)
            assert list(journal.quarantined("d")) == [quarantined("a/")]
            assert list(journal.usage("d")) == [ModelUsage(model="m", calls=3)]
            assert dict(journal.checkpoints("d", "a/")) == {"k": "note"}
