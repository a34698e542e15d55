"""Stores of each schema, as the version of Triptych wrote them that had it.

``PYTHONPATH=tests .venv/bin/python -m support.kept_stores`` keeps those of the current schema in
tests/fixtures/stores: a new schema adds a folder, and none is written again once it was released.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import triptych
from support.postgres import PostgresServer, running_server
from triptych.layers import ExtractiveSummarizer, LayerBuilder
from triptych_backends.sql.migrations import SCHEMA_VERSION

KEPT = Path(__file__).parents[1] / "fixtures" / "stores"
SCHEMA = "kept"
"""Of PostgreSQL: a dump names it."""

ARCHIVES = {"sqlite": "sqlite.tar.xz", "files": "files.tar.xz", "postgres": "postgres.sql.xz"}


def fill(url: str) -> None:
    """Make a store with something of most there is, which `tests/test_kept_stores.py` knows."""
    with triptych.open(url, embedder="hash") as kb:
        docs = kb.dataset("docs")
        docs.put("http.md", "# HTTP client\n\n## Retries\n\nA failed call is tried three times.\n")
        docs.put("http.md", "# HTTP client\n\n## Retries\n\nA failed call is tried four times.\n")
        docs.put("guide/setup.md", "# Setup\n\nThe okapi service listens on port 7700.\n",
                 metadata={"team": "ops", "tags": ["net", "boot"]})  # fmt: skip
        docs.put("guide/中文.md", "# 重试\n\n请求失败后会重试四次。\n")
        docs.put("gone.md", "Nobody reads this.\n")
        docs.delete("gone.md")
        kb.dataset("notes").put("one.txt", "Remember the okapi.\n")
        builder = LayerBuilder(kb, ExtractiveSummarizer())
        builder.apply(builder.plan("docs"))


def keep(folder: Path) -> None:
    """Write stores of the current schema into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, running_server() as server:
        for kind, beginning in (("sqlite", ""), ("files", "files://")):
            store = Path(scratch, "store.db" if kind == "sqlite" else "store")
            fill(f"{beginning}{store}")
            with tarfile.open(folder / ARCHIVES[kind], "w:xz") as archive:
                for file in sorted(Path(scratch).glob(f"{store.name}*")):
                    archive.add(file, file.name, filter=_of_nobody)
            store.rename(Path(scratch, f"done-{kind}"))
        fill(server.schema_url(SCHEMA))
        (folder / ARCHIVES["postgres"]).write_bytes(lzma.compress(server.dump()))


@contextmanager
def opened(kind: str, version: int, scratch: Path, server: PostgresServer | None) -> Iterator[str]:
    """The URL of a copy of what is kept, for the block; a ``server`` is needed for "postgres"."""
    archive = KEPT / str(version) / ARCHIVES[kind]
    if kind == "postgres":
        assert server is not None
        server.run_script(lzma.decompress(archive.read_bytes()))
        yield server.schema_url(SCHEMA)
        with server.connect() as driver:
            driver.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
        return
    with tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
    yield str(scratch / "store.db") if kind == "sqlite" else f"files://{scratch / 'store'}"


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    keep(KEPT / str(SCHEMA_VERSION))
