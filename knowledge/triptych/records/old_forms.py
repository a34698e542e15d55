"""Plain forms of records that earlier versions of Triptych wrote into files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["current_document", "split_metadata"]

_KEYS = {"triptych.outline": "outline", "triptych.sync_root": "sync_root"}
"""Where the metadata held what `triptych.records.SystemData` holds."""


def split_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The user's metadata and the fields of `SystemData`, from a time when they were one."""
    own = {key: value for key, value in metadata.items() if key not in _KEYS}
    return own, {field: metadata[key] for key, field in _KEYS.items() if key in metadata}


def current_document(plain: Mapping[str, Any]) -> dict[str, Any]:
    """``plain``, a `SourceDocument` or `DocumentInfo` in plain form, as it is written today.

    What has a field ``system`` is of today: then a key of the metadata is the user's, whatever
    its name.
    """
    metadata = plain.get("metadata")
    if "system" in plain or not isinstance(metadata, Mapping):
        return dict(plain)
    own, system = split_metadata(metadata)
    return {**plain, "metadata": own, "system": system}
