"""`triptych mcp` without a server: what it prints, what it refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.cli_run import ran
from triptych.installation import install_command


def test_the_configuration_starts_this_store_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = ran(["mcp", "--print-config", "--store", "./kb.db", "--dataset", "docs", "--write"])
    server = json.loads(printed.text)["mcpServers"]["triptych"]
    at = server["args"].index("mcp")
    assert server["args"][at:] == [
        *("mcp", "--store", str(tmp_path / "kb.db"), "--dataset", "docs", "--write")
    ]
    assert Path(server["command"]).is_absolute()
    assert ".mcp.json" in printed.err
    served = ran(["mcp", "--print-config", "--agent", "codex", "--http", "--port", "9000"])
    assert 'url = "http://127.0.0.1:9000/mcp"' in served.text


def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    missing = ran(["mcp"])
    assert missing.code == 7
    assert install_command(extra="mcp") in missing.err
