"""A bulk put with an embedder that writes down what it is asked, for a process that is killed."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import triptych
from triptych.records import EmbedKind
from triptych_testing.builders import vector_of

CONCURRENCY = 2
SPACE = "logged/16"


class LoggedEmbedder:
    """Answers after a while; each text stands in a file, by call, before it is embedded."""

    signature = SPACE
    dimension = 16

    def __init__(self, log: Path, seconds: float = 0.002) -> None:
        self._log = log
        self._seconds = seconds
        self._calls = itertools.count()

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        if kind == "document":
            call = next(self._calls)
            lines = "".join(f"{os.getpid()}\t{call}\t{text!r}\n" for text in texts)
            # One write to a file that is only appended to: a kill leaves whole lines.
            with open(self._log, "ab", buffering=0) as file:
                file.write(lines.encode())
            time.sleep(self._seconds * len(texts))
        return np.stack([vector_of(text, SPACE) for text in texts])


def asked(log: Path) -> list[tuple[str, str]]:
    """The calls, as process and number, with the text of each line, in order."""
    if not log.exists():
        return []
    lines = (line.split("\t") for line in log.read_text(encoding="utf-8").splitlines())
    return [(f"{process}/{call}", text) for process, call, text in lines]


def contents(documents: int = 150) -> dict[str, str]:
    """Documents of eight chunks, of which each fourth document repeats another's last one."""
    made = {}
    for number in range(documents):
        parts = [f"# Part {part} of {number}\n\n{_words(number, part)}" for part in range(7)]
        parts.append(f"# Appendix\n\n{_words(number // 4, 99)}")
        made[f"d{number:03}.md"] = "\n\n".join(parts)
    return made


def word_of(number: int, part: int = 0) -> str:
    """A word that is in one part of one document only."""
    return "q" + "".join(chr(ord("a") + int(digit)) for digit in f"{number:03}{part:02}")


def _words(number: int, part: int) -> str:
    return word_of(number, part) + " of many plain words that are everywhere alike " * 8


def texts_of(store: Path) -> set[str]:
    """Every text that the documents' chunks are embedded as, as the log writes them."""
    embedder = LoggedEmbedder(store / "texts.log", 0)
    with triptych.open("memory://", embedder=embedder) as kb:
        kb.put_documents("d", contents())
    return {text for _, text in asked(store / "texts.log")}


def open_store(url: str, log: Path) -> triptych.Service:
    """The knowledge base with the embedder that writes to ``log``."""
    return triptych.open(url, embedder=LoggedEmbedder(log), embed_concurrency=CONCURRENCY)


if __name__ == "__main__":
    with open_store(sys.argv[1], Path(sys.argv[2])) as service:
        print("open", flush=True)
        service.put_documents("d", contents())
        print("done", flush=True)
