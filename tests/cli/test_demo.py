"""``python -m triptych_adapters.demo``: the tour runs, piped as well, and tells the truth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from triptych.errors import NotFoundError
from triptych_adapters.demo import ADDED, edit_one_paragraph, excerpt, main, read_documents

pytestmark = pytest.mark.process

SECTION = "## Part {n}\n\n" + "Words about part number {n} of the manual. " * 20


@pytest.fixture
def manual(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Manual\n\nAn introduction.\n", encoding="utf-8")
    parts = "\n\n".join(SECTION.format(n=n) for n in range(8))
    (tmp_path / "docs" / "parts.md").write_text(f"# Parts\n\n{parts}\n", encoding="utf-8")
    return tmp_path


def test_the_tour_runs_piped_and_one_edit_embeds_one_chunk(manual: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "triptych_adapters.demo", "--embedder", "hash"],
        cwd=manual,
        capture_output=True,
        check=False,
    )
    shown = done.stdout.decode("utf-8")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "2 documents" in shown
    assert "L0 of docs/parts.md" in shown
    assert "version 1 -> 2   chunks 16   embedded 1   reused 15" in shown
    assert "okapi" in shown
    assert "stale is 'source'" in shown
    assert "\x1b" not in shown
    assert sorted(path.name for path in manual.iterdir()) == ["README.md", "docs"]


def test_a_named_store_is_kept(
    manual: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(manual)
    assert main(["--embedder", "hash", "--store", "kept.db"]) == 0
    assert (manual / "kept.db").exists()
    assert main(["--embedder", "hash", "--store", "kept.db"]) == 0
    assert "added 0   updated 1   unchanged 1" in capsys.readouterr().out


def test_nothing_to_show_is_reported_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--folder", str(tmp_path)]) == 3
    assert "no text files" in capsys.readouterr().err
    with pytest.raises(NotFoundError):
        read_documents(tmp_path / "nowhere")


def test_the_edit_adds_one_sentence_and_takes_nothing_away() -> None:
    content = "# A\n\nFirst.\n\n| a | b |\n\nLast.\n"
    edited = edit_one_paragraph(content)
    assert edited.replace(f" {ADDED}", "") in (content, content.rstrip("\n"))
    assert edited.count(ADDED) == 1
    assert ADDED in edit_one_paragraph("")


def test_an_excerpt_is_short_and_holds_the_word_that_was_asked_for() -> None:
    text = "filler " * 100 + "okapi " + "filler " * 100
    assert "okapi" in excerpt(text, "an okapi")
    assert len(excerpt(text, "an okapi")) <= 162
    assert excerpt("short\n text", "x") == "short text"
