"""What does an agent read until it has the code that answers? MCP's search beside grep alone.

    python bench/agent_calls.py --data DIR [--only NAME ...] [--questions 10]

``DIR`` is as for ``bench/code_ranking.py``; without it nothing is measured, and that is said. Each
of the first questions of each repository is asked in two ways, both as an agent acts that has no
other help, and the calls and the tokens of their answers are added up until a file that answers is
seen, or the agent has given up:

- by MCP, through the protocol's own client: `knowledge_search` with the question, then up to two
  further pages by its cursor. The tokens of the list of tools are printed apart: a session pays
  them once.
- by grep: the files that hold most of the question's words, by ``grep -c`` for each as an
  agent's shell prints them (at most 100 lines), then the head of each in turn (50 lines around the
  first matches), at most five files.

Tokens are estimated for both by the same counter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from mcp import Client

import triptych
from code_ranking import CHOSEN, HELD_OUT, Repository, sources
from triptych import NewDocument
from triptych.text import get_analyzer
from triptych.text.tokens import estimate_tokens
from triptych_server.mcp.server import ServerOptions, make_server

PAGES = 3
FILES, LISTED, AROUND = 5, 100, 25


@attrs.frozen
class Session:
    """How one question went."""

    calls: int
    tokens: int
    found: bool


def is_answer(name: str, asked: Mapping[str, Any]) -> bool:
    """Whether a file is one of those that answer."""
    paths = [each if isinstance(each, str) else each["path"] for each in asked["relevant"]]
    return any(f"/{path}".endswith(f"/{name}") or name == path for path in paths)


async def by_mcp(client: Any, asked: Mapping[str, Any]) -> Session:
    """Search, and go on by the cursor."""
    tokens, cursor = 0, None
    for page in range(PAGES):
        arguments = {"query": asked["query"]} | ({"cursor": cursor} if cursor else {})
        answer = await client.call_tool("knowledge_search", arguments)
        tokens += estimate_tokens(answer.content[0].text)
        said = answer.structured_content
        if any(is_answer(hit["doc_name"], asked) for hit in said["hits"]):
            return Session(page + 1, tokens, found=True)
        cursor = said["cursor"]
        if cursor is None:
            return Session(page + 1, tokens, found=False)
    return Session(PAGES, tokens, found=False)


def by_grep(documents: Sequence[NewDocument], asked: Mapping[str, Any]) -> Session:
    """Count the question's words in each file, and look into the best."""
    words = re.findall(r"\w{4,}", asked["query"].lower())
    kept = set(get_analyzer("english").analyze_query(asked["query"]))
    words = [w for w in words if set(get_analyzer("english").analyze_query(w)) & kept] or words
    lines = {each.name: each.content.lower().splitlines() for each in documents}
    having = {
        name: Counter(word for word in set(words) if any(word in line for line in rows))
        for name, rows in lines.items()
    }
    order = sorted(
        (name for name in lines if having[name]), key=lambda name: (-len(having[name]), name)
    )
    listed = "\n".join(f"{name}:{len(having[name])}" for name in order[:LISTED])
    tokens, calls = estimate_tokens(listed), 1
    for name in order[:FILES]:
        rows = lines[name]
        first = next(at for at, line in enumerate(rows) if any(word in line for word in words))
        shown = rows[max(first - AROUND, 0) : first + AROUND]
        tokens, calls = tokens + estimate_tokens("\n".join(shown)), calls + 1
        if is_answer(name, asked):
            return Session(calls, tokens, found=True)
    return Session(calls, tokens, found=False)


async def sessions(
    data: Path, name: str, repository: Repository, count: int
) -> tuple[list[Session], list[Session], int]:
    """The sessions of a repository by MCP and by grep, and the tokens of the list of tools."""
    asked = json.loads((data / "annotations" / f"{name}.json").read_text(encoding="utf-8"))[:count]
    documents = list(sources(data / "repos" / name, repository))
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents(name, documents)
        async with Client(make_server(kb, ServerOptions())) as client:
            tools = (await client.list_tools()).tools
            listed = [each.model_dump_json(by_alias=True, exclude_none=True) for each in tools]
            found = [await by_mcp(client, each) for each in asked]
    return found, [by_grep(documents, each) for each in asked], sum(map(estimate_tokens, listed))


def row(name: str, found: Sequence[Session]) -> str:
    """Questions, found, calls and tokens a question."""
    count = len(found)
    share = sum(each.found for each in found)
    calls, tokens = sum(each.calls for each in found), sum(each.tokens for each in found)
    return f"{name:28} {count:4} {share:6} {calls / count:7.1f} {tokens / count:9.0f}"


def main() -> None:
    """Measure, or say what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--questions", type=int, default=10)
    given = parser.parse_args()
    every: tuple[list[Session], list[Session]] = ([], [])
    rows, listed = [], 0
    for name, repository in {**CHOSEN, **HELD_OUT}.items():
        if given.only and name not in given.only:
            continue
        if not (given.data / "annotations" / f"{name}.json").is_file():
            print(f"{name} is skipped: its questions are not in {given.data}", file=sys.stderr)
            continue
        mcp, grep, listed = asyncio.run(sessions(given.data, name, repository, given.questions))
        rows += [row(f"{name}, MCP", mcp), row(f"{name}, grep", grep)]
        every[0].extend(mcp)
        every[1].extend(grep)
    if not rows:
        print("nothing is measured")
        return
    print(f"{'':28} {'asked':>4} {'found':>6} {'calls':>7} {'tokens':>9}")
    print("\n".join([*rows, row("all, MCP", every[0]), row("all, grep", every[1])]))
    print(f"the list of tools: {listed} tokens, once a session")


if __name__ == "__main__":
    main()
