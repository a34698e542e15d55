"""What a process wrote in bulk is in the published index when its store is closed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.cli_run import fresh_shell
from triptych import Service
from triptych_backends.index import Field, LocalIndex, Unit
from triptych_backends.sql import SqlChangeLog
from triptych_backends.sqlite import SqliteStore

TEXTS = {f"note{n}.md": f"apple n{n}\n" for n in range(300)}


class Counted(SqlChangeLog):
    """The change log, and the owners whose texts were read of it."""

    read = 0

    def units(self, dataset: str, field: Field, owners: Sequence[int]) -> Iterator[Unit]:
        self.read += len(owners)
        return super().units(dataset, field, owners)


def read_by_first_search(path: Path, dataset: str, word: str) -> tuple[int, int]:
    """How many texts the first search over the store reads, and how many chunks it finds."""
    with SqliteStore.open(path, read_only=True) as store:
        feed = Counted(store.database)
        with LocalIndex(feed, store.index_path) as index:
            found = index.bm25([dataset], "chunk", word, limit=1000).rows
        return feed.read, len(found)


@pytest.mark.parametrize("searched", [False, True])
def test_the_first_search_after_a_bulk_put_reads_no_text(tmp_path: Path, searched: bool) -> None:
    with Service(SqliteStore.open(tmp_path / "kb.db", background_index=False)) as kb:
        kb.put_documents("d", TEXTS)
        if searched:
            kb.search("apple", dataset_id="d")
    assert read_by_first_search(tmp_path / "kb.db", "d", "apple") == (0, 300)


def test_a_few_documents_are_left_to_the_next_search(tmp_path: Path) -> None:
    few = dict(list(TEXTS.items())[:20])
    with Service(SqliteStore.open(tmp_path / "kb.db", background_index=False)) as kb:
        kb.put_documents("d", few)
    assert not (tmp_path / "kb.db.index").exists()
    assert read_by_first_search(tmp_path / "kb.db", "d", "apple") == (40, 20)


def test_nobody_waits_for_the_index_after_an_interrupt(tmp_path: Path) -> None:
    kb = Service(SqliteStore.open(tmp_path / "kb.db", background_index=False))
    kb.put_documents("d", TEXTS)
    with pytest.raises(KeyboardInterrupt), kb:
        raise KeyboardInterrupt
    assert not (tmp_path / "kb.db.index").exists()


@pytest.mark.parametrize("command", [("add",), ("sync",), ("put",)])
def test_what_a_command_added_is_published_as_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    for name, text in TEXTS.items():
        shell.write(f"docs/{name}", text)
    ran = shell(*command, "docs")
    assert ran.code == 0, ran.both
    (path,) = tmp_path.rglob("*.db")
    assert read_by_first_search(path, "default", "apple") == (0, 300)
