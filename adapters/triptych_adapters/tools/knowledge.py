"""The tools of a knowledge base: what a model reads it with, and puts a document into it."""

from __future__ import annotations

from typing import Final, Literal

from triptych.errors import ValidationError
from triptych.records import check_identifier, check_whole
from triptych.service import Service
from triptych_adapters.services import check_service
from triptych_adapters.tools.base import FORMS, Base
from triptych_adapters.tools.changes import changes_tool
from triptych_adapters.tools.context import context_tool
from triptych_adapters.tools.document import get_tool
from triptych_adapters.tools.document_list import list_tool
from triptych_adapters.tools.overview import overview_tool
from triptych_adapters.tools.put import put_tool
from triptych_adapters.tools.rendering import DEFAULT_MAX_TOKENS, LEAST_MAX_TOKENS
from triptych_adapters.tools.search import search_tool
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

_NEEDS: Final = ("search", "get_document", "list_documents", "layer", "put_document")


def knowledge_tools(
    service: Service,
    *,
    dataset_id: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    write: bool = True,
    format: Literal["json", "markdown"] = "json",
    reasons: bool = True,
) -> list[Tool]:
    """The tools over ``service``: ``knowledge_search``, ``knowledge_context``, ``knowledge_get``,
    ``knowledge_list``, ``knowledge_overview``, ``knowledge_changes`` and, where a model may
    ``write``, ``knowledge_put``.

    With ``dataset_id`` they see and change that dataset alone, and have no arguments to name
    another. No answer is estimated above ``max_tokens`` tokens, 256 at least. Answers are JSON, or
    Markdown with the same fields. Without ``reasons`` a warning does not say what an error said,
    which may name hosts and files.

    Raises:
        ValidationError: ``service`` is none, or an argument is invalid.
    """
    check_service(service, "knowledge_tools", *_NEEDS)
    check_whole(max_tokens, "max_tokens", least=LEAST_MAX_TOKENS)
    if dataset_id is not None:
        check_identifier(dataset_id, "dataset_id")
    if format not in FORMS:
        raise ValidationError(f"format is one of {', '.join(FORMS)}, not {format!r}")
    base = Base(
        service=service,
        dataset_id=dataset_id,
        max_tokens=max_tokens,
        form=FORMS[format],
        reasons=reasons,
    )
    tools = [
        search_tool(base),
        context_tool(
            service, dataset_id=dataset_id, max_tokens=max_tokens, format=format, reasons=reasons
        ),
        get_tool(base),
        list_tool(base),
        overview_tool(base),
        changes_tool(base),
    ]
    return [*tools, put_tool(base)] if write else tools
