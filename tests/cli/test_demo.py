"""``python -m triptych_adapters.demo``: the tour runs, piped as well, and tells the truth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triptych.errors import NotFoundError
from triptych_adapters.demo import ADDED, edit_one_paragraph, main, read_documents

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
    assert "stale is 'source'" in " ".join(shown.split())
    assert "\x1b" not in shown
    assert sorted(path.name for path in manual.iterdir()) == ["README.md", "docs"]


@pytest.mark.parametrize("on_path", [True, False])
def test_what_the_tour_advises_is_a_command_that_works(manual: Path, on_path: bool) -> None:
    own = str(Path(sys.executable).parent)
    paths = [each for each in os.environ["PATH"].split(os.pathsep) if each != own]
    env = os.environ | {
        "PATH": os.pathsep.join([own, *paths] if on_path else paths),
        "XDG_DATA_HOME": str(manual / "data"),
        "XDG_CONFIG_HOME": str(manual / "config"),
    }
    shown = subprocess.run(
        [sys.executable, "-m", "triptych_adapters.demo", "--embedder", "hash"],
        cwd=manual,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    advised = shown.partition("Your own files:")[2].splitlines()
    add, search = advised[0].strip(), advised[1].strip()
    assert add.startswith("triptych ") is on_path
    for line in (add.replace("FOLDER", "docs"), search.replace("YOUR QUESTION", "manual")):
        done = subprocess.run(line, shell=True, cwd=manual, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "parts.md" in done.stdout


def test_a_named_store_is_kept(
    manual: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(manual)
    assert main(["--embedder", "hash", "--store", "kept.db"]) == 0
    assert (manual / "kept.db").exists()
    assert main(["--embedder", "hash", "--store", "kept.db"]) == 0
    assert "  updated 1   unchanged 1   chunks" in capsys.readouterr().out


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


def test_hits_are_shown_as_the_command_shows_them_and_places_are_whole(manual: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "triptych_adapters.demo", "--embedder", "hash"],
        cwd=manual,
        env=os.environ | {"COLUMNS": "80"},
        capture_output=True,
        check=False,
    )
    lines = done.stdout.decode("utf-8").splitlines()
    assert max(map(len, lines)) <= 80
    (asked,) = [at for at, line in enumerate(lines) if "quick brown okapi" in line and "$" in line]
    assert lines[asked + 1].startswith("docs/parts.md:")
    assert lines[asked + 1].split("  ")[-1] in ("#1", "stale: embedder") or "#1" in lines[asked + 2]
    assert any("okapi" in line for line in lines[asked + 2 : asked + 8])
