"""A server that is killed loses nothing that it has answered."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx
import pytest

pytest.importorskip("uvicorn")

import triptych
from support.servers import started

pytestmark = pytest.mark.process


@pytest.mark.parametrize("store", ["kb.db", "files"])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_answered_judgement_survives_a_kill(store: str, workers: str, tmp_path: Path) -> None:
    url = store if store == "kb.db" else f"files://{tmp_path}/files"
    with triptych.open(tmp_path / url if store == "kb.db" else url, embedder="hash") as kb:
        kb.put_document("docs", "a.md", "A kettle.")
    with (
        started(tmp_path, "--write", "--workers", workers, store=url) as served,
        httpx.Client(base_url=served.url, timeout=60) as browser,
    ):
        found = re.search(
            r'name="form_token" value="([^"]+)"', browser.get("/?q=kettle&judge=1").text
        )
        assert found is not None
        form = {"q": "kettle", "dataset": "docs", "name": "a.md", "verdict": "right"}
        answer = browser.post("/console/golden", data={"form_token": found[1], **form})
        os.killpg(served.process.pid, signal.SIGKILL)
        assert answer.status_code == 303
        assert served.process.wait(60) == -signal.SIGKILL
    with started(tmp_path, store=url) as served:
        kept = httpx.get(f"{served.url}/console/golden?dataset=docs&download=1", timeout=60).json()
    assert [each["relevance"] for each in kept["queries"]] == [{"a.md": 2}]
