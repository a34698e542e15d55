"""The tools with which a model reads a knowledge base and stores documents."""

from __future__ import annotations

from typing import Final, Literal

from triptych.service import KnowledgeBase
from triptych_adapters.services import check_service
from triptych_adapters.tools.base import Base
from triptych_adapters.tools.documents import get_tool, list_tool, put_tool
from triptych_adapters.tools.overview import changes_tool, overview_tool
from triptych_adapters.tools.rendering import DEFAULT_MAX_TOKENS
from triptych_adapters.tools.search import context_of, search_tool
from triptych_adapters.tools.tool import Tool

TOOL_NAMES: Final = (
    "knowledge_search",
    "knowledge_context",
    "knowledge_get",
    "knowledge_list",
    "knowledge_overview",
    "knowledge_changes",
    "knowledge_put",
)
"""The names of the tools, in their order."""

_NEEDS: Final = ("search", "context", "get_document", "list_documents", "layer", "put_document")


def knowledge_tools(
    service: KnowledgeBase,
    *,
    dataset_id: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    write: bool = True,
    format: Literal["json", "markdown"] = "json",
    reasons: bool = True,
) -> list[Tool]:
    """Return the tools over ``service``: ``knowledge_search``, ``knowledge_context``,
    ``knowledge_get``, ``knowledge_list``, ``knowledge_overview``, ``knowledge_changes`` and, with
    ``write``, ``knowledge_put``.

    With ``dataset_id`` they read and change only that dataset, and have no argument for another.
    The estimated size of an answer is at most ``max_tokens`` tokens (256 or more). Answers are
    JSON, or Markdown with the same fields. Without ``reasons`` warnings omit the messages of
    errors, which may name hosts and files.

    Raises:
        ValidationError: ``service`` is not a KnowledgeBase, or an argument is invalid.
    """
    check_service(service, "knowledge_tools", *_NEEDS)
    base = Base(
        service=service,
        dataset_id=dataset_id,
        max_tokens=max_tokens,
        format=format,
        reasons=reasons,
    )
    made = (search_tool, context_of, get_tool, list_tool, overview_tool, changes_tool)
    return [tool(base) for tool in (*made, *((put_tool,) if write else ()))]
