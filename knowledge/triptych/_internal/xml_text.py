"""Text in XML 1.0, whatever it holds."""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape

__all__ = ["attribute_text", "element_text", "printable"]

# What XML 1.0 (section 2.2) has no way to write, not even escaped.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_END: Final = re.compile("\r\n?")
_IN_ATTRIBUTES: Final = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


def printable(text: str) -> str:
    """``text`` with U+FFFD in place of the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def element_text(text: str) -> str:
    """What stands for ``text`` in an element, its line ends as XML reads them."""
    return escape(printable(_LINE_END.sub("\n", text)))


def attribute_text(text: str) -> str:
    """What stands for ``text`` between the double quotes of an attribute."""
    return escape(printable(text), _IN_ATTRIBUTES)
