"""Documents, chunk sets and vectors for tests: deterministic, and small enough to read."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs
import numpy as np

from triptych.records import (
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Filter,
    Layer,
    LayerQuery,
    Metadata,
    MetadataValue,
    Mode,
    NewDocument,
    SourceDocument,
    SparseVector,
    SystemData,
    Vector,
    parse_filter,
)
from triptych.signatures import embedding_input_sig

if TYPE_CHECKING:
    from triptych.contracts import Store

DIMENSION = 16
CONFIG = DatasetConfig(chunker_sig="paragraphs/1", embed_sig="space/1")
SPARSE = "sparse/1"
SPARSE_TERMS = 100_003


def vector_of(text: str, space: str = CONFIG.embed_sig, dimension: int = DIMENSION) -> Vector:
    """A unit vector of shape (dimension,) that depends on nothing but the arguments."""
    seed = hashlib.sha256(f"{space}\0{text}".encode()).digest()
    values = np.random.default_rng(list(seed)).standard_normal(dimension)
    return (values / np.linalg.norm(values)).astype(np.float32)


def sparse_of(text: str, space: str = SPARSE) -> SparseVector:
    """The words of a text, each with a weight that depends on it and how often it is there."""
    terms: Counter[int] = Counter()
    for word, count in Counter(re.findall(r"\w+", text.lower())).items():
        number = int.from_bytes(hashlib.sha256(f"{space}\0{word}".encode()).digest()[:4])
        terms[number % SPARSE_TERMS] += count * (number % 89 + 1)
    return SparseVector.of(list(terms), [weight / 89 for weight in terms.values()])


def put(
    store: Store, dataset_id: str, name: str, content: str, **metadata: MetadataValue
) -> SourceDocument:
    """Store a document with this metadata."""
    return store.documents.put(
        dataset_id, NewDocument(name=name, content=content, metadata=metadata)
    )


def loaded(version: int, content: str = "text", *, name: str = "a") -> SourceDocument:
    """A document of "d" as a copy of another store gives it."""
    return SourceDocument(
        dataset_id="d",
        name=name,
        content=content,
        metadata={"k": content, "n": version},
        version=version,
        updated_at=datetime(2020, 2, 29, 23, 59, 59, version, tzinfo=UTC),
        original_sha256="1" * 64,
        parser_sig="parser/1",
        system=SystemData(outline="{}", sync_root="root"),
    )


def sig_of(store: Store, dataset_id: str, name: str, config: DatasetConfig = CONFIG) -> DerivedSig:
    """The signature of a set made now, from the document as it is stored."""
    info = store.documents.get_info(dataset_id, name)
    assert info is not None, f"{name!r} is not in {dataset_id!r}"
    return DerivedSig(
        source_version=info.version,
        chunker_sig=config.chunker_sig,
        embed_sig=config.embed_sig,
        input_sig=info.input_sig,
    )


def chunks_of(
    document: SourceDocument, sig: DerivedSig, *, vectors: bool = True
) -> tuple[DerivedChunk, ...]:
    """One chunk for each paragraph; "# Heading" is the heading of what follows it.

    A paragraph that starts with "~" gets no vector.
    """
    chunks: list[DerivedChunk] = []
    heading_path: tuple[str, ...] = ()
    start = 0
    for text in document.content.split("\n\n"):
        if text.startswith("# "):
            heading_path = (text.splitlines()[0][2:],)
        if text:
            embedded = vectors and sig.embed_sig and not text.startswith("~")
            chunks.append(
                DerivedChunk(
                    dataset_id=document.dataset_id,
                    doc_name=document.name,
                    index=len(chunks),
                    start=start,
                    end=start + len(text),
                    offset=len(document.content[:start].encode()),
                    start_line=document.content.count("\n", 0, start) + 1,
                    content=text,
                    sig=attrs.evolve(sig, input_sig=embedding_input_sig(text)),
                    vector=vector_of(text, sig.embed_sig) if embedded else None,
                    heading_path=heading_path,
                )
            )
        start += len(text) + 2
    return tuple(chunks)


def set_config(store: Store, dataset_id: str, config: DatasetConfig = CONFIG) -> None:
    """Give the dataset this configuration, whatever it has now."""
    assert store.chunks.configure(dataset_id, config, expected=store.chunks.config(dataset_id))


def remove(store: Store, dataset_id: str, name: str, how: str) -> None:
    """Delete a document, its set, or all there is of the dataset."""
    documents, chunks = store.documents, store.chunks
    info = documents.get_info(dataset_id, name)
    assert info is not None, f"{name!r} is not in {dataset_id!r}"
    if how == "document":
        assert documents.delete(dataset_id, name)
    elif how == "many":
        assert list(documents.delete_many(dataset_id, {name: info.version})) == [name]
    elif how == "set":
        chunks.delete_by_doc(dataset_id, name)
    elif how == "sets":
        chunks.delete_by_dataset(dataset_id)
    else:
        assert documents.delete_dataset(dataset_id)


def derive(store: Store, dataset_id: str, name: str, config: DatasetConfig = CONFIG) -> bool:
    """Make the document's chunks and swap them in; whether it was done."""
    document = store.documents.get(dataset_id, name)
    assert document is not None, f"{name!r} is not in {dataset_id!r}"
    sig = sig_of(store, dataset_id, name, config)
    return store.chunks.replace(dataset_id, name, chunks_of(document, sig), sig=sig)


def fill(
    store: Store,
    dataset_id: str,
    contents: Mapping[str, str],
    config: DatasetConfig = CONFIG,
    metadata: Mapping[str, Metadata] | None = None,
) -> None:
    """Put documents and their chunk sets into a dataset of this configuration."""
    set_config(store, dataset_id, config)
    for name, content in contents.items():
        put(store, dataset_id, name, content, **(metadata or {}).get(name, {}))
        assert derive(store, dataset_id, name, config)


def fill_at_once(
    store: Store,
    dataset_id: str,
    contents: Mapping[str, str],
    metadata: Mapping[str, Metadata] | None = None,
) -> None:
    """As `fill`, by one call for all documents and one for all sets, which takes less time."""
    set_config(store, dataset_id)
    news = [
        NewDocument(name=name, content=content, metadata=(metadata or {}).get(name, {}))
        for name, content in contents.items()
    ]
    for outcome in store.documents.put_many(dataset_id, news):
        assert outcome.error is None, outcome.error
    sets = []
    for name in contents:
        document = store.documents.get(dataset_id, name)
        assert document is not None, f"{name!r} is not in {dataset_id!r}"
        sig = sig_of(store, dataset_id, name)
        sets.append((name, chunks_of(document, sig), sig))
    assert all(store.chunks.replace_many(dataset_id, sets))


def layer_of(
    store: Store,
    dataset_id: str,
    name: str,
    content: str,
    layer: Layer = Layer.ABSTRACT,
    *,
    prompt_sig: str = "prompt/1",
) -> DerivedLayer:
    """A layer made now: of the stored document, or of a folder or dataset."""
    info = store.documents.get_info(dataset_id, name) if name else None
    return DerivedLayer(
        dataset_id=dataset_id,
        doc_name=name,
        layer=layer,
        content=content,
        sig=DerivedSig(
            source_version=info.version if info else 0,
            prompt_sig=prompt_sig,
            embed_sig=CONFIG.embed_sig,
            input_sig=info.content_sha256 if info else "summaries",
        ),
        vector=vector_of(content),
    )


def filter_of(**where: object) -> Filter:
    """The filter of a ``where``."""
    return Filter(tree=parse_filter(where))


def keyword_query(
    text: str, *dataset_ids: str, top_k: int = 10, where: Filter | None = None
) -> ChunkQuery:
    """A BM25 query over these datasets."""
    return ChunkQuery(
        dataset_ids=dataset_ids, mode=Mode.BM25, text=text, top_k=top_k, filter=where or Filter()
    )


def vector_query(
    vector: Vector,
    *dataset_ids: str,
    top_k: int = 10,
    where: Filter | None = None,
    space: str = CONFIG.embed_sig,
) -> ChunkQuery:
    """A vector query over these datasets."""
    return ChunkQuery(
        dataset_ids=dataset_ids,
        mode=Mode.VECTOR,
        vector=vector,
        embed_sig=space,
        top_k=top_k,
        filter=where or Filter(),
    )


def both_lanes(
    text: str, *dataset_ids: str, top_k: int = 10, where: Filter | None = None
) -> tuple[ChunkQuery, ChunkQuery]:
    """One question, by its words and by the vector of its text."""
    return (
        keyword_query(text, *dataset_ids, top_k=top_k, where=where),
        vector_query(vector_of(text), *dataset_ids, top_k=top_k, where=where),
    )


def sparse_query(
    text: str, *dataset_ids: str, top_k: int = 10, where: Filter | None = None, space: str = SPARSE
) -> ChunkQuery:
    """A query of the sparse lane over these datasets."""
    return ChunkQuery(
        dataset_ids=dataset_ids,
        vector=sparse_of(text, space),
        mode="sparse",
        embed_sig=space,
        top_k=top_k,
        filter=where or Filter(),
    )


def layer_query(query: ChunkQuery, layer: Layer = Layer.ABSTRACT) -> LayerQuery:
    """The same question to layers of one kind."""
    return LayerQuery(**attrs.asdict(query, recurse=False), layer=layer)


def ids(candidates: Sequence[Candidate]) -> list[tuple[str, int]]:
    """Names and indices, in order."""
    return [(candidate.doc_name, candidate.index) for candidate in candidates]
