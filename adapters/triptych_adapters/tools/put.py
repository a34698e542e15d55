"""``knowledge_put``: store a document."""

from __future__ import annotations

from typing import Any, Final

from triptych.errors import ConflictError, NotFoundError
from triptych_adapters.tools.base import Base
from triptych_adapters.tools.results import PUT
from triptych_adapters.tools.tool import Tool
from triptych_adapters.wire.operations import ARGUMENTS

_ATTEMPTS: Final = 3
_PUT: Final[dict[str, dict[str, Any]]] = {
    "dataset_id": {
        "type": "string",
        "default": "default",
        "description": "The dataset to put the document into; it is made if there is none.",
    },
    "name": {
        **ARGUMENTS["name"],
        "description": f"{ARGUMENTS['name']['description']} A document of this name is replaced.",
    },
    "content": ARGUMENTS["content"],
    "metadata": ARGUMENTS["metadata"],
}
_DESCRIPTION: Final = (
    "Store a document in the knowledge base so that later searches find it, or replace the one "
    "of that name. Answers with 'status' ('added', 'updated' or 'unchanged') and the version "
    "that is stored now."
)


def put_tool(base: Base) -> Tool:
    """``knowledge_put``."""
    return base.tool(
        "knowledge_put",
        "Store a document",
        _DESCRIPTION,
        _PUT,
        ["name", "content"],
        lambda arguments: _put(base, arguments),
        PUT,
        writes=True,
    )


def _put(base: Base, arguments: dict[str, Any]) -> dict[str, Any]:
    """Store a document; without metadata of its own in ``arguments`` it keeps what it has."""
    dataset_id = base.dataset_id or arguments["dataset_id"]
    name, metadata = arguments["name"], arguments.get("metadata")
    attempts = 0
    while True:
        attempts += 1
        try:
            before = base.service.get_document(dataset_id, name)
        except NotFoundError:
            before = None
        version = 0 if before is None else before.version
        try:
            stored = base.service.put_document(
                dataset_id, name, arguments["content"], metadata, if_version=version
            )
        except ConflictError as error:
            # Somebody was faster: the answer says what became of their version.
            if error.actual is None or attempts == _ATTEMPTS:
                raise
            continue
        same = stored.version == version
        return {
            "status": "added" if before is None else "unchanged" if same else "updated",
            "dataset_id": stored.dataset_id,
            "name": stored.name,
            "version": stored.version,
        }
