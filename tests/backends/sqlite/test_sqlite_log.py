"""How far the write-ahead log grows before it is copied into the file."""

from __future__ import annotations

from pathlib import Path

import triptych

_MB = 2**20


def test_a_bulk_put_copies_its_log_once_for_many_commits_and_the_end_takes_it_away(
    tmp_path: Path,
) -> None:
    path, log = tmp_path / "kb.db", tmp_path / "kb.db-wal"
    with triptych.open(path, embedder=None, background_index=False) as kb:
        for turn in range(6):
            text = "\n\n".join(f"kettle {turn} {line} " + "x" * 400 for line in range(2_400))
            kb.put_documents("d", {f"{turn}.txt": text})
        assert path.stat().st_size < _MB < 12 * _MB < log.stat().st_size
    assert not log.exists()
    assert path.stat().st_size > 12 * _MB
