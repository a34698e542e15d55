"""A store copied into another, of whatever kind."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

import triptych
from support.bare_store import BareStore
from support.rich_stores import KINDS, change, contents, fill, open_kind
from triptych import Progress
from triptych.contracts import SettingsStore, Store
from triptych.copies import Counts, copy_store
from triptych.errors import ConflictError, NotAvailableError, NotFoundError, ValidationError
from triptych.records import NewDocument, sparse
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore, open_backup, write_backup
from triptych_testing.builders import (
    CONFIG,
    SPARSE,
    derive,
    fill as fill_plainly,
    put,
    set_config,
    sparse_of,
)
from triptych_testing.fakes import FakeEmbedder

PAIRS = [(one, other) for one in KINDS for other in KINDS]


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[dict[str, Store]]:
    """Two stores of each kind: "sqlite" and "sqlite copy"."""
    with ExitStack() as held:
        opened = {}
        for kind in KINDS:
            for name in (kind, f"{kind} copy"):
                opened[name] = open_kind(kind, tmp_path, name)
                held.callback(opened[name].close)
        yield opened


@pytest.mark.property
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32),
    steps=st.integers(0, 30),
    pair=st.sampled_from(PAIRS),
)
@example(seed=1, steps=30, pair=("sqlite", "files"))
@example(seed=2, steps=30, pair=("files", "sqlite"))
def test_copy_of_any_store_equals_it(seed: int, steps: int, pair: tuple[str, str]) -> None:
    with TemporaryDirectory() as folder:
        _check_copy(seed, steps, pair, Path(folder))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.property
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 150), pair=st.sampled_from(PAIRS))
@example(seed=2629, steps=143, pair=("memory", "memory"))
@example(seed=2629, steps=143, pair=("files", "sqlite"))
def test_copy_of_any_of_many_stores_equals_it(seed: int, steps: int, pair: tuple[str, str]) -> None:
    with TemporaryDirectory() as folder:
        _check_copy(seed, steps, pair, Path(folder))


def _check_copy(seed: int, steps: int, pair: tuple[str, str], folder: Path) -> None:
    """A copy has everything; one of what was changed since has that, and so has a backup."""
    chance = random.Random(seed)
    with ExitStack() as held:
        source = open_kind(pair[0], folder, "source")
        held.callback(source.close)
        copied = open_kind(pair[1], folder, "copied")
        held.callback(copied.close)
        fill(source, chance, steps)
        copy_store(source, copied)
        assert contents(copied) == contents(source)
        for _ in range(steps // 5):
            change(source, chance)
        copy_store(source, copied, replace=True)
        assert contents(copied) == contents(source)
        write_backup(source, folder / "backup.db")
        restored = MemoryStore()
        with open_backup(folder / "backup.db") as backup:
            copy_store(backup, restored)
        assert contents(restored) == contents(source)


@pytest.mark.parametrize(("one", "other"), [("sqlite", "files"), ("files", "sqlite")])
def test_copy_calls_no_model_and_stays_fresh(
    stores: dict[str, Store], one: str, other: str
) -> None:
    embedder = FakeEmbedder()
    options = triptych.ServiceOptions(embedder=embedder)
    with Service(stores[one], options=options) as kb:
        kb.put_document("d", "a.md", "# Tea\n\nHot water.\n\n# Cups\n\nFour.\n")
        kb.put_document("d", "a.md", "# Tea\n\nHotter water.\n\n# Cups\n\nFour.\n")
        kb.put_document_layer("d", "a.md", "L0", "Of tea.")
        embedded = len(embedder.texts)
        copy_store(kb.store, stores[other])
        with Service(stores[other], options=options) as copy:
            report = copy.rebuild(dataset_id="d")
            assert (report.checked, report.fresh, report.embedded) == (1, 1, 0)
            assert copy.stats("d") == kb.stats("d")
            assert len(embedder.texts) == embedded
            for layer in ("L0", "L2"):
                found = kb.search("hot water", dataset_id="d", layer=layer).hits
                assert found
                assert [(hit.doc_name, hit.score, hit.content) for hit in found] == [
                    (hit.doc_name, hit.score, hit.content)
                    for hit in copy.search("hot water", dataset_id="d", layer=layer).hits
                ]


def test_second_copy_writes_nothing_and_says_so(stores: dict[str, Store]) -> None:
    for kind in KINDS:
        fill(stores[kind], random.Random(5), 30)
        first = copy_store(stores[kind], stores[f"{kind} copy"])
        second = copy_store(stores[kind], stores[f"{kind} copy"])
        assert sum(each.written for each in first.datasets) > 5
        assert [each.written for each in second.datasets] == [0, 0]
        assert [each.digest for each in second.datasets] == [each.digest for each in first.datasets]
        assert (first.settings, second.settings) == (1, 0)


def test_copy_goes_on_where_it_broke_off(stores: dict[str, Store]) -> None:
    source, target = stores["sqlite"], stores["sqlite copy"]
    for number in range(80):
        put(source, "d", f"{number:03}", f"text {number}")

    def give_up(progress: Progress) -> None:
        if progress.done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_store(source, target, progress=give_up)
    assert target.documents.count("d") == 64
    report = copy_store(source, target)
    assert (report.datasets[0].written, report.datasets[0].unchanged) == (16, 64)
    assert contents(target) == contents(source)


def test_what_only_the_destination_has_is_removed_if_it_is_replaced(
    stores: dict[str, Store],
) -> None:
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        fill_plainly(source, "d", {"a": "one"})
        fill_plainly(target, "d", {"a": "another", "b": "mine"})
        put(target, "d", "a", "yet another")
        before = contents(target)
        with pytest.raises(ConflictError, match="'b'"):
            copy_store(source, target)
        assert contents(target) == before
        target.documents.delete("d", "b")
        with pytest.raises(ConflictError, match="another history than the source of: 'a'"):
            copy_store(source, target)
        report = copy_store(source, target, replace=True)
        assert (report.datasets[0].written, report.datasets[0].removed) == (1, 0)
        found = target.documents.get("d", "a")
        assert found == source.documents.get("d", "a")


def test_another_configuration_is_replaced_only_if_it_is_said(stores: dict[str, Store]) -> None:
    source, target = stores["memory"], stores["memory copy"]
    fill_plainly(source, "d", {"a": "one"})
    copy_store(source, target)
    other = attrs.evolve(CONFIG, language="german")
    set_config(source, "d", other)
    with pytest.raises(ConflictError, match="another configuration"):
        copy_store(source, target)
    assert target.chunks.config("d") == CONFIG
    copy_store(source, target, replace=True)
    assert target.chunks.config("d") == other


def test_some_datasets_are_copied_without_the_settings(stores: dict[str, Store]) -> None:
    source, target = stores["sqlite"], stores["files"]
    fill(source, random.Random(7), 40)
    report = copy_store(source, target, datasets=["d"])
    assert [each.dataset_id for each in report.datasets] == ["d"]
    assert report.settings == 0
    assert list(target.documents.list_datasets()) == ["d"]
    with pytest.raises(NotFoundError, match="'e/f'"):
        copy_store(source, target, datasets=["none"])


def test_what_cannot_be_copied_is_named(stores: dict[str, Store]) -> None:
    source = stores["memory"]
    with pytest.raises(ValidationError, match="the same store"):
        copy_store(source, source)
    with pytest.raises(NotAvailableError, match="BareStore"):
        copy_store(source, BareStore(stores["sqlite"]))


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_one_store_by_two_paths_is_named(kind: str, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path)
    for folder, replace in ((tmp_path, False), (tmp_path / "other", True)):
        with ExitStack() as held:
            one, other = open_kind(kind, tmp_path, "kb"), open_kind(kind, folder, "kb")
            held.callback(one.close)
            held.callback(other.close)
            put(one, "d", "a", f"text {replace}")
            before = contents(one), settings_of(one).list_settings()
            with pytest.raises(ValidationError, match="the same store"):
                copy_store(one, other, replace=replace)
            assert (contents(one), settings_of(one).list_settings()) == before


def test_copy_of_a_stores_file_is_another_store(tmp_path: Path) -> None:
    with SqliteStore.open(tmp_path / "one.db", background_index=False) as one:
        put(one, "d", "a", "text")
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    with (
        SqliteStore.open(tmp_path / "one.db", background_index=False) as one,
        SqliteStore.open(tmp_path / "two.db", background_index=False) as two,
    ):
        before = settings_of(two).list_settings()
        assert copy_store(one, two).datasets[0].unchanged == 1
        assert settings_of(two).list_settings() == before


def test_store_without_capabilities_can_be_copied_from(stores: dict[str, Store]) -> None:
    source, target = stores["sqlite"], stores["memory"]
    fill_plainly(source, "d", {"a": "one", "b": "two"})
    report = copy_store(BareStore(source), target)
    assert report.counts == copy_store(source, stores["files"]).counts
    assert target.documents.get("d", "a") == source.documents.get("d", "a")


def test_fewer_kept_versions_are_an_error_that_says_so(stores: dict[str, Store]) -> None:
    source = stores["memory"]
    for number in range(5):
        put(source, "d", "a", f"text {number}")
    with pytest.raises(ConflictError, match="fewer old versions"):
        copy_store(source, MemoryStore(history=2))


def test_others_write_while_it_is_copied(stores: dict[str, Store]) -> None:
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        fill(source, random.Random(11), 30)
        before = contents(source)
        begun, done = threading.Event(), threading.Event()

        def write(source: Store, begun: threading.Event, done: threading.Event) -> None:
            chance = random.Random(12)
            begun.wait(60)
            for _ in range(12):
                change(source, chance)
            done.set()

        thread = threading.Thread(target=write, args=(source, begun, done))
        thread.start()

        def wait(_: Progress, begun: threading.Event, done: threading.Event) -> None:
            begun.set()
            assert done.wait(60)

        try:
            copy_store(source, target, progress=lambda each: wait(each, begun, done))  # noqa: B023
        finally:
            begun.set()
            thread.join()
        assert contents(target) == before
        copy_store(source, target, replace=True)
        assert contents(target) == contents(source)


def test_versions_go_on_behind_those_of_the_source(stores: dict[str, Store]) -> None:
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        put(source, "d", "a", "one")
        put(source, "d", "gone", "text")
        last = put(source, "d", "gone", "text, changed").version
        source.documents.delete("d", "gone")
        copy_store(source, target)
        made = target.documents.put("d", NewDocument(name="gone", content="again"))
        assert made.version == last + 1


def test_document_of_another_history_is_kept_whatever_its_version_is(
    stores: dict[str, Store],
) -> None:
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        put(source, "d", "a", "one")
        source.documents.delete("d", "a")
        put(source, "d", "a", "theirs")
        mine = put(target, "d", "a", "mine")
        with pytest.raises(ConflictError):
            copy_store(source, target)
        assert target.documents.get("d", "a") == mine
        copy_store(source, target, replace=True)
        assert contents(target) == contents(source)


@pytest.mark.parametrize(
    ("kind", "conflict"),
    [("memory", "a document"), ("sqlite", "a name"), ("files", "a configuration")],
)
def test_conflict_is_found_before_anything_is_written(
    stores: dict[str, Store], kind: str, conflict: str, tmp_path: Path
) -> None:
    source, target = stores[kind], stores[f"{kind} copy"]
    fill_plainly(source, "a", {"1": "one", "2": "two"})
    fill_plainly(source, "b", {f"{number:03}": f"text {number}" for number in range(80)})
    if conflict == "a document":
        fill_plainly(target, "b", {"079": "mine"})
    elif conflict == "a name":
        fill_plainly(target, "b", {"mine": "mine"})
    else:
        set_config(target, "b", attrs.evolve(CONFIG, language="german"))
        put(target, "b", "079", "text 79")
    before = contents(target)
    write_backup(source, tmp_path / "backup")
    with open_backup(tmp_path / "backup") as backup:
        for one in (source, backup):
            with pytest.raises(ConflictError, match="dataset 'b' of the destination") as found:
                copy_store(one, target)
            assert "--replace" in found.value.hint
            assert contents(target) == before


def test_older_version_that_the_source_keeps_is_no_conflict(
    stores: dict[str, Store], tmp_path: Path
) -> None:
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        fill_plainly(source, "d", {"a": "one", "b": "one"})
        copy_store(source, target)
        for text in ("two", "three"):
            put(source, "d", "a", text)
        write_backup(source, tmp_path / f"{kind}.backup")
        with open_backup(tmp_path / f"{kind}.backup") as backup:
            for one in (backup, source):
                copy_store(one, target)
                assert contents(target) == contents(source)


def test_copy_gives_no_set_a_sparse_vector_that_the_source_lost(stores: dict[str, Store]) -> None:
    config = attrs.evolve(CONFIG, sparse_sig=SPARSE)
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        set_config(source, "d", config)
        put(source, "d", "b", "hot tea")
        assert derive(source, "d", "b", config)
        vectors = {c.sig.input_sig: sparse_of(c.content) for c in source.chunks.iter_chunks("d")}
        assert source.chunks.put_vectors("d", sparse(SPARSE), ["b"], vectors) == ["b"]
        copy_store(source, target)
        for name, text in (("b", "cold tea"), ("a", "hot tea"), ("c", "hot tea")):
            put(source, "d", name, text)
            assert derive(source, "d", name, config)
        copy_store(source, target)
        assert contents(target) == contents(source)


def settings_of(store: Store) -> SettingsStore:
    found = store.capabilities.settings
    assert found is not None
    return found


def test_settings_that_the_destination_has_stay_unless_they_are_replaced(
    stores: dict[str, Store],
) -> None:
    for kind in KINDS:
        source, target = stores[kind], stores[f"{kind} copy"]
        for key in ("both", "same", "theirs"):
            settings_of(source).set_setting(key, f"{key} in the source", expected=None)
        settings_of(target).set_setting("both", "mine", expected=None)
        settings_of(target).set_setting("same", "same in the source", expected=None)
        settings_of(target).set_setting("mine", "mine", expected=None)
        settings_of(target).set_setting("backup.x", "under way", expected=None)
        report = copy_store(source, target)
        assert (report.settings, report.settings_removed) == (1, 0)
        assert report.settings_different == ("both",)
        assert settings_of(target).get_setting("both") == "mine"
        assert settings_of(target).get_setting("mine") == "mine"
        report = copy_store(source, target, datasets=[], replace=True)
        assert settings_of(target).get_setting("mine") == "mine"
        report = copy_store(source, target, replace=True)
        assert (report.settings, report.settings_removed) == (1, 1)
        assert report.settings_different == ()
        assert contents(target) == contents(source)
        assert settings_of(target).get_setting("backup.x") == "under way"


class _ContestedStore(MemoryStore):
    """Somebody else changes a setting before each of the first ``left`` changes of it."""

    left = 0

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        if self.left and key == "key":
            self.left -= 1
            super().set_setting(key, f"of another {self.left}", expected=self.get_setting(key))
        return super().set_setting(key, value, expected=expected)


def test_setting_that_others_change_is_set_or_an_error() -> None:
    source, target = MemoryStore(), _ContestedStore()
    source.set_setting("key", "value", expected=None)
    target.left = 3
    assert copy_store(source, target, replace=True).settings == 1
    assert target.get_setting("key") == "value"
    target.set_setting("key", "other", expected="value")
    target.left = 1_000
    with pytest.raises(ConflictError, match="settings of the destination"):
        copy_store(source, target, replace=True)
    # What another sets meanwhile is not overwritten where nothing is replaced.
    target = _ContestedStore()
    target.left = 1
    assert copy_store(source, target).settings_different == ("key",)
    assert target.get_setting("key") == "of another 0"


@pytest.mark.parametrize(("one", "other"), [("sqlite", "files"), ("memory", "sqlite")])
def test_a_copy_of_the_sources_is_rebuilt_and_kept_up_to_date_with_another_embedder(
    stores: dict[str, Store], one: str, other: str
) -> None:
    old, new = FakeEmbedder("fake/old"), FakeEmbedder("fake/new")
    kb = Service(stores[one], options=ServiceOptions(embedder=old))
    for name in ("a.md", "b.md", "c.md"):
        kb.put_document("d", name, f"# {name}\n\nText of {name}.")
    kb.put_document("d", "a.md", "# a.md\n\nThe second text.")
    kb.put_document_layer("d", "a.md", "L0", "What a is about.")
    made = copy_store(stores[one], stores[other], sources=True)
    assert made.counts == Counts(documents=3, versions=4, layers=1)

    copied = Service(stores[other], options=ServiceOptions(embedder=new))
    assert copied.rebuild(dataset_id="d").embedded == 4
    assert {each.embed_sig for each in copied.stats("d")[0].spaces} == {new.signature}
    layer = copied.layer("d", "a.md", "L0")
    assert layer is not None
    assert (layer.content, layer.stale) == ("What a is about.", None)
    assert [each.version for each in copied.history("d", "a.md")] == [2, 1]

    kb.put_document("d", "b.md", "# b.md\n\nAnother text.")
    kb.delete_document("d", "c.md")
    before = len(new.texts)
    again = copy_store(stores[one], stores[other], sources=True, replace=True)
    assert (again.datasets[0].written, again.datasets[0].removed) == (1, 1)
    assert copied.rebuild(dataset_id="d").rebuilt == 1
    assert len(new.texts) - before == 1
    assert [info.name for info in copied.list_documents("d")] == ["a.md", "b.md"]
    (hit,) = copied.search("another", dataset_id="d", mode="vector", top_k=1).hits
    assert (hit.doc_name, hit.stale) == ("b.md", None)
    assert kb.search("another", dataset_id="d", mode="vector").warnings == ()
