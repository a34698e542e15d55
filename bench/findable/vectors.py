"""Vectors that a run has made, kept for the next: embedding is the slow part."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EMBEDDERS = {"local": "LocalEmbedder", "local-multilingual": "MultilingualEmbedder"}
_BATCH = 400


class VectorCache:
    """Keeps an embedder's vectors in a file, by its signature, the kind and the text."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, timeout=60, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS vectors "
            "(digest BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"
        )
        self.made = 0

    def close(self) -> None:
        self._database.close()

    def embedder(self, name: str) -> Any:
        """The embedder of this name, whose ``embed`` looks here first."""
        import triptych_models as embedders

        made = getattr(embedders, EMBEDDERS[name])()
        embed = made.embed

        def kept(texts: Sequence[str], *, kind: Any) -> NDArray[np.float32]:
            digests = [
                hashlib.sha256(f"{made.signature}\0{kind}\0{text}".encode()).digest()
                for text in texts
            ]
            found = self._read(digests)
            missing = dict(zip(digests, texts, strict=True))
            missing = {digest: text for digest, text in missing.items() if digest not in found}
            if missing:
                rows = embed(list(missing.values()), kind=kind)
                made_now = dict(zip(missing, rows, strict=True))
                self._write(made_now)
                found |= made_now
            return np.array([found[each] for each in digests], np.float32).reshape(
                len(texts), made.dimension
            )

        # On the instance: whatever else a tree asks of an embedder, the real one answers.
        made.embed = kept
        return made

    def _read(self, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        found = {}
        with self._lock:
            for at in range(0, len(digests), _BATCH):
                some = digests[at : at + _BATCH]
                marks = ",".join("?" * len(some))
                for digest, vector in self._database.execute(
                    f"SELECT digest, vector FROM vectors WHERE digest IN ({marks})", some
                ):
                    found[digest] = np.frombuffer(vector, np.float32)
        return found

    def _write(self, rows: dict[bytes, NDArray[np.float32]]) -> None:
        with self._lock, self._database:
            self._database.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                [(digest, np.asarray(row, np.float32).tobytes()) for digest, row in rows.items()],
            )
            self.made += len(rows)
