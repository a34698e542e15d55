"""``triptych serve`` and ``triptych console`` as processes: their flags do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

pytest.importorskip("uvicorn")

import triptych
from support.servers import serving, started

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def _store(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="hash") as kb:
        kb.put_document("docs", "a.md", "A kettle.")


@pytest.mark.parametrize(("flags", "status"), [([], 200), (["--no-console"], 404)])
def test_the_console_is_served_unless_it_is_left_out(
    flags: list[str], status: int, tmp_path: Path
) -> None:
    with started(tmp_path, *flags) as served:
        assert httpx.get(f"{served.url}/", timeout=60).status_code == status
        assert httpx.get(f"{served.url}/v1/datasets").json() == ["docs"]


@pytest.mark.parametrize("flags", [[], ["--no-browser"]])
def test_a_browser_is_opened_unless_that_is_not_wanted(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    command = [sys.executable, "-m", "triptych_adapters.cli", "console", "--store", "kb.db"]
    with serving(tmp_path, [*command, "--embedder", "hash", *flags]) as served:
        assert "Search your documents" in httpx.get(served.url, timeout=60).text
    assert opened.exists() is (not flags)


def test_requests_do_not_scroll_a_terminal_away(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "triptych_adapters.cli", "console", "--store", "kb.db"]
    command += ["--embedder", "hash", "--no-browser", "--write"]
    ours, its = pytest.importorskip("pty").openpty()
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=its, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/", timeout=60).status_code == 200
    finally:
        process.terminate()
        process.communicate(timeout=60)
        os.close(its)
        said = os.read(ours, 100_000).decode()
        os.close(ours)
    assert "type this code there" in said
    assert '"event": "request"' not in said
    assert '"event": "stop' in said
