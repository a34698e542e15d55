"""A history of a filesystem store, one write a step, and what must never be lost of it.

The power cuts and the kills carry it out alike.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from triptych.records import (
    DatasetConfig,
    DerivedLayer,
    DerivedSig,
    Layer,
    NewDocument,
    SourceDocument,
)
from triptych_backends.filesystem import FilesStore
from triptych_backends.filesystem.disk import Disk

CONFIGS = [DatasetConfig(chunker_sig="c1"), DatasetConfig(chunker_sig="c2", language="german")]
LONG = f"long/{'x' * 250}.md"

HISTORY = 2

State = dict[tuple[str, ...], Any]


def opened(root: Path, disk: Callable[[str], Disk] = Disk) -> FilesStore:
    """The store in ``root``, which keeps so few old versions that the steps cut some."""
    return FilesStore.open(root, disk=disk, history=HISTORY)


def state(store: FilesStore) -> State:
    """All that a store shows that must not be lost."""
    shown: State = {}
    for dataset in store.documents.list_datasets():
        shown["dataset", dataset] = True
        for info in store.documents.list(dataset):
            document = store.mirror.documents.get(dataset, info.name)
            assert document is not None
            assert document.version == info.version
            metadata = tuple(sorted(document.metadata.items()))
            shown["document", dataset, info.name] = (document.content, info.version, metadata)
            shown["history", dataset, info.name] = old_versions(store, dataset, info.name)
    for dataset in ("d", "e", "f"):
        for layer in store.layers.list(dataset):
            place = ("layer", dataset, layer.doc_name, str(layer.layer))
            shown[place] = (layer.content, layer.sig.source_version)
        shown["config", dataset] = store.chunks.config(dataset)
    shown["settings",] = dict(store.list_settings())
    return shown


def old_versions(store: FilesStore, dataset: str, name: str) -> tuple[tuple[int, str], ...]:
    """Number and content of each version that is kept, newest first."""
    numbers = [info.version for info in store.documents.versions(dataset, name)[1:]]
    kept = [store.documents.get_version(dataset, name, number) for number in numbers]
    assert None not in kept
    return tuple((each.version, each.content) for each in kept if each)


def without(shown: State, edited: set[tuple[str, str]]) -> State:
    """All but the documents (dataset, name) that a person edited."""
    return {key: value for key, value in shown.items() if key[1:] not in edited}


def difference(found: State, wanted: State) -> dict[tuple[str, ...], tuple[Any, Any]]:
    """Where two states differ."""
    return {
        key: (found.get(key), wanted.get(key))
        for key in {*found, *wanted}
        if found.get(key) != wanted.get(key)
    }


def assert_no_version_comes_again(store: FilesStore, states: list[State]) -> None:
    """Whatever is put gets a version above all that ``states`` have shown of it."""
    used: dict[str, int] = {}
    for shown in states:
        for key, value in shown.items():
            if key[0] == "document" and key not in states[-1]:
                used[key[1]] = max(used.get(key[1], 0), value[1])
    for dataset in "de":
        versions = {"never before": used.get(dataset, 0)}
        for key, value in states[-1].items():
            if key[:2] == ("document", dataset):
                versions[key[2]] = value[1]
        new = [NewDocument(name=name, content="a change") for name in versions]
        for outcome in store.documents.put_many(dataset, new):
            assert outcome.document is not None
            assert outcome.document.version > versions[outcome.name]


@attrs.frozen
class Step:
    """One write of the store; or, with ``path``, an edit by a person: ``text`` or removal."""

    act: Callable[[FilesStore], object] | None = None
    path: str = ""
    text: str | None = None

    @property
    def document(self) -> tuple[str, str]:
        """The dataset and document that a person edits."""
        dataset, _, name = self.path.partition("/")
        return dataset, name

    def __call__(self, store: FilesStore) -> None:
        if self.act is not None:
            self.act(store)
        elif self.text is None:
            (store.path / self.path).unlink()
        else:
            (store.path / self.path).parent.mkdir(exist_ok=True)
            (store.path / self.path).write_text(self.text)


def put(name: str, content: str, dataset: str = "d", **metadata: str) -> Step:
    new = NewDocument(name=name, content=content, metadata=metadata)
    return Step(lambda store: store.documents.put(dataset, new))


def many(names: list[str], text: str) -> Step:
    new = [NewDocument(name=name, content=text) for name in names]
    return Step(lambda store: store.documents.put_many("d", new))


def layer(dataset: str, name: str, text: str) -> Step:
    def act(store: FilesStore) -> None:
        info = store.documents.get_info(dataset, name) if name else None
        sig = DerivedSig(source_version=info.version if info else 0, prompt_sig="p")
        made = DerivedLayer(
            dataset_id=dataset, doc_name=name, layer=Layer.ABSTRACT, content=text, sig=sig
        )
        assert store.layers.put(made)

    return Step(act)


def restore(name: str) -> Step:
    """The oldest version that is kept, put back."""

    def act(store: FilesStore) -> None:
        oldest = store.documents.versions("d", name)[-1].version
        old = store.documents.get_version("d", name, oldest)
        assert old is not None
        new = NewDocument(name=name, content=old.content, metadata=old.metadata)
        assert store.documents.put("d", new).version > oldest

    return Step(act)


LOADED = SourceDocument(
    dataset_id="d",
    name="loaded",
    content="loaded",
    metadata={},
    version=40,
    updated_at=datetime(2020, 1, 1, tzinfo=UTC),
)
LOOK = Step(lambda store: store.documents.list("d"))

BEGINNING = [
    put("a", "first"),
    many(["old", "e"], "old text"),
    Step(lambda store: store.chunks.configure("d", CONFIGS[0], expected=None)),
    Step(lambda store: store.set_setting("key", "first", expected=None)),
    layer("d", "e", "of e"),
    put("gone", "x"),
    put("gone", "y"),
    Step(lambda store: store.documents.delete("d", "gone")),
]
STEPS = [
    put("a", "new text", k="v"),
    put("a", "new text", k="other"),
    put("deep/er/b", "nested"),
    many(["a", "deep/c", "deep/er/b", "e"], "all at once"),
    restore("a"),
    many(["deep/c", "e"], "and again"),
    Step(lambda store: store.set_setting("key", "second", expected="first")),
    layer("d", "a", "abstract"),
    layer("d", "a", "another abstract"),
    layer("d", "", "of the dataset"),
    put("A", "not a"),
    put(LONG, "long"),
    Step(lambda store: store.documents.delete("d", "deep/er/b")),
    Step(lambda store: store.documents.delete("d", "a")),
    Step(lambda store: store.scrub()),
    put("a", "again"),
    Step(lambda store: store.chunks.configure("d", CONFIGS[1], expected=CONFIGS[0])),
    Step(lambda store: store.chunks.configure("f", CONFIGS[0], expected=None)),
    put("a", "in another", "e"),
    Step(path="d/e", text="edited"),
    LOOK,
    Step(path="d/new", text="made by hand"),
    LOOK,
    Step(path="d/old"),
    LOOK,
    Step(lambda store: store.documents.load(LOADED)),
    Step(lambda store: store.layers.delete_by_doc("d", "")),
    layer("d", "empty/", "of an empty folder"),
    Step(lambda store: store.documents.delete_orphans("d", ["", "empty/"])),
    Step(lambda store: store.documents.create_dataset("g")),
    Step(lambda store: store.documents.delete_dataset("e")),
    put("b", "once more", "e"),
    Step(lambda store: store.documents.delete_dataset("d")),
    put("a", "after the end"),
]
