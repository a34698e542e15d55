"""``knowledge_search``: the passages that answer best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from triptych.records import Layer, Query, Scope
from triptych.records.reports import public_warning
from triptych.records.serialization import to_json as to_plain
from triptych_adapters.tools.base import QUOTED, Base, compact, cursor_schema
from triptych_adapters.tools.paging import Place, check_cursor, next_cursor, read_cursor
from triptych_adapters.tools.rendering import clip, to_json, tokens
from triptych_adapters.tools.results import HIT, HITS
from triptych_adapters.tools.tool import Tool
from triptych_adapters.wire.operations import QUERY, mode_schema

_MOST_HITS: Final = 100
_SEARCH: Final[dict[str, dict[str, Any]]] = {
    "query": QUERY["query"],
    "scope": {
        **QUERY["scope"],
        "description": f"{QUERY['scope']['description']} "
        "Left out, it is 'single' with a dataset_id and 'all' without.",
    },
    "dataset_id": {
        **QUERY["dataset_id"],
        "description": "The dataset to search, by its exact id. Leave it out to search all of "
        "them.",
    },
    "mode": QUERY["mode"],
    "layer": {**QUERY["layer"], "default": str(Layer.DETAIL)},
    "top_k": {**QUERY["top_k"], "maximum": _MOST_HITS, "default": 5},
    "threshold": QUERY["threshold"],
    "cursor": cursor_schema("answer"),
}
_DESCRIPTION: Final = (
    "Search the knowledge base and get the passages that answer best, each with its document's "
    "name, version, place and score. A hit with 'stale' may be outdated, for the reason given. "
    "A long answer is cut: 'cursor' then leads to the rest, and a hit with 'cut' shows only "
    f"those characters of its content. 'exhausted' true means that nothing else was found. {QUOTED}"
)


def search_tool(base: Base) -> Tool:
    """``knowledge_search``."""
    lanes = getattr(base.service, "lanes", None)
    return base.tool(
        "knowledge_search",
        "Search the knowledge base",
        _DESCRIPTION,
        {**_SEARCH, "mode": mode_schema(lanes)},
        ["query"],
        lambda arguments: _search(base, arguments),
        HITS,
    )


def _search(base: Base, arguments: dict[str, Any]) -> dict[str, Any]:
    """One page of hits."""
    dataset_id = base.dataset_id or arguments.get("dataset_id", "")
    query = Query(
        text=arguments["query"],
        dataset_id=dataset_id,
        scope=arguments.get("scope", Scope.SINGLE if dataset_id else Scope.ALL),
        mode=arguments.get("mode"),
        layer=arguments["layer"],
        top_k=arguments["top_k"],
        threshold=arguments.get("threshold"),
    )
    # Only what the tool's arguments decide; it does not take the query language.
    asked = to_json(attrs.asdict(query, filter=lambda field, _: field.name != "syntax"))
    start = read_cursor(arguments["cursor"], asked) if "cursor" in arguments else Place()
    with base.own_dataset():
        result = base.service.search(query)
    warnings = result.warnings if base.reasons else list(map(public_warning, result.warnings))
    hits = [compact(to_plain(hit), HIT) for hit in result.hits]
    check_cursor(start, hits)
    answer = {
        "hits": [],
        "warnings": _bounded(warnings, base.max_tokens // 4),
        "exhausted": result.exhausted,
    }

    def cursor(place: Place | None) -> str | None:
        return None if place is None else next_cursor(place, hits, asked)

    return base.fill(answer, "hits", hits, start, cursor)


def _bounded(warnings: Sequence[str], max_tokens: int) -> list[str]:
    """The warnings that fit, the last one clipped, and how many did not."""
    shown: list[str] = []
    room = max_tokens - tokens(f"and {len(warnings)} more warnings")
    for at, warning in enumerate(warnings):
        text = clip(warning, max(room, 1))
        room -= tokens(text)
        if room < 0:
            return [*shown, f"and {len(warnings) - at} more warnings"]
        shown.append(text)
    return shown
