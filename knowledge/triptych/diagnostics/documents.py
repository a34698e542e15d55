"""Checks of the documents and layers of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from triptych._internal.wording import counted
from triptych.chunking.outline import LineEnds
from triptych.chunking.specs import (
    ChunkSpec,
    byte_offsets,
    embedded_title,
    embedding_text,
    start_lines,
)
from triptych.contracts import ChunkRepo, DocumentRepo, VersionReader
from triptych.diagnostics.checks import EXAMPLES
from triptych.errors import CancelledError
from triptych.records import DatasetConfig, DerivedChunk, DerivedSig, DocumentInfo, SourceDocument
from triptych.records.documents import has_expired
from triptych.records.metadata import text_of
from triptych.signatures import content_sha256, document_input_sig, embedding_input_sig
from triptych.vectors.embedding import CoverageGate


def unchunked(content: str, chunks: Sequence[DerivedChunk]) -> str:
    """How much text is in none of ``chunks`` and where it begins; "" for no visible text."""
    count = end = 0
    first = -1
    spans = sorted((chunk.start, chunk.end) for chunk in chunks)
    for start, following in [*spans, (len(content), len(content))]:
        missed = content[end:start].replace("\ufeff", "").strip()
        if missed:
            count += len(missed)
            first = content.index(missed[0], end) if first < 0 else first
        end = max(end, following)
    if not count:
        return ""
    line = LineEnds(content).between(0, first) + 1
    return f"{counted(count, 'character')} from line {line} on"


class LeftOut:
    """Collects, for one dataset, what no search finds."""

    def __init__(self, place: str, config: DatasetConfig | None) -> None:
        self._place = place
        self._chunker = config.chunker_sig if config else "in use"
        self._unchunked: list[str] = []
        self._unread: list[str] = []

    def add(self, info: DocumentInfo, missed: str) -> None:
        """Take in a document, of whose text `unchunked` says that it ``missed`` some."""
        if missed:
            self._unchunked.append(f"{info.name!r}, {missed}")
        if unread := info.system.unread:
            self._unread.append(f"{self._place}: {info.name!r}: {unread}")

    def sentences(self) -> Iterator[str]:
        """One for the chunker, and one for each document whose file has more than its text."""
        if self._unchunked:
            documents = counted(len(self._unchunked), "document")
            examples = "; ".join(self._unchunked[:EXAMPLES])
            yield f"{self._place}: of {documents}, by the chunker {self._chunker}: {examples}"
        yield from self._unread


_UNIT_TOLERANCE = 1e-3
_TRIES = 5


@attrs.define
class Examined:
    """The examination of one document: each failed check with an example, the counts, and what
    `unchunked` says of its text."""

    failed: dict[str, str] = attrs.field(factory=dict)
    chunks: int = 0
    vectors: int = 0
    unjudged: int = 0
    width: int | None = None
    unchunked: str = ""

    def fail(self, check: str, example: str) -> None:
        """Note that ``check`` failed; the first example stays."""
        self.failed.setdefault(check, example)


def examine_document(
    info: DocumentInfo,
    documents: DocumentRepo,
    chunks: ChunkRepo,
    config: DatasetConfig | None,
    gate: CoverageGate | None,
    width: int | None,
    reader: VersionReader | None = None,
) -> Examined | None:
    """Look at one document; None when it was deleted meanwhile.

    What is read at two moments may be of two states: it is read until both ends agree. ``gate``
    tells which texts the dataset's embedder takes, None where it is not at hand. ``width`` is
    that of the dataset's other vectors, None while it is not known. ``reader`` reads the old
    versions, None leaves them alone.
    """
    dataset, name = info.dataset_id, info.name
    for _ in range(_TRIES):
        sig = chunks.get_doc_sig(dataset, name)
        result = Examined(width=width)
        document = _document(info, documents, result)
        if document is not None:
            _check_content(document, info, result)
        _check_set(info, document, sig, chunks, config, gate, result)
        for check, example in _failed_versions(info, reader) if reader else ():
            result.fail(check, example)
        now = documents.get_info(dataset, name)
        if now is None:
            return None
        if now == info and chunks.get_doc_sig(dataset, name) == sig:
            return result
        info = now
    # It is being written all the time, by those who leave it whole.
    return Examined(width=width)


def _document(
    info: DocumentInfo, documents: DocumentRepo, result: Examined
) -> SourceDocument | None:
    try:
        return documents.get(info.dataset_id, info.name)
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001 - whatever a damaged row ends with, it is unreadable
        result.fail("documents.unreadable", info.name)
        return None


def _check_content(document: SourceDocument, info: DocumentInfo, result: Examined) -> None:
    sha256 = content_sha256(document.content)
    if sha256 != info.content_sha256:
        result.fail("documents.checksum", info.name)
        return
    size = len(document.content.encode("utf-8"))
    input_sig = document_input_sig(info.name, sha256, info.metadata, info.system.outline)
    if (size, input_sig) != (info.size, info.input_sig):
        result.fail("documents.digests", info.name)


def _check_set(
    info: DocumentInfo,
    document: SourceDocument | None,
    sig: DerivedSig | None,
    chunks: ChunkRepo,
    config: DatasetConfig | None,
    gate: CoverageGate | None,
    result: Examined,
) -> None:
    if sig is None:
        result.fail("chunks.missing", info.name)
        return
    expected_signature = DerivedSig(
        source_version=info.version,
        chunker_sig=config.chunker_sig if config else sig.chunker_sig,
        embed_sig=config.embed_sig if config else sig.embed_sig,
        input_sig=info.input_sig,
    )
    if sig.source_version > info.version:
        result.fail("chunks.signature", info.name)
    elif sig.stale_reason(expected_signature) == "vector":
        is_live = not has_expired(info)
        if is_live and next(iter(chunks.iter_chunks(info.dataset_id, info.name)), None) is not None:
            result.fail("vectors.pending", info.name)
    elif sig.is_stale(expected_signature) or sig.embed_sig != expected_signature.embed_sig:
        result.fail("chunks.stale", info.name)
    try:
        found = list(chunks.iter_chunks(info.dataset_id, info.name, vectors=True))
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001 - whatever a damaged row ends with, it is unreadable
        result.fail("chunks.unreadable", info.name)
        return
    result.chunks = len(found)
    result.vectors = sum(chunk.vector is not None for chunk in found)
    if [chunk.index for chunk in found] != list(range(len(found))):
        result.fail("chunks.order", info.name)
    waits = config if sig.embed_sig == "" else None
    _check_vectors(found, waits, result)
    current = sig.input_sig == info.input_sig
    if document is not None and current and "documents.checksum" not in result.failed:
        _check_spans(document.content, found, result)
        result.unchunked = unchunked(document.content, found)
        paths = (chunk.heading_path for chunk in found)
        # Sets that were made before names were embedded are stale, not damaged.
        titles = embedded_title(info.name, info.metadata, paths), text_of(info.metadata, "title")
        _check_inputs(titles, found, bool(sig.embed_sig), gate, result)


def _check_spans(content: str, chunks: Sequence[DerivedChunk], result: Examined) -> None:
    specs = [
        ChunkSpec(index=at, start=chunk.start, end=chunk.end) for at, chunk in enumerate(chunks)
    ]
    lines, offsets = start_lines(content, specs), byte_offsets(content, specs)
    for chunk, line, offset in zip(chunks, lines, offsets, strict=True):
        start, end = chunk.window_start, chunk.window_end
        windowed = start is None or end is None or start <= chunk.start < chunk.end <= end
        if (
            content[chunk.start : chunk.end] != chunk.content
            or (chunk.start_line, chunk.offset) != (line, offset)
            or not windowed
        ):
            result.fail("chunks.spans", _place(chunk))


def _check_inputs(
    titles: Sequence[str],
    chunks: Sequence[DerivedChunk],
    embeds: bool,
    gate: CoverageGate | None,
    result: Examined,
) -> None:
    for chunk in chunks:
        texts = [embedding_text(title, chunk.heading_path, chunk.content) for title in titles]
        if chunk.sig.input_sig not in map(embedding_input_sig, texts):
            result.fail("chunks.input", _place(chunk))
        elif chunk.vector is None and embeds:
            if gate is None:
                result.unjudged += 1
            elif gate.admits(texts[0]):
                result.fail("vectors.missing", _place(chunk))


def _check_vectors(
    chunks: Sequence[DerivedChunk], config: DatasetConfig | None, result: Examined
) -> None:
    for chunk in chunks:
        vector = chunk.vector
        # Of a set that waits for vectors some may be of an earlier model, which nobody searches.
        if vector is None or (config is not None and chunk.sig.embed_sig != config.embed_sig):
            continue
        if result.width is None:
            result.width = len(vector)
        if len(vector) != result.width:
            result.fail("vectors.width", _place(chunk))
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.sqrt(np.einsum("i,i->", vector, vector, dtype=np.float64)))
        if not abs(norm - 1.0) <= _UNIT_TOLERANCE:
            result.fail("vectors.values", _place(chunk))


def _place(chunk: DerivedChunk) -> str:
    return f"{chunk.doc_name}[{chunk.index}]"


def _failed_versions(info: DocumentInfo, reader: VersionReader) -> Iterator[tuple[str, str]]:
    """The checks that the history of the document ``info`` fails, with what fails them."""
    dataset, name = info.dataset_id, info.name
    try:
        versions = reader.versions(dataset, name)
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001 - whatever a damaged row ends with, it is unreadable
        yield "history.unreadable", name
        return
    numbers = [each.version for each in versions]
    # Without any, the document was deleted meanwhile.
    if numbers and (numbers[0] != info.version or numbers != sorted(set(numbers), reverse=True)):
        yield "history.order", name
    for old in versions:
        if old.version != info.version and not _is_whole(old, reader):
            yield "history.unreadable", f"{name} version {old.version}"


def _is_whole(old: DocumentInfo, reader: VersionReader) -> bool:
    try:
        document = reader.get_version(old.dataset_id, old.name, old.version)
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001 - as above
        return False
    return document is not None and content_sha256(document.content) == old.content_sha256
