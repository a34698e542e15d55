"""What the harness asks of a system, so that each module of `harness.systems` stays small."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.corpus import Chunk, Document, Edit, Given, Vectors

BATCH = 10_000
_WORD = re.compile(r"[^\W_]+")

Found = list[tuple[str, str]]
"""Ids and texts of hits, best first: every system reads the text of what it found."""


def plain_terms(text: str) -> list[str]:
    """Lower-case runs of letters and digits: what every peer is set up to index."""
    return _WORD.findall(text.lower())


def chunk_batches(documents: Iterable[Document]) -> Iterator[list[Chunk]]:
    """The documents' chunks in batches of 10,000, for systems that know chunks alone."""
    stream = (chunk for document in documents for chunk in document.chunks)
    while batch := list(islice(stream, BATCH)):
        yield batch


def matrix(chunks: Sequence[Chunk]) -> Vectors:
    return np.stack([chunk.vector for chunk in chunks])


class System(ABC):
    """One knowledge base, index or framework under measurement.

    A subclass imports its library in `load`, which is timed as the import. The constructor opens
    what the folder holds, or an empty store.

    Attributes:
        packages: distributions whose versions are recorded; the first one's absence skips it.
        modules: what must be importable for it to run.
        lanes: of "keyword", "vector" and "hybrid", those it has.
        bm25: k1 and b by which its keyword lane ranks; None where it has no such lane.
        labels: whether that lane also counts the words that name a chunk.
        threads: whether many threads may search while one writes.
        filters: whether its searches keep to ``where``, a field of the documents and its value.
        most: chunks above which it takes hours; None where it takes minutes.
        persists: whether a new process can open what this one wrote.
        shared: whether two processes may have it open at the same time.
        updates: how a document is replaced, for the reader of the results.
        setup: how it is set up, for the reader of the results.
        plain: whether its keyword lane indexes plain words, so that it can be held against an exact
            ranking; else as the library does where nothing is said.
    """

    packages: ClassVar[tuple[str, ...]]
    modules: ClassVar[tuple[str, ...]]
    lanes: ClassVar[tuple[str, ...]]
    bm25: ClassVar[tuple[float, float] | None] = (1.2, 0.75)
    labels: ClassVar[bool] = False
    threads: ClassVar[bool] = False
    filters: ClassVar[bool] = False
    most: ClassVar[int | None] = None
    persists: ClassVar[bool] = True
    shared: ClassVar[bool] = True
    updates: ClassVar[str]
    setup: ClassVar[str]
    plain: ClassVar[bool] = True

    def __init__(self, folder: Path, given: Given) -> None:
        self.folder = folder
        self.given = given
        self.where: tuple[str, str] | None = None

    @classmethod
    @abstractmethod
    def load(cls) -> None:
        """Import everything that the system uses."""

    @abstractmethod
    def ingest(self, documents: Iterator[Document]) -> None:
        """Take in a stream of documents; searchable, and as durable as it gets, on return."""

    @abstractmethod
    def search(self, lane: str, text: str, vector: Vectors, limit: int) -> Found:
        """The best chunks in one lane."""

    @abstractmethod
    def replace(self, edit: Edit) -> None:
        """Put a document's new state in the place of the old."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Take a document out."""

    def save(self) -> bool:
        """Write what is in memory alone; False where every write is durable already."""
        return False

    def note(self) -> str:
        """What the reader of the results needs to know of this process."""
        return ""

    def close(self) -> None:  # noqa: B027 - most systems have nothing to close
        """Let go of files."""

    @staticmethod
    def terms(text: str) -> list[str]:
        """A text's index terms, for the exact ranking that its own is held against."""
        return plain_terms(text)

    @staticmethod
    def query_terms(text: str) -> list[str]:
        return plain_terms(text)
