"""What a layer builder notes in the settings of a store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

import triptych
from triptych import Service
from triptych.layers import LayerBuilder, LayerJournal
from triptych.records import Layer, ModelUsage, QuarantinedLayer
from triptych_testing.fakes import FakeLLM

L0, L1 = Layer.ABSTRACT, Layer.OVERVIEW


@pytest.fixture(params=["memory", "sqlite", "files"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "memory": "memory://",
        "sqlite": str(tmp_path / "kb.db"),
        "files": f"files://{tmp_path / 'kb'}",
    }[request.param]


@pytest.fixture
def kb(url: str) -> Iterator[Service]:
    with triptych.open(url, embedder=None) as opened:
        yield opened


def journal_of(kb: Service) -> LayerJournal:
    assert kb.capabilities.settings is not None
    return LayerJournal(kb.capabilities.settings)


@pytest.fixture
def journal(kb: Service) -> LayerJournal:
    return journal_of(kb)


def quarantined(name: str, layer: Layer = L0, dataset_id: str = "d") -> QuarantinedLayer:
    return QuarantinedLayer(
        dataset_id=dataset_id,
        doc_name=name,
        layer=layer,
        input_sig="input",
        prompt_sig="prompt",
        reason="empty",
        message="said\nnothing\0: 🦉",
        quarantined_at=datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC),
    )


def test_what_is_quarantined_comes_back_as_it_was(journal: LayerJournal) -> None:
    assert journal.quarantined("d") == []
    entries = [quarantined("", L1), quarantined("a"), quarantined("a", L1), quarantined("a/")]
    for entry in reversed(entries):
        journal.quarantine(entry)
    journal.quarantine(quarantined("a", dataset_id="d/e"))
    assert journal.quarantined("d") == entries
    assert [each.dataset_id for each in journal.quarantined("d/e")] == ["d/e"]
    again = attrs.evolve(entries[1], reason="endless")
    journal.quarantine(again)
    assert journal.quarantined("d") == [entries[0], again, *entries[2:]]
    for _ in range(2):
        journal.release_quarantined("d", "a", L0)
    assert journal.quarantined("d") == [entries[0], *entries[2:]]


def test_usage_adds_up_by_model(journal: LayerJournal) -> None:
    first = ModelUsage(model="m", calls=1, failures=1, input_tokens=2**70, cost=0.5)
    second = ModelUsage(model="m", calls=2, output_tokens=3, cost=0.25)
    other = ModelUsage(model="a/b", calls=1)
    for usage in (first, second, other):
        journal.record_usage("d", usage)
    assert journal.usage("d") == [other, first + second]
    assert journal.usage("nowhere") == []


def test_usage_of_several_threads_is_counted_whole(journal: LayerJournal) -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(
            lambda _: journal.record_usage("d", ModelUsage(model="m", calls=1)), range(40)
        ):
            pass
    assert journal.usage("d") == [ModelUsage(model="m", calls=40)]


def test_notes_come_back_by_name_and_key(journal: LayerJournal) -> None:
    journal.put_note("d", "a", "k1", "old")
    journal.put_note("d", "a", "k1", "new\0🦉")
    journal.put_note("d", "a", "k2", "")
    journal.put_note("d", "a/", "k1", "of the folder")
    journal.put_note("d/e", "a", "k1", "of another dataset")
    assert journal.notes("d") == {
        "a": {"k1": "new\0🦉", "k2": ""},
        "a/": {"k1": "of the folder"},
    }
    journal.drop_note("d", "a", "k1")
    journal.drop_note("d", "a", "unknown")
    journal.forget("d", ["a/"])
    assert journal.notes("d") == {"a": {"k2": ""}}
    journal.record_usage("d", ModelUsage(model="m", calls=1))
    journal.forget("d")
    assert (journal.notes("d"), journal.usage("d")) == ({}, [])
    assert journal.notes("d/e") == {"a": {"k1": "of another dataset"}}


def test_a_dataset_of_a_long_name_has_short_keys(kb: Service, journal: LayerJournal) -> None:
    name = "d" * 1024
    journal.put_note(name, "a" * 1024, "k", "note")
    assert kb.capabilities.settings is not None
    assert all(len(key) <= 1000 for key in kb.capabilities.settings.list_settings())
    assert journal.notes(name) == {"a" * 1024: {"k": "note"}}


def test_entries_that_others_wrote_count_as_missing(kb: Service, journal: LayerJournal) -> None:
    journal.quarantine(quarantined("a"))
    journal.record_usage("d", ModelUsage(model="m", calls=1))
    journal.put_note("d", "a", "k", "note")
    settings = kb.capabilities.settings
    assert settings is not None
    for bad in ("", "{", "7", '{"model": 7}', "[" * 100_000):
        for key, text in settings.list_settings("layers.").items():
            assert settings.set_setting(key, bad, expected=text)
        assert journal.quarantined("d") == []
        assert journal.notes("d") == {}
        assert journal.usage("d") == []
    journal.record_usage("d", ModelUsage(model="m", calls=2))
    assert journal.usage("d") == [ModelUsage(model="m", calls=2)]


@pytest.mark.parametrize("url", ["sqlite", "files"], indirect=True)
def test_it_survives_the_process(url: str) -> None:
    with triptych.open(url, embedder=None) as kb:
        journal_of(kb).quarantine(quarantined("a/"))
        journal_of(kb).record_usage("d", ModelUsage(model="m", calls=3))
        journal_of(kb).put_note("d", "a/", "k", "note")
    with triptych.open(url, embedder=None) as kb:
        assert journal_of(kb).quarantined("d") == [quarantined("a/")]
        assert journal_of(kb).usage("d") == [ModelUsage(model="m", calls=3)]
        assert journal_of(kb).notes("d") == {"a/": {"k": "note"}}


def fill(kb: Service, journal: LayerJournal) -> None:
    kb.put_documents("d", {"a/b/c.md": "text", "a/other.md": "text"})
    for name in ("a/b/c.md", "a/b/", "a/", "", "a/other.md"):
        journal.quarantine(quarantined(name))
        journal.put_note("d", name, "k", "note")
    journal.record_usage("d", ModelUsage(model="m", calls=1))


def names(journal: LayerJournal) -> set[str]:
    found = {each.doc_name for each in journal.quarantined("d")}
    assert found == journal.notes("d").keys()
    return found


def test_a_purge_takes_what_may_quote_the_document(kb: Service, journal: LayerJournal) -> None:
    fill(kb, journal)
    kb.purge("d", "a/b/c.md")
    assert names(journal) == {"a/other.md"}
    assert journal.usage("d")


@pytest.mark.parametrize("delete", [Service.delete_dataset, Service.purge])
def test_a_dataset_goes_with_its_entries(
    kb: Service, journal: LayerJournal, delete: object
) -> None:
    fill(kb, journal)
    assert callable(delete)
    delete(kb, "d")
    assert names(journal) == set()
    assert journal.usage("d") == []


def test_what_is_gone_is_not_listed_and_forgotten_by_the_next_build(
    kb: Service, journal: LayerJournal
) -> None:
    fill(kb, journal)
    kb.delete_document("d", "a/b/c.md")
    builder = LayerBuilder(kb, FakeLLM())
    assert {each.doc_name for each in builder.quarantined("d")} == {"", "a/", "a/other.md"}
    assert "a/b/" in names(journal)
    builder.apply(builder.plan("d"))
    assert not {"a/b/", "a/b/c.md"} & journal.notes("d").keys()
    assert builder.quarantined("d") == []
