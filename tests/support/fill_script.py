"""A process that fills vectors at a signal, with an embedder that writes down its texts."""

from __future__ import annotations

import sys
from pathlib import Path

import triptych
from support.embed_script import LoggedEmbedder

DOCUMENTS = 400


def notes() -> dict[str, str]:
    """Documents of one chunk each; every tenth repeats another's text."""
    return {
        f"n{number:03}.txt": f"Note {number - number % 10 if number % 10 == 1 else number}."
        for number in range(DOCUMENTS)
    }


def open_store(url: str, log: Path) -> triptych.Service:
    """The knowledge base with an embedder of 3 ms a text, which writes to ``log``."""
    return triptych.open(url, embedder=LoggedEmbedder(log, 0.003))


if __name__ == "__main__":
    task, address, path = sys.argv[1:]
    with open_store(address, Path(path)) as service:
        print("ready", flush=True)
        sys.stdin.readline()
        if task == "embed":
            report = service.embed_pending("d")
            assert (report.pending, report.failed) == (0, ())
        else:
            result = service.put_documents("d", notes())
            assert (result.pending, result.failed) == (0, ())
        print("done", flush=True)
