"""``knowledge_overview``: what there is, by the abstracts and overviews of all levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from triptych.errors import NotFoundError
from triptych.records import DocumentInfo, Layer
from triptych_adapters.tools.base import QUOTED, Base, cursor_schema
from triptych_adapters.tools.cursors import Key, Position, fill_by_key, read_position
from triptych_adapters.tools.rendering import to_json
from triptych_adapters.tools.results import ENTRIES
from triptych_adapters.tools.tool import Tool
from triptych_adapters.wire.operations import ARGUMENTS

_PAGE: Final = 64
_FIRST_PAGE: Final = 2
_LAST: Final = "\U0010ffff"
_OVERVIEW: Final[dict[str, dict[str, Any]]] = {
    "path": {
        "type": "string",
        "default": "",
        "description": "A folder ('guide/') or a document ('guide/start.md'). Leave it out for "
        "the whole.",
    },
    "dataset_id": {
        **ARGUMENTS["dataset_id"],
        "description": "The dataset, by its exact id. Leave it out to see which there are.",
    },
    "cursor": cursor_schema("answer"),
}
_DESCRIPTION: Final = (
    "See what the knowledge base holds before you search it: without arguments its datasets, "
    "with a dataset_id or a path what is in there, one level deep: first the overview (layer L1) "
    "of the place itself, then each folder and document in it with its abstract (L0). Of a "
    "document it shows abstract and overview. What has no 'content' has no abstract yet. "
    f"'cursor' leads to the rest. {QUOTED}"
)
_Entries = Iterator[tuple[Key, dict[str, Any]]]


def overview_tool(base: Base) -> Tool:
    """``knowledge_overview``."""
    return base.tool(
        "knowledge_overview",
        "See what there is",
        _DESCRIPTION,
        _OVERVIEW,
        [],
        lambda arguments: _overview(base, arguments),
        ENTRIES,
    )


def _overview(base: Base, arguments: dict[str, Any]) -> dict[str, Any]:
    """One level of the knowledge base."""
    path = arguments["path"].removeprefix("/")
    datasets = list(base.service.list_datasets())
    named = base.dataset_id or arguments.get("dataset_id", "")
    if not named and len(datasets) == 1:
        named = datasets[0]
    asked = to_json([named, path])
    position = read_position(arguments, asked)
    if not named and not path:
        entries = _datasets(base, datasets, position)
        return fill_by_key(base, {}, "entries", entries, position, asked)
    with base.own_dataset():
        dataset_id, path = _place(base, named, path, datasets)
        if path and not path.endswith("/"):
            entries = _document(base, dataset_id, path, position)
        else:
            entries = _folder(base, dataset_id, path, position)
        answer = {"dataset_id": dataset_id, **({"path": path} if path else {})}
        return fill_by_key(base, answer, "entries", entries, position, asked)


def _place(base: Base, named: str, path: str, datasets: list[str]) -> tuple[str, str]:
    """The dataset and the path, with the slash of a folder.

    Raises:
        NotFoundError: there is no such dataset, folder or document.
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
                yield (name,), _listed(base, info)
                continue
            skipped = f"{path}{folder}/"
            about = {"name": skipped, "kind": "folder", "documents": _count(base, info, skipped)}
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


def _listed(base: Base, info: DocumentInfo) -> dict[str, Any]:
    about = {"name": info.name, "kind": "document", "size": info.size}
    return about | _layer(base, info.dataset_id, info.name, Layer.ABSTRACT)


def _count(base: Base, info: DocumentInfo, folder: str) -> int:
    return base.service.count_documents(info.dataset_id, where={"doc_prefix": folder})


def _layer(base: Base, dataset_id: str, name: str, layer: Layer) -> dict[str, Any]:
    """A layer's text and whether it may be outdated; nothing where it was not made yet."""
    service = base.service
    found = (
        service.layer(dataset_id, name, layer)
        if name
        else (service.dataset_layer(dataset_id, layer))
    )
    if found is None:
        return {}
    stale = {} if found.stale is None else {"stale": str(found.stale)}
    return {"layer": str(layer), **stale, "content": found.content}
