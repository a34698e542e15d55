"""The tools ``knowledge_overview`` and ``knowledge_changes``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from triptych.errors import NotFoundError
from triptych.records import Layer
from triptych.records.serialization import to_dict
from triptych.text.tokens import estimate_tokens
from triptych_adapters.services import layer_of
from triptych_adapters.tools.base import (
    CHANGE,
    CHANGES,
    CURSOR,
    ENTRIES,
    MOST_ENTRIES,
    QUOTED,
    Base,
    compact,
)
from triptych_adapters.tools.paging import Key, Position, read_position
from triptych_adapters.tools.rendering import to_json
from triptych_adapters.tools.tool import Tool
from triptych_adapters.wire.operations import ARGUMENTS

_PAGE: Final = 64
_FIRST_PAGE: Final = 2
_LAST: Final = "\U0010ffff"
_Entries = Iterator[tuple[Key, dict[str, Any]]]


def overview_tool(base: Base) -> Tool:
    """``knowledge_overview``."""
    return base.tool(
        "knowledge_overview",
        "Browse the knowledge base",
        (
            "Browse the knowledge base before you search it. Without arguments: its datasets. With "
            "a dataset_id or a path: one level of its contents, first the overview (layer L1) of "
            "the dataset or folder itself, then each folder and document in it with its abstract "
            "(L0). For a document: its abstract and overview. Entries without "
            f"'content' have no abstract yet. 'cursor' continues. {QUOTED}"
        ),
        {
            "path": {
                "type": "string",
                "default": "",
                "description": "A folder ('guide/') or a document ('guide/start.md'). Omit it for "
                "the whole dataset.",
            },
            "dataset_id": {
                **ARGUMENTS["dataset_id"],
                "description": "The exact id of the dataset. Omit it to list the datasets.",
            },
            "cursor": CURSOR,
        },
        [],
        _overview,
        ENTRIES,
    )


def _overview(base: Base, arguments: dict[str, Any]) -> dict[str, Any]:
    """One level of the knowledge base."""
    path = arguments["path"].removeprefix("/")
    datasets = list(base.service.list_datasets())
    named = base.named(arguments)
    if not named and len(datasets) == 1:
        named = datasets[0]
    asked = to_json([named, path])
    position = read_position(arguments, asked)
    if not named and not path:
        entries = _datasets(base, datasets, position)
        return base.fill_by_key({}, "entries", entries, position, asked)
    with base.own_dataset():
        dataset_id, path = _place(base, named, path, datasets)
        if path and not path.endswith("/"):
            entries = _document(base, dataset_id, path, position)
        else:
            entries = _folder(base, dataset_id, path, position)
        answer = {"dataset_id": dataset_id, **({"path": path} if path else {})}
        return base.fill_by_key(answer, "entries", entries, position, asked)


def _place(base: Base, named: str, path: str, datasets: list[str]) -> tuple[str, str]:
    """The dataset and the path, with the slash of a folder.

    Raises:
        NotFoundError: the dataset does not exist, folder or document.
    """
    if not path:
        base.service.count_documents(named)  # whether there is such a dataset
        return named, path
    holding = [named] if named else datasets
    for folder in (path, path + "/"):
        for each in holding:
            found = base.service.list_documents(each, prefix=folder, limit=1)
            if found and (folder.endswith("/") or found[0].name == folder):
                return each, folder
    raise NotFoundError(
        f"there is no folder or document {path!r}: knowledge_overview without a path shows the "
        "first level"
    )


# Entries, each with its key


def _datasets(base: Base, datasets: list[str], position: Position) -> _Entries:
    after = position.after[0] if position.after else ""
    for dataset_id in datasets:
        if dataset_id <= after:
            continue
        try:
            documents = base.service.count_documents(dataset_id)
        except NotFoundError:  # deleted meanwhile
            continue
        about = {"dataset_id": dataset_id, "kind": "dataset", "documents": documents}
        yield (dataset_id,), about | _layer(base, dataset_id, "", Layer.ABSTRACT)


def _folder(base: Base, dataset_id: str, path: str, position: Position) -> _Entries:
    """The place itself, then what is in it, by name."""
    after = position.after[0] if position.after else None
    if after is None:
        yield ("",), _own(base, dataset_id, path)
    skipped = after if after is not None and after.endswith("/") else ""
    name = f"{skipped}{_LAST}" if skipped else after or ""
    size = _FIRST_PAGE
    while True:
        page = base.service.list_documents(dataset_id, prefix=path, after=name, limit=size)
        if not page:
            return
        size = min(2 * size, _PAGE)
        for info in page:
            name = info.name
            if skipped and name.startswith(skipped):
                continue
            folder, slash, _ = name[len(path) :].partition("/")
            if not slash:
                about = {"name": name, "kind": "document", "size": info.size}
                yield (name,), about | _layer(base, dataset_id, name, Layer.ABSTRACT)
                continue
            skipped = f"{path}{folder}/"
            held = base.service.count_documents(dataset_id, where={"doc_prefix": skipped})
            about = {"name": skipped, "kind": "folder", "documents": held}
            yield (skipped,), about | _layer(base, dataset_id, skipped, Layer.ABSTRACT)
            name = f"{skipped}{_LAST}"
            size = _FIRST_PAGE  # the rest of this page is in the folder, too
            break


def _own(base: Base, dataset_id: str, path: str) -> dict[str, Any]:
    found = _layer(base, dataset_id, path, Layer.OVERVIEW)
    about = {"name": path, "kind": "folder"} if path else {"kind": "dataset"}
    return about | (found or _layer(base, dataset_id, path, Layer.ABSTRACT))


def _document(base: Base, dataset_id: str, name: str, position: Position) -> _Entries:
    after = position.after[0] if position.after else ""
    for layer in (Layer.ABSTRACT, Layer.OVERVIEW):
        found = _layer(base, dataset_id, name, layer)
        if str(layer) > after and (found or layer is Layer.ABSTRACT):
            yield (str(layer),), {"name": name, "kind": "document"} | found


def _layer(base: Base, dataset_id: str, name: str, layer: Layer) -> dict[str, Any]:
    """A layer's text and whether it may be outdated; nothing where it was not made yet."""
    found = layer_of(base.service, dataset_id, name, layer)
    if found is None:
        return {}
    stale = {} if found.stale is None else {"stale": str(found.stale)}
    return {"layer": str(layer), **stale, "content": found.content}


# Changes


def changes_tool(base: Base) -> Tool:
    """``knowledge_changes``."""
    return base.tool(
        "knowledge_changes",
        "List changes",
        (
            "List the documents that were 'added', 'updated' or 'deleted' since your last call, "
            "each once, with its current version. Keep 'cursor' for the next call. If 'more' is "
            "true, there are more changes now. If 'reset' is true, everything that you know may be "
            "outdated, and the list starts with every document. To see the newest documents first, "
            "use knowledge_list."
        ),
        {
            "cursor": {
                "type": "string",
                "description": "The 'cursor' of the last answer. Omit it to start with every "
                "document, as added.",
            },
            "dataset_id": {
                **ARGUMENTS["dataset_id"],
                "description": "The exact id of the dataset. Omit it for the changes of all "
                "datasets.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST_ENTRIES,
                "default": MOST_ENTRIES,
                "description": "Maximum number of changes in one answer.",
            },
        },
        [],
        _changes,
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
