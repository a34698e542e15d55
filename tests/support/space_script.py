"""A process that fills the space of a next embedder, which writes down its texts."""

from __future__ import annotations

import sys
from pathlib import Path

import triptych
from support.embed_script import LoggedEmbedder
from triptych.spaces import fill_space
from triptych_backends.embedders.hashing import HashEmbedder


def open_next(url: str, log: Path) -> triptych.Service:
    """The knowledge base, with a next embedder of 3 ms a text, which writes to ``log``."""
    return triptych.open(
        url, embedder=HashEmbedder(dimension=32), next_embedder=LoggedEmbedder(log, 0.003)
    )


if __name__ == "__main__":
    address, path = sys.argv[1:]
    with open_next(address, Path(path)) as service:
        print("ready", flush=True)
        assert fill_space(service, "d").lacking == 0
        print("done", flush=True)
