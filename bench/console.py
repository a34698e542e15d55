"""How long the pages of the console take, over many documents.

    python bench/console.py --documents 100000

Puts short documents into a new store, and asks each page ten times in this process, without a
socket: the median and the longest, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

import triptych
from harness.corpus import ZipfText
from triptych import NewDocument
from triptych_server.http import create_app

PAGES = (
    "/",
    "/?q={word}+{other}&d=docs",
    "/?q={word}+{other}&d=docs&lanes=1&steps=1&numbers=1&why=docs/00007.md",
    "/console/datasets",
    "/console/datasets/docs",
    "/console/datasets/docs?sort=-$updated_at",
    "/console/datasets/docs?f.half=1",
    "/console/documents/docs/docs%2F00007.md",
    "/console/work",
    "/console/golden",
    "/console/gaps",
    "/console/connect",
)
ROUNDS = 10


def documents(count: int) -> Iterator[NewDocument]:
    text = ZipfText(sections=1)
    for at in range(count):
        yield NewDocument(
            name=f"docs/{at:05}.md",
            content=text.document(),
            metadata={"half": str(at % 2), "shelf": str(at % 100)},
        )


async def asked(app: Any, path: str) -> list[float]:
    """Milliseconds of each round."""
    transport = httpx.ASGITransport(app)
    taken = []
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            answer = await client.get(path)
            taken.append((time.perf_counter() - began) * 1000)
            if answer.status_code != 200:
                raise SystemExit(f"{path}: {answer.status_code}")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    word, other = ZipfText().words[200:202]
    table = Table("page", "median, ms", "longest, ms")
    with (
        tempfile.TemporaryDirectory() as folder,
        triptych.open(Path(folder, "kb.db"), embedder="hash") as kb,
    ):
        kb.put_documents("docs", documents(options.documents))
        app = create_app(kb, write=True, console=True)
        for page in PAGES:
            taken = asyncio.run(asked(app, page.format(word=word, other=other)))
            table.add_row(page, f"{statistics.median(taken):.0f}", f"{max(taken):.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
