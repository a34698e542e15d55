"""Requests go over httpx2 or httpx, whichever is installed, and do the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.http_library import httpx
from triptych import Message
from triptych.errors import ValidationError
from triptych_providers import Connection, OpenAILLM

ROOT = Path(__file__).parents[3]
OVER = os.environ.get("TRIPTYCH_TEST_OVER", "httpx2")


def test_one_module_knows_which_package_sends_requests() -> None:
    """The store on Qdrant names httpx too: that is its client's, whatever ours go over."""
    knows = re.compile(r"^\s*(?:import|from) (?:httpx|httpcore)", re.MULTILINE)
    places = {
        path.name
        for folder in ("knowledge", "backends", "factory", "adapters")
        for path in (ROOT / folder).rglob("*.py")
        if knows.search(path.read_text(encoding="utf-8"))
    }
    # connection.py for the type checker alone.
    assert places == {"arguments.py", "client.py", "connection.py"}


def test_requests_go_over_the_package_that_the_run_names() -> None:
    assert httpx.__name__ == OVER


def test_a_transport_of_the_other_package_is_refused_by_name() -> None:
    other = pytest.importorskip({"httpx2": "httpx", "httpx": "httpx2"}[httpx.__name__])
    llm = OpenAILLM("m", connection=Connection(transport=other.AsyncHTTPTransport), api_key="k")
    with pytest.raises(ValidationError, match=rf"{httpx.__name__}\.AsyncHTTPTransport"):
        llm.generate([Message(role="user", content="?")], max_tokens=5)
    llm.close()


@pytest.mark.skipif(OVER == "httpx", reason="the whole run is over httpx")
def test_a_sample_of_these_tests_holds_over_httpx() -> None:
    """All of them: ``make test-httpx``."""
    here = "tests/backends/providers"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", "0", "-q", f"{here}/test_provider_async.py"),
            f"{here}/test_provider_network.py::test_what_is_sent_and_answered_is_whole",
            f"{here}/test_over_httpx.py::test_requests_go_over_the_package_that_the_run_names",
        ],
        cwd=ROOT,
        env={**os.environ, "TRIPTYCH_TEST_OVER": "httpx"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
