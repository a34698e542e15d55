"""The kind of a document as a person reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TEXTS = ("", "markdown", "text")


def shown_kind(metadata: Mapping[str, Any], parser_sig: str) -> str:
    """The format of the file that a document's Markdown was read from, such as "pdf".

    "" where the kind is what the metadata says: the field decides how the text is cut, and filters
    compare it, so that it stays "markdown".
    """
    found = re.match("[a-z]*", parser_sig)
    form = found[0] if found else ""
    return form if metadata.get("kind") == "markdown" and form not in _TEXTS else ""
