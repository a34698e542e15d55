"""The encoding that a file declares in its own text."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePosixPath

_SNIFFED = 4096
_HTML = frozenset((".htm", ".html", ".xhtml"))
_PYTHON = frozenset((".py", ".pyi", ".pyw"))
_LIKE_HTML = re.compile(rb"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.I | re.S)
_META_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.I)
_XML = re.compile(rb"<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_COOKIE = re.compile(rb"(?:[^\r\n]*\r?\n)?[ \t\f]*#[^\r\n]{0,200}?coding[:=][ \t]*([-\w.]{1,40})")
"""PEP 263: a comment in one of the first two lines."""

# The standard (https://encoding.spec.whatwg.org, section 4.2) reads these labels as others.
_LABELS = {
    "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252",
    "latin1": "cp1252",
    "us-ascii": "cp1252",
    "ascii": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949",
}
_TEXT = (
    "big5",
    "cp",
    "euc_",
    "gb",
    "hz",
    "iso2022",
    "iso8859",
    "koi8",
    "mac",
    "shift_jis",
    "tis",
)
"""How Python's names of the encodings begin that a file may declare: no Unicode's, which is tried
before, and no codec such as "punycode", which is no encoding of files."""


def is_html(data: bytes) -> bool:
    """Whether ``data`` begins as an HTML page does."""
    return _LIKE_HTML.match(data[:_SNIFFED]) is not None


def declared_encoding(data: bytes, name: str) -> str:
    """Python's name of the encoding that XML, HTML or Python source declares; "" for none, one
    that is not known, or Unicode's own."""
    head = data[:_SNIFFED]
    ending = PurePosixPath(name).suffix.lower()
    label = _XML.match(head)
    if label is None and (ending in _HTML or is_html(head)):
        label = _META_CHARSET.search(head)
    if label is None and ending in _PYTHON:
        label = _COOKIE.match(head)
    return "" if label is None else _codec(label[1].decode("ascii").lower())


def _codec(label: str) -> str:
    try:
        found = codecs.lookup(_LABELS.get(label, label))
    except LookupError:
        return ""
    return found.name if found.name.startswith(_TEXT) and found.name != "cp65001" else ""
