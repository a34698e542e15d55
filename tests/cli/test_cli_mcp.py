"""`triptych mcp` without a server: what it prints, what it refuses."""

from __future__ import annotations

import json
import re
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
    assert "password" not in printed.err
    (tmp_path / "mine").mkdir()
    modelled = ran(["mcp", "--print-config", "--store", "kb.db", "--embedder", "static:mine"])
    assert json.dumps(f"static:{tmp_path / 'mine'}") in modelled.text
    url = "postgresql+psycopg://me:secret@db.example/kb"
    assert "password" in ran(["mcp", "--print-config", "--store", url]).err
    assert ".mcp.json" in printed.err
    (skill,) = re.findall(r"^instructions for agents: (.*)$", printed.err, re.MULTILINE)
    assert Path(skill).read_text(encoding="utf-8").startswith("---\nname: triptych\n")
    served = ran(["mcp", "--print-config", "--agent", "codex", "--http", "--port", "9000"])
    assert 'url = "http://127.0.0.1:9000/mcp"' in served.text


KEYED = {
    "claude": '"Authorization": "Bearer ${TRIPTYCH_API_KEY}"',
    "cursor": '"Authorization": "Bearer ${env:TRIPTYCH_API_KEY}"',
    "gemini": '"Authorization": "Bearer $TRIPTYCH_API_KEY"',
    "vscode": '"Authorization": "Bearer ${env:TRIPTYCH_API_KEY}"',
    "codex": 'bearer_token_env_var = "TRIPTYCH_API_KEY"',
}


@pytest.mark.parametrize("agent", KEYED)
def test_the_configuration_has_the_key_that_is_needed(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--store", "kb.db", "mcp", "--print-config", "--agent", agent]
    assert "TRIPTYCH_API_KEY" not in ran([*words, "--http"]).both  # nor is a store made
    assert not (tmp_path / "kb.db").exists()
    ran(["--store", "kb.db", "admin", "keys", "add", "agents"])
    served = ran([*words, "--http"])
    assert KEYED[agent] in served.text
    assert "TRIPTYCH_API_KEY" in served.err
    assert "TRIPTYCH_API_KEY" not in ran(words).both  # who may read the file needs no key
    words[1] = "http://kb.example:8400"
    remote = ran(words, env={"TRIPTYCH_API_KEY": "tk_secret"})
    assert "tk_secret" not in remote.both
    expected = '"env": {' if agent != "codex" else 'env_vars = ["TRIPTYCH_API_KEY"]'
    assert expected in remote.text
    assert "TRIPTYCH_API_KEY" in remote.text
    assert "TRIPTYCH_API_KEY" not in ran(words).both


def test_a_key_for_a_dataset_that_is_not_there_gets_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("Tea.", encoding="utf-8")
    ran(["--store", "kb.db", "put", "a.md", "-d", "handbook"])
    add = ["--store", "kb.db", "admin", "keys", "add", "agents", "-d", "handbook"]
    assert "there is no dataset" not in ran(add).err
    warned = ran([*add, "-d", "hanbdook"])
    (line,) = [each for each in warned.err.splitlines() if "there is no dataset" in each]
    assert "'hanbdook'" in line
    assert "handbook" in line
    assert (warned.code, warned.text.startswith("tk_")) == (0, True)


def test_the_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    missing = ran(["mcp"])
    assert missing.code == 7
    assert install_command(extra="mcp") in missing.err
