"""The programs of examples/ that need a framework, as a reader starts them: `make doors`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

for _module in ("fastapi", "haystack", "langgraph"):
    pytest.importorskip(_module, reason=f"{_module} is not installed: make doors")

from support.chat_server import chat
from support.example_runs import EXAMPLES, environment, notes, run

pytestmark = [pytest.mark.doors, pytest.mark.slow]


def test_a_graph_answers_with_citations_or_says_that_nothing_was_found(tmp_path: Path) -> None:
    folder = notes(tmp_path)
    with chat(["Ten times [1]."]) as server:
        model = {"TRIPTYCH_LLM": "openai:m", "TRIPTYCH_LLM_BASE_URL": f"{server.url}/v1"}
        model["TRIPTYCH_EMBEDDER"] = "none"  # by keyword nothing is found for strange words
        question = "How often is a failed request repeated?"
        told = run(tmp_path, "langgraph_answer.py", folder, question, **model)
        assert told == "Ten times [1].\n[1] http.md\n"
        assert len(server.asked) == 1
        told = run(tmp_path, "langgraph_answer.py", folder, "zebra xylophone", **model)
        assert told == "The documents say nothing about that.\n"
        assert len(server.asked) == 1


def test_a_haystack_pipeline_gives_the_model_what_was_found(tmp_path: Path) -> None:
    with chat(["At four."]) as server:
        told = run(
            tmp_path,
            "haystack_answer.py",
            "when is tea?",
            OPENAI_BASE_URL=f"{server.url}/v1",
            OPENAI_API_KEY="none",
            HAYSTACK_TELEMETRY_ENABLED="False",
        )
        (asked,) = server.asked
    assert told == "At four.\n"
    assert "tea.md: Tea is at four." in json.dumps(asked.body["messages"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _key(folder: Path, tenant: str, *options: str) -> dict[str, str]:
    words = ["--store", "tenants.db", "admin", "keys", "add", tenant, "--dataset", tenant, *options]
    made = subprocess.run(
        [sys.executable, "-m", "triptych_adapters.cli", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return {"Authorization": f"Bearer {made.stdout.strip()}"}


def test_each_tenant_of_the_application_has_its_own_documents(tmp_path: Path) -> None:
    red, blue = _key(tmp_path, "red", "--write"), _key(tmp_path, "blue", "--write")
    reader = _key(tmp_path, "red")
    port = _free_port()
    path = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "fastapi_tenants:app", "--port", str(port)],
        cwd=tmp_path,
        env=environment(PYTHONPATH=path),
    )
    with server, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        try:
            while True:
                assert server.poll() is None
                try:
                    assert client.get("/red/search?q=plan").status_code == 401
                    break
                except httpx.ConnectError:
                    time.sleep(0.1)
            note = {"text": "The red plan ships in May."}
            assert client.put("/red/notes/a/plan.md", json=note, headers=red).json() == {
                "version": 1
            }
            assert client.put("/blue/notes/b.md", json={"text": "Blue."}, headers=blue).is_success
            found = client.get("/red/search?q=plan", headers=reader).json()
            assert [each["note"] for each in found] == ["a/plan.md"]
            assert client.put("/red/notes/b.md", json=note, headers=reader).status_code == 403
            hidden, absent = (
                client.get(f"/{name}/search?q=plan", headers=blue) for name in ("red", "green")
            )
            assert hidden.status_code == absent.status_code == 404
            assert hidden.json()["detail"].replace("red", "green") == absent.json()["detail"]
            assert client.get("/red/search?q=%20", headers=red).status_code == 422
            wrong = client.get("/red/search?q=plan", headers={"Authorization": "Bearer tk_wrong"})
            assert wrong.status_code == 401
        finally:
            server.terminate()
