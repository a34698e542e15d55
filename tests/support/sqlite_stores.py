"""What the tests of the SQL store make their stores of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    NewDocument,
    SourceDocument,
    Vector,
)
from triptych.signatures import embedding_input_sig
from triptych_backends.sqlite import SqliteStore

CONFIG = DatasetConfig(chunker_sig="words", embed_sig="hash", language="english")


def vector_of(text: str) -> Vector:
    """A unit vector of eight dimensions that the text decides."""
    seed = int(embedding_input_sig(text)[:8], 16)
    vector = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def chunks_of(document: SourceDocument, sig: DerivedSig) -> Sequence[DerivedChunk]:
    """A chunk for each line."""
    chunks, start = [], 0
    for index, line in enumerate(document.content.splitlines(keepends=True)):
        chunks.append(
            DerivedChunk(
                dataset_id=document.dataset_id,
                doc_name=document.name,
                index=index,
                start=start,
                end=start + len(line),
                offset=len(document.content[:start].encode()),
                start_line=index + 1,
                content=line,
                sig=DerivedSig(
                    source_version=sig.source_version,
                    chunker_sig=sig.chunker_sig,
                    embed_sig=sig.embed_sig,
                    input_sig=embedding_input_sig(line),
                ),
                vector=vector_of(line),
            )
        )
        start += len(line)
    return chunks


def derive(store: SqliteStore, document: SourceDocument) -> bool:
    """Chunk and embed the document as the Service would."""
    info = store.documents.get_info(document.dataset_id, document.name)
    sig = DerivedSig(
        source_version=document.version,
        chunker_sig=CONFIG.chunker_sig,
        embed_sig=CONFIG.embed_sig,
        input_sig=info.input_sig if info else "",
    )
    return store.chunks.replace(
        document.dataset_id, document.name, chunks_of(document, sig), sig=sig
    )


def put(store: SqliteStore, name: str, content: str, dataset: str = "d") -> SourceDocument:
    """Put and derive."""
    document = store.documents.put(dataset, NewDocument(name=name, content=content))
    assert derive(store, document)
    return document
