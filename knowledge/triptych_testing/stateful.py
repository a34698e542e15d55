"""A state machine that applies the same operations to a backend and to dicts and compares them."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import attrs
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from triptych.contracts import Store
from triptych.errors import ConflictError
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Layer,
    NewDocument,
    SourceDocument,
    Vector,
    dense,
    text_of,
)
from triptych.signatures import document_info
from triptych_testing.builders import (
    CONFIG,
    chunks_of,
    keyword_query,
    layer_of,
    vector_of,
    vector_query,
)
from triptych_testing.changes import Follower, Versions, assert_difference
from triptych_testing.harness import Harness, HarnessTests, examined, guarantee
from triptych_testing.oracle import assert_same_ranking, bm25, chunk_entry, dot_products, entries

NAMES = st.sampled_from(["a", "b", "dir/é\u0301"])
DATASETS = st.sampled_from(["d", "d", "e"])
CONFIGS = st.sampled_from(
    [
        CONFIG,
        attrs.evolve(CONFIG, chunker_sig="paragraphs/2"),
        attrs.evolve(CONFIG, embed_sig="space/2"),
        attrs.evolve(CONFIG, embed_sig="", language="german"),
    ]
)
WORDS = st.sampled_from(["fish", "fishes", "the", "Bird", "鱼鸟", "# Top\nfish", "~", "\r\n", "🦉"])
PARAGRAPHS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join) | st.text(max_size=8)
CONTENTS = st.just("") | st.lists(PARAGRAPHS, min_size=1, max_size=4).map("\n\n".join)
METADATA = st.dictionaries(st.sampled_from(["lang", "title"]), st.sampled_from(["", "x"]))
LAYERS = st.sampled_from([Layer.ABSTRACT, Layer.OVERVIEW])
EXAMPLES = int(os.environ.get("TRIPTYCH_EXAMPLES", "15"))
"""The number of histories; raise it for a longer run."""

WHEN = datetime(2020, 1, 1, tzinfo=UTC)


@attrs.define
class Dataset:
    """What a dataset holds, as plain as can be; ``replaced`` oldest first, however many."""

    exists: bool = False
    floor: int = 0
    config: DatasetConfig | None = None
    documents: dict[str, SourceDocument] = attrs.field(factory=dict)
    replaced: dict[str, list[SourceDocument]] = attrs.field(factory=dict)
    sets: dict[str, tuple[DerivedSig, tuple[DerivedChunk, ...]]] = attrs.field(factory=dict)
    layers: dict[tuple[str, Layer], DerivedLayer] = attrs.field(factory=dict)

    def store(self, document: SourceDocument) -> None:
        """Make this the document, and the one before it an old version, if it is another."""
        old = self.documents.get(document.name)
        if old is not None and old != document:
            self.replaced.setdefault(document.name, []).append(old)
        self.documents[document.name] = document
        self.exists = True

    def version(self, name: str) -> int:
        return self.documents[name].version if name in self.documents else 0


class BackendMachine(RuleBasedStateMachine):
    """Give it `harness`, as `run_stateful` does.

    Each run has datasets of its own, so that a kept store may serve every run.
    """

    harness: Harness
    runs = 0
    cursor: str | None = None

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1
        self.run: int = self.runs
        self.store: Store = self.harness.open()
        self.datasets: dict[str, Dataset] = {}
        self.seen: list[SourceDocument] = []
        self.cursors: list[tuple[str, Versions]] = []
        self.follower: Follower = Follower(datasets=self.datasets.keys(), cursor=self.cursor)
        if self.store.capabilities.changes is not None:
            # What earlier runs left is not read again.
            self.follower.catch_up(self.store)
            type(self).cursor = self.follower.cursor

    def teardown(self) -> None:
        try:
            found = [str(each) for each in examined(self.store, list(self.datasets))]
        finally:
            self.store.close()
        assert found == [], "the store's own examination finds something wrong"

    def at(self, short: str) -> tuple[str, Dataset]:
        dataset_id = f"{self.run}/{short}"
        return dataset_id, self.datasets.setdefault(dataset_id, Dataset())

    @initialize(config=CONFIGS, contents=st.lists(CONTENTS, min_size=2, max_size=2))
    def begin(self, config: DatasetConfig, contents: list[str]) -> None:
        """With something to work on: most histories from nothing are about nothing."""
        self.configure("d", config, True)
        for name, content in zip(("a", "b"), contents, strict=True):
            self.put("d", name, content, {}, None)
            self.replace(self.seen[-1], config)

    # Documents

    @rule(
        short=DATASETS,
        name=NAMES,
        content=CONTENTS,
        metadata=st.none() | METADATA,
        ahead=st.none() | st.just(0) | st.just(1),
    )
    def put(
        self,
        short: str,
        name: str,
        content: str,
        metadata: dict[str, str] | None,
        ahead: int | None,
    ) -> None:
        dataset_id, model = self.at(short)
        if_version = None if ahead is None else model.version(name) + ahead
        new = NewDocument(name=name, content=content, metadata=metadata, if_version=if_version)
        try:
            stored = self.store.documents.put(dataset_id, new)
        except ConflictError:
            assert ahead == 1
            return
        assert ahead != 1
        self.was_put(model, new, stored)

    def was_put(self, model: Dataset, new: NewDocument, stored: SourceDocument) -> None:
        old = model.documents.get(new.name)
        kept = old.metadata if old else {}
        metadata = kept if new.metadata is None else new.metadata
        assert (stored.content, stored.metadata) == (new.content, metadata)
        if old and (old.content, old.metadata) == (new.content, metadata):
            assert stored == old
        else:
            assert stored.version > max(model.version(new.name), model.floor)
        model.store(stored)
        self.seen.append(stored)

    @rule(short=DATASETS, puts=st.lists(st.tuples(NAMES, CONTENTS), max_size=4))
    def put_many(self, short: str, puts: list[tuple[str, str]]) -> None:
        dataset_id, model = self.at(short)
        news = [NewDocument(name=name, content=content) for name, content in puts]
        outcomes = self.store.documents.put_many(dataset_id, news)
        assert len(outcomes) == len(news)
        for new, outcome in zip(news, outcomes, strict=True):
            before = model.version(new.name)
            assert outcome.document is not None
            self.was_put(model, new, outcome.document)
            unchanged = outcome.document.version == before
            assert outcome.change == (
                "unchanged" if unchanged else "updated" if before else "added"
            )

    @rule(short=DATASETS, name=NAMES, content=CONTENTS, ahead=st.integers(-1, 2))
    def load(self, short: str, name: str, content: str, ahead: int) -> None:
        dataset_id, model = self.at(short)
        used_up = max(model.version(name), model.floor)
        document = SourceDocument(
            dataset_id=dataset_id,
            name=name,
            content=content,
            metadata={},
            version=max(used_up + ahead, 1),
            updated_at=WHEN,
        )
        allowed = document.version > used_up or model.documents.get(name) == document
        try:
            self.store.documents.load(document)
        except ConflictError:
            assert not allowed
            return
        assert allowed
        model.store(document)
        self.seen.append(document)

    @rule(short=DATASETS, data=st.data())
    def delete(self, short: str, data: st.DataObject) -> None:
        dataset_id, model = self.at(short)
        name = data.draw(st.sampled_from(sorted(model.documents)) if model.documents else NAMES)
        assert self.store.documents.delete(dataset_id, name) == (name in model.documents)
        model.floor = max(model.floor, model.version(name))
        model.documents.pop(name, None)
        model.replaced.pop(name, None)
        model.sets.pop(name, None)
        for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
            model.layers.pop((name, kind), None)

    @rule(short=DATASETS)
    def delete_dataset(self, short: str) -> None:
        dataset_id, model = self.at(short)
        assert self.store.documents.delete_dataset(dataset_id) == model.exists
        versions = [document.version for document in model.documents.values()]
        self.datasets[dataset_id] = Dataset(floor=max([model.floor, *versions]))

    @rule(short=DATASETS)
    def create_dataset(self, short: str) -> None:
        dataset_id, model = self.at(short)
        assert self.store.documents.create_dataset(dataset_id) is not model.exists
        model.exists = True

    @rule(short=DATASETS)
    def delete_orphans(self, short: str) -> None:
        dataset_id, model = self.at(short)
        names = {"", "dir/", "none", *model.documents, *(name for name, _ in model.layers)}
        documents = tuple(model.documents)
        gone = {
            name
            for name in ("", "dir/")
            if not any(document.startswith(name) for document in documents)
        }
        left = sorted({name for name, _ in model.layers if name in gone})
        assert list(self.store.documents.delete_orphans(dataset_id, names)) == left
        for place in [place for place in model.layers if place[0] in gone]:
            del model.layers[place]

    # Chunk sets

    @rule(short=DATASETS, config=CONFIGS, right=st.booleans())
    def configure(self, short: str, config: DatasetConfig, right: bool) -> None:
        dataset_id, model = self.at(short)
        expected = model.config if right else DatasetConfig(chunker_sig="none such")
        assert self.store.chunks.configure(dataset_id, config, expected=expected) is right
        if right:
            model.config = config

    @rule(short=DATASETS, data=st.data())
    def derive(self, short: str, data: st.DataObject) -> None:
        """As it should be: from the stored document, in the dataset's configuration."""
        _, model = self.at(short)
        if model.documents:
            name = data.draw(st.sampled_from(sorted(model.documents)))
            self.replace(model.documents[name], model.config or CONFIG)

    @rule(short=DATASETS, data=st.data(), config=CONFIGS)
    def derive_late(self, short: str, data: st.DataObject, config: DatasetConfig) -> None:
        """From any document that there ever was, in any configuration."""
        dataset_id, _ = self.at(short)
        known = [document for document in self.seen if document.dataset_id == dataset_id]
        if known:
            self.replace(data.draw(st.sampled_from(known)), config)

    def replace(self, document: SourceDocument, config: DatasetConfig) -> None:
        model = self.datasets[document.dataset_id]
        sig = DerivedSig(
            source_version=document.version,
            chunker_sig=config.chunker_sig,
            embed_sig=config.embed_sig,
            input_sig=f"input of {document.content[:20]!r}",  # a digest has no NUL
        )
        chunks = chunks_of(document, sig)
        allowed = (
            model.config is not None
            and model.config.chunker_sig == config.chunker_sig
            and config.embed_sig in ("", model.config.embed_sig)
            and model.version(document.name) == document.version
        )
        done = self.store.chunks.replace(document.dataset_id, document.name, chunks, sig=sig)
        assert done is allowed
        if allowed:
            model.sets[document.name] = (sig, chunks)

    @rule(short=DATASETS, data=st.data())
    def derive_without_vectors(self, short: str, data: st.DataObject) -> None:
        """From the stored document: the vectors are to come."""
        _, model = self.at(short)
        if model.documents and model.config:
            name = data.draw(st.sampled_from(sorted(model.documents)))
            self.replace(model.documents[name], attrs.evolve(model.config, embed_sig=""))

    @rule(short=DATASETS, data=st.data(), ours=st.booleans(), whole=st.booleans())
    def embed(self, short: str, data: st.DataObject, ours: bool, whole: bool) -> None:
        """Vectors for a set that is there, in the dataset's space or another; some or all."""
        dataset_id, model = self.at(short)
        if not model.sets:
            return
        name = data.draw(st.sampled_from(sorted(model.sets)))
        sig, chunks = model.sets[name]
        space = model.config.embed_sig if ours and model.config else "space/9"
        end = attrs.evolve(sig, embed_sig=space)
        texts = [chunk for chunk in chunks if not chunk.content.startswith("~")]
        given = texts if whole else data.draw(st.lists(st.sampled_from(texts))) if texts else []
        vectors: dict[str, Vector | None] = {
            chunk.sig.input_sig: vector_of(chunk.content, space) for chunk in given
        }
        bare = {chunk.sig.input_sig for chunk in chunks} - {c.sig.input_sig for c in texts}
        vectors.update(dict.fromkeys(bare if whole else ()))
        done = self.store.chunks.put_vectors(dataset_id, dense(space), [name], vectors)
        if not dense(space).serves(model.config):
            assert list(done) == []
            return
        digests = {chunk.sig.input_sig for chunk in chunks}
        known = self.store.chunks.known_vectors(dataset_id, dense(space), sorted(digests))
        # Others may have given what it lacked.
        ends = sig.embed_sig == space or digests <= {*known, *(bare if whole else ())}
        if model.version(name) == sig.source_version:
            assert list(done) == ([name] if ends else [])
        if done:
            # Not made of the document: its text may be another since the set was.
            model.sets[name] = (end, tuple(_embedded(chunk, end) for chunk in chunks))
        elif self.store.chunks.get_doc_sig(dataset_id, name) != sig:
            assert known
            waits = attrs.evolve(sig, embed_sig="")
            model.sets[name] = (waits, tuple(_bare(chunk, waits) for chunk in chunks))

    @rule(short=DATASETS, data=st.data(), same=st.booleans())
    def update_source_version(self, short: str, data: st.DataObject, same: bool) -> None:
        dataset_id, model = self.at(short)
        name = data.draw(st.sampled_from(sorted(model.sets)) if model.sets else NAMES)
        old, chunks = model.sets.get(name, (DerivedSig(), ()))
        sig = attrs.evolve(old, source_version=model.version(name))
        if not same:
            sig = attrs.evolve(sig, input_sig="another input")
        allowed = same and name in model.sets and name in model.documents
        assert self.store.chunks.update_source_version(dataset_id, name, sig) is allowed
        if allowed:
            moved = attrs.evolve
            model.sets[name] = (
                sig,
                tuple(
                    moved(chunk, sig=moved(chunk.sig, source_version=sig.source_version))
                    for chunk in chunks
                ),
            )

    @rule(short=DATASETS, name=NAMES)
    def delete_chunks(self, short: str, name: str) -> None:
        dataset_id, model = self.at(short)
        self.store.chunks.delete_by_doc(dataset_id, name)
        model.sets.pop(name, None)

    # Layers

    @rule(short=DATASETS, name=NAMES | st.sampled_from(["", "dir/"]), kind=LAYERS, content=CONTENTS)
    def put_layer(self, short: str, name: str, kind: Layer, content: str) -> None:
        dataset_id, model = self.at(short)
        layer = layer_of(self.store, dataset_id, name, content, kind)
        allowed = not name or name.endswith("/") or name in model.documents
        assert self.store.layers.put(layer) is allowed
        if allowed:
            model.layers[name, kind] = attrs.evolve(layer, vector=None)

    @rule(short=DATASETS, name=NAMES, kind=LAYERS, by=st.integers(-2, 2).filter(bool))
    def put_outdated_layer(self, short: str, name: str, kind: Layer, by: int) -> None:
        dataset_id, model = self.at(short)
        if name in model.documents:
            layer = layer_of(self.store, dataset_id, name, "outdated", kind)
            version = layer.sig.source_version + by
            sig = attrs.evolve(layer.sig, source_version=version)
            assert self.store.layers.put(attrs.evolve(layer, sig=sig)) is False

    # Looking

    @rule()
    def reopen(self) -> None:
        if self.harness.persistent:
            self.store.close()
            self.store = self.harness.open()
            if not self.harness.keeps_log:
                self.cursors.clear()

    @rule(data=st.data(), limit=st.sampled_from([1, 2, 3, 1000]))
    def follow(self, data: st.DataObject, limit: int) -> None:
        """What became of the documents since any moment that was noted."""
        if self.store.capabilities.changes is None:
            return
        now = self.versions()
        if not self.cursors:
            self.follower.catch_up(self.store, limit)
            assert self.follower.copy == now
            assert self.follower.cursor is not None
            self.cursors.append((self.follower.cursor, now))
            return
        since, before = data.draw(st.sampled_from(self.cursors))
        cursor = assert_difference(self.store, since, before, now, limit=limit)
        self.cursors.append((cursor, now))

    @rule(limit=st.sampled_from([1, 2]))
    def follow_slowly(self, limit: int) -> None:
        """A page at a time, with anything between two pages."""
        follows = self.store.capabilities.changes is not None
        if follows and not self.follower.turn(self.store, limit).more:
            assert self.follower.copy == self.versions()

    def versions(self) -> Versions:
        return {
            (dataset_id, name): document.version
            for dataset_id, model in self.datasets.items()
            for name, document in model.documents.items()
        }

    @rule(
        text=st.sampled_from(["fish", "bird the", "鱼鸟", "the"]),
        top_k=st.sampled_from([2, 50]),
        space=CONFIGS,
    )
    def search(self, text: str, top_k: int, space: DatasetConfig) -> None:
        english = [
            (dataset_id, model)
            for dataset_id, model in self.datasets.items()
            if model.config is None or model.config.language == "english"
        ]
        ids = [dataset_id for dataset_id, _ in english]
        chunks = [
            (model, chunk_entry(chunk, text_of(model.documents[name].metadata, "title")))
            for _, model in english
            for name, (_, made) in model.sets.items()
            for chunk in made
        ]
        found = self.store.chunks.search(keyword_query(text, *ids, top_k=top_k))
        assert entries(found) == bm25([entry for _, entry in chunks], text, top_k=top_k)
        if space.embed_sig:
            vector = vector_of(text, space.embed_sig)
            near = [
                entry
                for model, entry in chunks
                if model.config
                and model.config.embed_sig == model.sets[entry.name][0].embed_sig == space.embed_sig
            ]
            query = vector_query(vector, *ids, top_k=top_k, space=space.embed_sig)
            # Of sets that wait, what is there already may be found too.
            nearest = self.store.chunks.search(query)
            waits = {
                (dataset_id, name)
                for dataset_id, model in english
                for name, (sig, _) in model.sets.items()
                if not sig.embed_sig
            }
            whole = [each for each in nearest if (each.dataset_id, each.doc_name) not in waits]
            expected = dot_products(near, vector, top_k=top_k)
            assert len(nearest) >= len(expected)
            assert_same_ranking(whole, expected[: len(whole)])

    @invariant()
    def same_datasets(self) -> None:
        mine = [name for name in self.store.documents.list_datasets() if name in self.datasets]
        assert mine == sorted(name for name, model in self.datasets.items() if model.exists)

    @invariant()
    def same_contents(self) -> None:
        for dataset_id, model in self.datasets.items():
            names = sorted(model.documents)
            listed = self.store.documents.list(dataset_id)
            assert [info.name for info in listed] == names
            for name in names:
                assert self.store.documents.get(dataset_id, name) == model.documents[name]
            assert self.store.chunks.config(dataset_id) == model.config
            sigs = self.store.chunks.get_doc_sigs(dataset_id, names)
            assert dict(sigs) == {name: sig for name, (sig, _) in model.sets.items()}
            every = [chunk for name in sorted(model.sets) for chunk in model.sets[name][1]]
            # Of a set that waits for vectors nothing says which of them are there already.
            read = [
                chunk if sigs[chunk.doc_name].embed_sig else _bare(chunk, sigs[chunk.doc_name])
                for chunk in self.store.chunks.iter_chunks(dataset_id, vectors=True)
            ]
            assert read == every
            space = dense(model.config.embed_sig if model.config else CONFIG.embed_sig)
            waiting = self.store.chunks.waiting(dataset_id, space, list(model.sets))
            assert list(waiting) == sorted(
                name
                for name, (sig, made) in model.sets.items()
                if made and space.sig and sig.embed_sig != space.sig
            )
            layers = [model.layers[place] for place in sorted(model.layers)]
            assert list(self.store.layers.list(dataset_id)) == layers

    @invariant()
    def same_versions(self) -> None:
        reader = self.store.capabilities.versions
        if reader is None:
            return
        for dataset_id, model in self.datasets.items():
            for name, document in model.documents.items():
                old = model.replaced.get(name, [])[::-1]
                made = [document, *old[: self.harness.history]]
                infos = reader.versions(dataset_id, name)
                assert list(infos) == [document_info(each) for each in made]
                for each in made:
                    assert reader.get_version(dataset_id, name, each.version) == each


def _bare(chunk: DerivedChunk, sig: DerivedSig) -> DerivedChunk:
    """The chunk of a set of ``sig``, without its vector."""
    return attrs.evolve(chunk, vector=None, sig=attrs.evolve(sig, input_sig=chunk.sig.input_sig))


def _embedded(chunk: DerivedChunk, sig: DerivedSig) -> DerivedChunk:
    """The chunk of a set of ``sig``, with its vector if its text gets one."""
    has_vector = not chunk.content.startswith("~")
    vector = vector_of(chunk.content, sig.embed_sig) if has_vector else None
    return attrs.evolve(chunk, vector=vector, sig=attrs.evolve(sig, input_sig=chunk.sig.input_sig))


def run_stateful(harness: Harness, *, examples: int = EXAMPLES, steps: int = 25) -> None:
    """Compare the backend with plain dicts over ``examples`` random histories.

    Raises:
        AssertionError: they differ; Hypothesis prints the shortest history it found.
    """
    machine = type("Machine", (BackendMachine,), {"harness": harness})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


class StatefulTests(HarnessTests):
    """The whole contract at once, in histories that nobody thought of."""

    @guarantee(1, 4, 5, 6)
    def test_store_agrees_with_plain_dicts(self, harness: Harness) -> None:
        run_stateful(harness)
