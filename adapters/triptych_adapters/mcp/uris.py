"""The URIs of documents and layers.

``triptych://dataset/docs/document/guide/start.md``, ``…/version/3/guide/start.md``,
``…/layer/L0/guide/start.md`` and, of the dataset itself, ``triptych://dataset/docs/layer/L0``.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

import attrs

from triptych.errors import NotFoundError
from triptych.records import Layer

_URI: Final = re.compile(
    r"triptych://dataset/(?P<dataset>[^/?#\s]+)/"
    r"(?:document/(?P<document>[^?#\s]+)|version/(?P<version>[1-9][0-9]{0,8})/(?P<old>[^?#\s]+)"
    r"|layer/(?P<layer>L[0-2])(?:/(?P<of>[^?#\s]+))?)"
)


@attrs.frozen(kw_only=True, slots=True)
class Place:
    """What a URI names.

    Attributes:
        dataset_id: the dataset.
        name: the document, or a folder with its slash; "" for the dataset itself.
        version: of the document; None for what it is now.
        layer: of the document, folder or dataset; None for the document's text.
    """

    dataset_id: str
    name: str = ""
    version: int | None = None
    layer: Layer | None = None

    @property
    def uri(self) -> str:
        """The URI, percent-encoded but for the slashes of the name."""
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
    """What ``uri`` names, whether or not it is there.

    Raises:
        NotFoundError: it is none of this server's.
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
