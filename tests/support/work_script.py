"""A worker whose embedder writes down its texts, for a process that is killed."""

from __future__ import annotations

from multiprocessing.synchronize import Barrier
from pathlib import Path

import triptych
from support.embed_script import LoggedEmbedder
from triptych import leases
from triptych.workers import Worker

DOCUMENTS = 96
LEASE = 5.0
"""In seconds. A process that gets no processor for longer would lose what it has."""
MOST_IN_FLIGHT = 64
"""Texts that a worker may have asked for, and not stored, when it is killed."""


def notes() -> dict[str, str]:
    """Documents of one chunk each, no two alike."""
    return {f"n{number:03}.txt": f"Note {number}." for number in range(DOCUMENTS)}


def open_store(url: str, log: Path) -> triptych.Service:
    """The knowledge base with an embedder of 4 ms a text, which writes to ``log``."""
    return triptych.open(url, embedder=LoggedEmbedder(log, 0.004), embed_concurrency=2)


def run(url: str, log: Path, opened: Barrier, done: Path) -> None:
    """Work until nothing is left, once all have opened the store; write down how much it was."""
    leases.LEASE = LEASE  # of texts, too: a killed worker's wait no longer than its documents
    with open_store(url, log) as service:
        opened.wait(120)
        report = Worker(service, lease=LEASE).run(once=True)
        assert report.failed == ()
        done.write_text(str(report.documents))
