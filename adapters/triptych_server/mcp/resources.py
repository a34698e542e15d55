"""Documents and layers as MCP resources.

A URI is ``triptych://dataset/docs/document/guide/start.md``, ``…/version/3/guide/start.md``,
``…/layer/L0/guide/start.md`` or, of the dataset itself, ``triptych://dataset/docs/layer/L0``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote

import attrs

from triptych.errors import NotAvailableError, NotFoundError
from triptych.records import DocumentInfo, Layer
from triptych.service import KnowledgeBase
from triptych_adapters import documents_of, layer_of
from triptych_adapters.tools import Key, Position, read_position, write_cursor

_URI: Final = re.compile(
    r"triptych://dataset/(?P<dataset>[^/?#\s]+)/"
    r"(?:document/(?P<document>[^?#\s]+)|version/(?P<version>[1-9][0-9]{0,8})/(?P<old>[^?#\s]+)"
    r"|layer/(?P<layer>L[0-2])(?:/(?P<of>[^?#\s]+))?)"
)


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """The parsed URI of a resource.

    Attributes:
        dataset_id: the dataset.
        name: the document, or a folder with its slash; "" for the dataset itself.
        version: the document's version; None for the current one.
        layer: the layer of the document, folder or dataset; None for the document's text.
    """

    dataset_id: str
    name: str = ""
    version: int | None = None
    layer: Layer | None = None

    @property
    def uri(self) -> str:
        """The URI, percent-encoded except for the slashes of the name."""
        root = f"triptych://dataset/{_segment(self.dataset_id)}"
        name = "/".join(map(_segment, self.name.split("/")))
        if self.layer is not None:
            return f"{root}/layer/{self.layer}" + (f"/{name}" if name else "")
        if self.version is not None:
            return f"{root}/version/{self.version}/{name}"
        return f"{root}/document/{name}"


def _segment(text: str) -> str:
    encoded = quote(text, safe="")
    # Clients resolve these, as in any path.
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def read_uri(uri: str) -> Place:
    """Parse ``uri``; the resource need not exist.

    Raises:
        NotFoundError: the URI is not of this server.
    """
    found = _URI.fullmatch(uri)
    if found is None:
        raise NotFoundError(
            f"there is no resource {uri[:200]!r}: resources/templates/list has their forms"
        )
    try:
        dataset_id = unquote(found["dataset"], errors="strict")
        name = unquote(found["document"] or found["old"] or found["of"] or "", errors="strict")
    except UnicodeDecodeError:
        raise NotFoundError(f"there is no resource {uri[:200]!r}: it is not UTF-8") from None
    return Place(
        dataset_id=dataset_id,
        name=name,
        version=int(found["version"]) if found["version"] else None,
        layer=Layer(found["layer"]) if found["layer"] else None,
    )


_PAGE: Final = 100
_MARKDOWN: Final = (".md", ".markdown", ".mdx")
_ROOT: Final = "triptych://dataset/{dataset_id}"

TEMPLATES: Final[Sequence[dict[str, Any]]] = (
    {
        "uriTemplate": _ROOT + "/document/{+name}",
        "name": "document",
        "title": "A document",
        "description": "The exact stored text of a document.",
    },
    {
        "uriTemplate": _ROOT + "/version/{version}/{+name}",
        "name": "document-version",
        "title": "An earlier version of a document",
        "description": "The text of a kept version of a document.",
    },
    {
        "uriTemplate": _ROOT + "/layer/{layer}/{+name}",
        "name": "layer",
        "title": "The abstract or overview of a document or folder",
        "description": "layer is L0 (one sentence) or L1 (an overview); a folder's name ends in a "
        "slash.",
    },
    {
        "uriTemplate": _ROOT + "/layer/{layer}",
        "name": "dataset-layer",
        "title": "The abstract or overview of a dataset",
        "description": "layer is L0 (one sentence) or L1 (an overview).",
    },
)
"""The URI templates of the protocol."""


@attrs.frozen(kw_only=True, slots=True)
class Resources:
    """The resources of a Service, or of one of its datasets."""

    service: KnowledgeBase
    dataset_id: str | None = None

    def page(self, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Return one page of resources and the cursor of the next.

        The layers of each dataset are first, then its documents by name.

        Raises:
            ValidationError: the cursor is damaged.
        """
        asked = f"resources {self.dataset_id or ''}"
        position = read_position({} if cursor is None else {"cursor": cursor}, asked)
        entries = self._entries(position)
        page = list(islice(entries, _PAGE))
        more = next(entries, None) is not None
        following = write_cursor(Position(page[-1][0]), asked) if more else None
        return [entry for _, entry in page], following

    def read(self, uri: str) -> dict[str, Any]:
        """Return the text of a resource with its URI and media type.

        Raises:
            NotFoundError: there is no such resource.
        """
        place = read_uri(uri)
        if self.dataset_id is not None and place.dataset_id != self.dataset_id:
            raise NotFoundError(f"there is no resource {uri[:200]!r}")
        if place.layer is None:
            document = self.service.get_document(place.dataset_id, place.name, place.version)
            kind = _media_type(document.name)
            return {"uri": uri, "mimeType": kind, "text": document.content}
        found = self._layer(place)
        if found is None:
            raise NotFoundError(f"there is no layer {uri[:200]!r}: it was not made yet")
        return {"uri": uri, "mimeType": "text/markdown", "text": found}

    def complete(
        self, argument: str, value: str, given: Mapping[str, str]
    ) -> tuple[list[str], bool]:
        """Return the values with the prefix ``value`` for an argument of a template, and whether
        these are all. ``given`` are the template's other arguments.
        """
        dataset_id = self.dataset_id or given.get("dataset_id", "")
        try:
            if argument == "dataset_id":
                found = [self.dataset_id] if self.dataset_id else self.service.list_datasets()
            elif argument == "layer":
                found = [str(Layer.ABSTRACT), str(Layer.OVERVIEW)]
            elif argument == "version":
                versions = self.service.history(dataset_id, given.get("name", ""))
                found = [str(each.version) for each in versions]
            elif argument == "name" and dataset_id:
                page = self.service.list_documents(dataset_id, prefix=value, limit=_PAGE + 1)
                found = [each.name for each in page]
            else:
                found = []
        except (NotFoundError, NotAvailableError):
            found = []
        fitting = [each for each in found if each.startswith(value)]
        return fitting[:_PAGE], len(fitting) <= _PAGE

    def _layer(self, place: Place) -> str | None:
        layer = place.layer or Layer.ABSTRACT
        found = layer_of(self.service, place.dataset_id, place.name, layer)
        return None if found is None else found.content

    def _entries(self, position: Position) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield the resources after ``position``: a dataset, a name, and a layer of the dataset."""
        dataset, after, own = position.after or ("", "", "")
        datasets = self.service.list_datasets()
        for dataset_id in datasets:
            bound = self.dataset_id is not None and dataset_id != self.dataset_id
            if bound or dataset_id < dataset:
                continue
            last = after if dataset_id == dataset else ""
            if not last:
                yield from self._own(dataset_id, own if dataset_id == dataset else "")
            with suppress(NotFoundError):  # deleted meanwhile
                for info in documents_of(self.service, dataset_id, after=last):
                    yield (dataset_id, info.name, ""), _entry(info)

    def _own(self, dataset_id: str, after: str) -> Iterator[tuple[Key, dict[str, Any]]]:
        """Yield the layers of the dataset itself."""
        for layer, what in ((Layer.ABSTRACT, "Abstract"), (Layer.OVERVIEW, "Overview")):
            place = Place(dataset_id=dataset_id, layer=layer)
            if str(layer) > after and self._layer(place) is not None:
                about = {"uri": place.uri, "name": f"{dataset_id} {layer}"}
                yield (
                    (dataset_id, "", str(layer)),
                    {**about, "title": f"{what} of {dataset_id}", "mimeType": "text/markdown"},
                )


def _entry(info: DocumentInfo) -> dict[str, Any]:
    title = info.metadata.get("title")
    return {
        "uri": Place(dataset_id=info.dataset_id, name=info.name).uri,
        "name": info.name,
        **({"title": title} if isinstance(title, str) and title else {}),
        "description": f"Version {info.version} in the dataset {info.dataset_id}.",
        "mimeType": _media_type(info.name),
        "size": info.size,
        "annotations": {"lastModified": info.updated_at.isoformat()},
    }


def _media_type(name: str) -> str:
    """Return the media type of the text, not of the file that it was extracted from."""
    return "text/markdown" if name.lower().endswith(_MARKDOWN) else "text/plain"
