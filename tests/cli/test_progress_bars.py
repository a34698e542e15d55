"""Bars: none where nobody is watching; total, share, rate on a terminal; tqdm in notebooks."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from triptych import Progress
from triptych_adapters.progress import rich_bars, show_progress


def test_nothing_is_shown_where_nobody_is_watching(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_total_share_and_rate() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with rich_bars(console) as move:
        for done in (0, 25, 50):
            move(Progress(phase="embedding", done=done, total=200))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert "embedding" in shown
    assert "50/200" in shown
    assert "25%" in shown
    assert "/?" not in shown


def test_a_notebook_shows_a_bar_of_tqdm_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with show_progress() as progress:
        assert progress is not None
        progress(Progress(phase="embedding", done=5, total=10))
    out, err = capsys.readouterr()
    assert out == ""
    assert "5/10" in err
