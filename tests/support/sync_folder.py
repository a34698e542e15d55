"""A folder beside a knowledge base, for the tests of sync and watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

import triptych
from triptych.parsing import FileParsers, MarkdownParser, RestructuredTextParser, TextParser
from triptych.service import Service
from triptych.sync import DirectorySync, SyncOptions, SyncReport, SyncRoot
from triptych_testing.fakes import FakeEmbedder


class TextFiles(FileParsers):
    """Text alone, so that all else is skipped."""

    def __init__(self) -> None:
        super().__init__([MarkdownParser(), RestructuredTextParser()], fallback=TextParser())


@attrs.frozen
class Desk:
    """A folder, a knowledge base, and the sync between them; all of the dataset "d"."""

    path: Path
    kb: Service
    embedder: FakeEmbedder

    @property
    def root(self) -> Path:
        return self.path / "root"

    def write(self, name: str, content: str | bytes) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def syncing(
        self,
        *,
        key: str = "root",
        prefix: str = "",
        parser: FileParsers | None = None,
        path: Path | None = None,
        options: dict[str, Any] | None = None,
        state: str | None = "state",
        **arguments: Any,
    ) -> DirectorySync:
        """A sync that deletes whatever is gone, unless ``options`` say otherwise."""
        root = SyncRoot(path=path or self.root, dataset_id="d", key=key, prefix=prefix)
        return DirectorySync(
            self.kb,
            [root],
            SyncOptions(**{"delete_most": True, **(options or {})}),
            parser=TextFiles() if parser is None else parser,
            state=self.path / state if state else None,
            **arguments,
        )

    def sync(self, **options: Any) -> SyncReport:
        """A sync as another process would make it: it remembers what the state file does."""
        return self.syncing(options=options).sync()

    @property
    def names(self) -> list[str]:
        return [info.name for info in self.kb.documents.list("d")]

    def text(self, name: str) -> str:
        return self.kb.get_document("d", name).content


@contextmanager
def desk(path: Path, url: str = "memory://", *, root: bool = True) -> Iterator[Desk]:
    """A desk, with an empty folder unless the caller has made one."""
    embedder = FakeEmbedder()
    with triptych.open(path / url if url.endswith(".db") else url, embedder=embedder) as kb:
        made = Desk(path, kb, embedder)
        if root:
            made.root.mkdir()
        yield made


def contents(kb: Service) -> dict[str, str]:
    """Every document's text by name."""
    return {info.name: kb.get_document("d", info.name).content for info in kb.documents.list("d")}


def state_of(kb: Service, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Everything that a dataset holds, but versions and times."""
    found: dict[str, Any] = {}
    for info in kb.documents.list("d"):
        if info.name in without:
            continue
        chunks = [
            (
                chunk.index,
                chunk.start,
                chunk.end,
                chunk.content,
                chunk.heading_path,
                None if chunk.vector is None else chunk.vector.tobytes(),
                chunk.sig.input_sig,
            )
            for chunk in kb.chunks.iter_chunks("d", info.name, vectors=True)
        ]
        document = kb.get_document("d", info.name)
        found[info.name] = (document.content, dict(document.metadata), chunks)
    return found


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for ``condition``, and fail when it does not come about."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
