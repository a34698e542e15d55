"""What coding agents take as configuration of a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["AGENTS", "configuration"]

AGENTS: Final[Mapping[str, str]] = {
    "claude": ".mcp.json of a project (Claude Code), claude_desktop_config.json (Claude Desktop)",
    "cursor": ".cursor/mcp.json of a project, or ~/.cursor/mcp.json",
    "gemini": ".gemini/settings.json of a project, or ~/.gemini/settings.json",
    "vscode": ".vscode/mcp.json of a project",
    "codex": "~/.codex/config.toml",
}
"""The agents, each with the file that the configuration goes into."""

_NAME: Final = "triptych"


def configuration(agent: str, *, command: Sequence[str] = (), url: str = "") -> str:
    """The part of the agent's file that adds the server: a ``command``, or a ``url``."""
    if agent == "codex":
        lines = [f"[mcp_servers.{_NAME}]"]
        # A JSON string is one of TOML, too.
        if url:
            lines.append(f"url = {json.dumps(url)}")
        else:
            first, *rest = command
            lines += [f"command = {json.dumps(first)}", f"args = {json.dumps(rest)}"]
        return "\n".join(lines) + "\n"
    server: dict[str, object] = {}
    if url:
        key = "httpUrl" if agent == "gemini" else "url"
        server = {key: url} if agent in ("gemini", "cursor") else {"type": "http", key: url}
    else:
        first, *rest = command
        server = {"command": first, "args": rest}
        if agent == "vscode":
            server = {"type": "stdio", **server}
    root = "servers" if agent == "vscode" else "mcpServers"
    return json.dumps({root: {_NAME: server}}, indent=2, ensure_ascii=False) + "\n"
