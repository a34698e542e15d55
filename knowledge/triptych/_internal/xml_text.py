"""Text in XML 1.0, whatever it holds."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

_LINE_END: Final = re.compile("\r\n?")
_IN_ATTRIBUTES: Final = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}


@cache
def _not_xml() -> re.Pattern[str]:
    """What XML 1.0 (section 2.2) has no way to write, not even escaped; slow to compile."""
    return re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def printable(text: str) -> str:
    """``text`` with U+FFFD in place of the characters that XML cannot hold."""
    return _not_xml().sub("\N{REPLACEMENT CHARACTER}", text)


def element_text(text: str) -> str:
    """What stands for ``text`` in an element, its line ends as XML reads them."""
    return _escape(printable(_LINE_END.sub("\n", text)))


def attribute_text(text: str) -> str:
    """What stands for ``text`` between the double quotes of an attribute."""
    escaped = _escape(printable(text))
    for character, written in _IN_ATTRIBUTES.items():
        escaped = escaped.replace(character, written)
    return escaped


def _escape(text: str) -> str:
    # As xml.sax.saxutils does, whose import brings HTTP and TLS along.
    return text.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")
