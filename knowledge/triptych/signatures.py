"""Signatures: digests of the input and configuration of derived data.

Pure functions. A digest is the first 32 hex digits (128 bits) of SHA-256 over the parts,
each preceded by its length, so that no two lists of parts run together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from triptych._internal.digests import digest
from triptych.chunking.kinds import kind_of
from triptych.records import DocumentInfo, DocumentSummary, Metadata, SourceDocument
from triptych.records.metadata import text_of


def content_sha256(content: str) -> str:
    """The hex SHA-256 of ``content`` in UTF-8: a document's fingerprint."""
    return hashlib.sha256(content.encode("utf-8")).hexdigest()


def document_input_sig(
    name: str, content_digest: str, metadata: Metadata, outline: str = ""
) -> str:
    """The digest of all that chunking and embedding read of a document.

    That is its content, its explicit title and its kind, and its outline, "" for none; a
    rename or other metadata changes nothing that was derived.
    """
    title = text_of(metadata, "title") if metadata else ""
    return _input_sig(content_digest, title, kind_of(name, metadata), outline)


@lru_cache(maxsize=2048)
def _input_sig(content_digest: str, title: str, kind: str, outline: str) -> str:
    # A put asks three times: for the document's row, what its chunks should be, what they are.
    parts = ["chunks", content_digest, title, kind]
    if outline:
        parts.append(outline)
    return digest(*parts)


def document_info(document: SourceDocument) -> DocumentInfo:
    """The document without its content, its size and digests worked out."""
    sha256 = content_sha256(document.content)
    return DocumentInfo(
        dataset_id=document.dataset_id,
        name=document.name,
        metadata=document.metadata,
        version=document.version,
        updated_at=document.updated_at,
        content_sha256=sha256,
        size=len(document.content.encode("utf-8")),
        input_sig=document_input_sig(
            document.name, sha256, document.metadata, document.system.outline
        ),
        original_sha256=document.original_sha256,
        parser_sig=document.parser_sig,
        system=document.system,
    )


def embedding_input_sig(text: str) -> str:
    """The digest of one text as it goes to the embedder: what its vector is stored under."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:32]


def prompt_sig(prompt: str, model: str) -> str:
    """The signature of a layer's maker: its prompt (or algorithm) and its model."""
    return digest("prompt", prompt, model)


class SummariesDigest:
    """`summaries_input_sig` of abstracts that come one by one, ordered by name."""

    def __init__(self) -> None:
        self._state = hashlib.sha256()
        self._feed("summaries")

    def add(self, name: str, abstract: str) -> None:
        """Take the next child in."""
        self._feed(digest(name, abstract))

    def result(self) -> str:
        """The digest of the children so far."""
        return self._state.hexdigest()[:32]

    def _feed(self, part: str) -> None:
        data = part.encode("utf-8")
        self._state.update(b"%d:" % len(data))
        self._state.update(data)


def summaries_input_sig(summaries: Iterable[DocumentSummary]) -> str:
    """The digest of the children's abstracts that the layers of a folder or dataset are made from.

    The order does not count: they are taken by name.
    """
    taken = SummariesDigest()
    for name, abstract in sorted((each.name, each.abstract) for each in summaries):
        taken.add(name, abstract)
    return taken.result()
