"""A few documents to rewrite queries for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import triptych
from triptych import Service

TEXTS = {
    "kettle.md": "# Kettle\n\nThe lid of the kettle whistles when the water boils.\n",
    "teapot.md": "# Teapot\n\nA pot of porcelain keeps the tea warm.\n",
    "engine.md": "# Engine\n\nSteam drives the pistons of the locomotive.\n",
    "garden.md": "# Garden\n\nTomatoes want sun, water and a stake to climb.\n",
    "harbour.md": "# Harbour\n\nShips wait for the tide before the lock opens.\n",
}


@contextmanager
def filled(**options: Any) -> Iterator[Service]:
    """A memory store over `TEXTS`, in dataset "d"."""
    with triptych.open("memory://", **{"embedder": "hash", **options}) as kb:
        kb.put_documents("d", TEXTS)
        yield kb


def names(result: triptych.Result) -> list[str]:
    return [hit.doc_name for hit in result.hits]
