"""The configuration of a server for coding agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import triptych

KEY: Final = "TRIPTYCH_API_KEY"
"""The environment variable that a configuration names instead of a key."""
_REFERENCES: Final = {"claude": f"${{{KEY}}}", "gemini": f"${KEY}"}
"""The syntax of agents for the variable; the others write ``${env:…}``."""

AGENTS: Final[Mapping[str, str]] = {
    "claude": ".mcp.json of a project (Claude Code), claude_desktop_config.json (Claude Desktop)",
    "cursor": ".cursor/mcp.json of a project, or ~/.cursor/mcp.json",
    "gemini": ".gemini/settings.json of a project, or ~/.gemini/settings.json",
    "vscode": ".vscode/mcp.json of a project",
    "codex": "~/.codex/config.toml",
}
"""The agents, each with its configuration file."""

SKILL: Final = Path(triptych.__file__).parent / ".agents" / "skills" / "triptych" / "SKILL.md"
"""Instructions for agents on how to use Triptych, installed with it."""

_NAME: Final = "triptych"


def configuration(
    agent: str, *, command: Sequence[str] = (), url: str = "", key: bool = False
) -> str:
    """Return the part of the agent's file that adds the server: a ``command`` or a ``url``.

    With ``key`` it names the variable `KEY` for the required key.
    """
    if agent == "codex":
        lines = [f"[mcp_servers.{_NAME}]"]
        if url:
            lines.append(f"url = {_toml(url)}")
        else:
            first, *rest = command
            lines += [f"command = {_toml(first)}", f"args = {_toml(rest)}"]
        if key:
            lines.append(f'bearer_token_env_var = "{KEY}"' if url else f'env_vars = ["{KEY}"]')
        return "\n".join(lines) + "\n"
    reference = _REFERENCES.get(agent, f"${{env:{KEY}}}")
    server: dict[str, object] = {}
    if url:
        place = "httpUrl" if agent == "gemini" else "url"
        server = {place: url} if agent in ("gemini", "cursor") else {"type": "http", place: url}
        if key:
            server["headers"] = {"Authorization": f"Bearer {reference}"}
    else:
        first, *rest = command
        server = {"command": first, "args": rest}
        if agent == "vscode":
            server = {"type": "stdio", **server}
        if key:
            server["env"] = {KEY: reference}
    root = "servers" if agent == "vscode" else "mcpServers"
    return json.dumps({root: {_NAME: server}}, indent=2, ensure_ascii=False) + "\n"


def _toml(value: object) -> str:
    """A string or a list of strings. One of JSON is one of TOML, but for these two differences:
    TOML has no halves of a character, and a delete must be escaped.
    """
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
