"""A process that fills a space is killed: nothing that it made is lost, and the next goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.fill_script import DOCUMENTS, notes
from support.space_script import open_next
from triptych.spaces import fill_space, list_spaces, swap_space

pytestmark = pytest.mark.process

SUPPORT = Path(__file__).parents[1]
IN_FLIGHT = 4 * 64
"""The texts of the calls that run when the process is killed."""


def test_killed_fill_goes_on(tmp_path: Path) -> None:
    url, log = str(tmp_path / "kb.db"), tmp_path / "log"
    with open_next(url, log) as kb:
        kb.put_documents("d", notes())
    log.touch()
    child = subprocess.Popen(
        [sys.executable, "-m", "support.space_script", url, str(log)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, sys.path)])},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        while len(log.read_text().splitlines()) < DOCUMENTS // 4 and child.poll() is None:
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    with open_next(url, log) as kb:
        before = len(log.read_text().splitlines())
        spaces = list_spaces(kb, "d")
        kept = spaces[1].vectors if len(spaces) > 1 else 0
        assert kept >= before - IN_FLIGHT
        report = fill_space(kb, "d")
        texts = len(set(notes().values()))
        assert report.lacking == 0
        assert report.embedded == texts - kept
        assert len(log.read_text().splitlines()) == before + report.embedded
        assert swap_space(kb, "d").pending == 0
        assert kb.search("Note 17.", dataset_id="d", mode="vector").hits[0].doc_name == "n017.txt"
        assert kb.doctor().findings == ()
