"""A process that syncs, and is killed while it does."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import triptych
from support.sync_folder import Desk, TextFiles
from triptych.parsing import ParsedFile
from triptych_testing.fakes import FakeEmbedder


class PickyParser(TextFiles):
    """Fails over texts with FAIL in them."""

    def parse(self, name: str, data: bytes) -> ParsedFile | None:
        if b"FAIL" in data:
            raise RuntimeError("this cannot be parsed")
        return super().parse(name, data)


def sync_for_ever(path: str, begun: Connection) -> None:
    """Sync the folder at ``path``, as often as this process is let live."""
    with triptych.open(Path(path) / "kb.db", embedder=FakeEmbedder()) as kb:
        desk = Desk(Path(path), kb, FakeEmbedder())
        begun.send("begun")
        desk.syncing(parser=PickyParser()).sync()
    begun.send("done")
