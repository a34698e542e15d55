"""``knowledge_changes``: what was added, updated or deleted since a model looked last."""

from __future__ import annotations

from typing import Any, Final

from triptych.records.serialization import to_dict
from triptych.text.tokens import estimate_tokens
from triptych_adapters.tools.base import Base, compact
from triptych_adapters.tools.cursors import MOST_ENTRIES
from triptych_adapters.tools.results import CHANGE, CHANGES
from triptych_adapters.tools.tool import Tool
from triptych_adapters.wire.operations import ARGUMENTS

_CHANGES: Final[dict[str, dict[str, Any]]] = {
    "cursor": {
        "type": "string",
        "description": "The 'cursor' of the last answer. Leave it out to begin with every "
        "document, as added.",
    },
    "dataset_id": {
        **ARGUMENTS["dataset_id"],
        "description": "The dataset, by its exact id. Leave it out for changes of all of them.",
    },
    "limit": {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_ENTRIES,
        "default": MOST_ENTRIES,
        "description": "Maximum number of changes of one answer.",
    },
}
_DESCRIPTION: Final = (
    "See what became of the documents since you looked last: each document that was 'added', "
    "'updated' or 'deleted', once, with its version now. Keep 'cursor' for the next call. 'more' "
    "true means that there are more changes now. 'reset' true means that what you know may be "
    "outdated as a whole: the answer begins with every document. To see the newest documents "
    "first, use knowledge_list."
)


def changes_tool(base: Base) -> Tool:
    """``knowledge_changes``."""
    return base.tool(
        "knowledge_changes",
        "See what changed",
        _DESCRIPTION,
        _CHANGES,
        [],
        lambda arguments: _changes(base, arguments),
        CHANGES,
    )


def _changes(base: Base, arguments: dict[str, Any]) -> dict[str, Any]:
    """One page of changes: each has a cursor of its own, so that it can end anywhere."""
    page = base.service.changes(
        arguments.get("cursor"),
        dataset_id=base.dataset_id or arguments.get("dataset_id"),
        limit=arguments["limit"],
    )
    shown = page.changes
    while True:
        cut = len(shown) < len(page.changes)
        changes = [compact(to_dict(each), CHANGE) for each in shown]
        answer = {
            "changes": changes,
            "more": page.more or cut,
            "reset": page.reset,
            "cursor": shown[-1].cursor if cut else page.cursor,
        }
        over = estimate_tokens(base.form.render(answer)) - base.max_tokens
        if over <= 0 or len(shown) < 2:
            return answer
        # About as many fewer as there are tokens too many; one at least.
        costs = max(base.form.cost(changes[-1]), 1)
        shown = shown[: max(len(shown) - max(over // (2 * costs), 1), 1)]
