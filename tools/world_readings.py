"""Plain readings of files, made without Triptych: the words that a person sees in them.

They are independent of the witnesses of the parsers on purpose, and know no more of a format than
where its words stand. None of them is a parser: what they yield is compared, never kept.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Any
from xml.etree import ElementTree


class NoReadingError(Exception):
    """There is no plain reading of a file; the message says why."""


# Words

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
_BROKEN = re.compile("([^\\W_]+)(?:[-\u2010\u00ad][ \t]*\r?\n\\s*|[\ufffe\x02]\\s*)(?=([^\\W_]+))")


def words(text: str) -> list[str]:
    """The runs of letters and digits; a character each in scripts without spaces."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).translate(_INVISIBLE).casefold())


def lacking(shown: str, text: str) -> tuple[int, Counter[str]]:
    """How many words ``shown`` has, and which of them ``text`` lacks, each as often as it does.

    A word that a hyphen breaks at the end of a line may be one word in the text, or two.
    """
    kept = Counter(words(text))

    def joined(found: re.Match[str]) -> str:
        whole = words(found[1] + found[2])
        return found[1] if whole and kept[whole[0]] else f"{found[1]} "

    there = Counter(words(_BROKEN.sub(joined, shown)))
    return there.total(), there - kept


# Readings


def read(name: str, data: bytes) -> str:
    """All that the file shows.

    Raises:
        NoReadingError: it is damaged or encrypted, or its encoding is not one that is known here.
    """
    kind = kind_of(name)
    try:
        return READINGS[kind](data)
    except NoReadingError:
        raise
    except Exception as error:
        raise NoReadingError(f"no plain reading ({type(error).__name__})") from error


def kind_of(name: str) -> str:
    """The format that a file's name tells, "" for one that is not read here."""
    ending = PurePosixPath(name).suffix.lower()[1:]
    ending = {"htm": "html", "xhtml": "html", "tsv": "csv"}.get(ending, ending)
    return ending if ending in READINGS else ""


def _pdf(data: bytes) -> str:
    import pypdfium2

    with pypdfium2.PdfDocument(data) as document:
        pages = []
        for page in document:
            text = page.get_textpage()
            pages.append(text.get_text_range())
            text.close()
            page.close()
        return "\n".join(pages)


# Not shown: placeholders that say "click here", building blocks; what an older program would
# show; what was moved elsewhere; how Japanese is pronounced.
_PARTS = re.compile(
    r"(?!.*/(\w+masters?|slidelayouts|theme|glossary)/)(word|ppt|xl/drawings|xl/charts)/"
)
_UNSEEN = ("Fallback", "moveFrom", "rPh")
_BREAKS = ("p", "tab", "br", "cr", "tc")


def _office(data: bytes) -> str:
    """Every ``t`` of Word's, DrawingML's and formulas' text, labels of charts, strings of cells."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {each: each.lower() for each in archive.namelist() if each.endswith(".xml")}
        trees = {parts[each]: ElementTree.fromstring(archive.read(each)) for each in sorted(parts)}
    shared = [_text(each) for each in trees.get("xl/sharedstrings.xml", ())]
    found = [_text(tree) for part, tree in trees.items() if _PARTS.match(part)]
    sheets = (tree for part, tree in trees.items() if part.startswith("xl/worksheets/"))
    for cell in (each for sheet in sheets for each in sheet.iter() if _local(each) == "c"):
        value = "".join(each.text or "" for each in cell if _local(each) == "v")
        kind = cell.get("t")
        if kind == "s":
            found.append(shared[int(value)])
        elif kind in ("str", "inlineStr"):
            found.append(_text(cell) or value)
    return "\n".join(found)


def _text(element: ElementTree.Element) -> str:
    kind = _local(element)
    if kind in _UNSEEN:
        return ""
    around = "\n" if kind in _BREAKS else ""
    own = (element.text or "") if kind == "t" else ""
    if kind == "chartSpace":  # names and categories, which each series of a chart repeats
        caches = (each for each in element.iter() if _local(each) == "strCache")
        labels = (each.text for cache in caches for each in cache.iter() if _local(each) == "v")
        own = "".join(f"{each}\n" for each in dict.fromkeys(labels))
    return f"{around}{own}{''.join(map(_text, element))}{around}"


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


_HIDDEN = re.compile(
    r"(?is)<!--.*?(?:-->|\Z)|<head\b[^>]*>.*?(?:</head\s*>|(?=<body\b))"
    r"|<(title|script|style|template|noscript)\b(?:[^>]*[^/>])?>.*?(?:</\1\s*>|\Z)"
)
_REST = r"""(?:\s(?:"[^"]*"|'[^']*'|[^'">])*)?/?>"""
_INLINE = re.compile(
    "(?i)</?(?:a|abbr|acronym|b|bd[io]|big|cite|code|data|del|dfn|em|font|i|ins|kbd|mark|nobr|q|s"
    f"|samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr){_REST}"
)
_TAG = re.compile(f"<[/!?]?[a-zA-Z][^\\s>]*{_REST}")


def _html(data: bytes) -> str:
    declared = re.search(rb"""(?i)<(?:meta|\?xml)[^>]*?(?:charset|encoding)=["']?([\w-]+)""", data)
    text = _decoded(data, declared[1].decode() if declared else "")
    return html.unescape(_TAG.sub("\n", _INLINE.sub("", _HIDDEN.sub(" ", text))))


def _notebook(data: bytes) -> str:
    """The text of the cells: outputs are not read."""
    notebook = json.loads(data)
    sheets = notebook.get("worksheets", [notebook])
    cells = (cell for sheet in sheets for cell in sheet["cells"])
    return "\n".join("".join(cell.get("source", cell.get("input", ""))) for cell in cells)


def _json(data: bytes) -> str:
    return "\n".join(_strings(json.loads(_decoded(data))))


def _json_lines(data: bytes) -> str:
    return "\n".join(_json(line) for line in data.splitlines() if line.strip())


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        parts = chain(*value.items()) if isinstance(value, dict) else value
        yield from chain.from_iterable(map(_strings, parts))


def _csv(data: bytes) -> str:
    text = _decoded(data)
    delimiter = max(",;\t|", key=text.partition("\n")[0].count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return "\n".join(chain.from_iterable(rows))


_FRONT = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\r?\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_RST = re.compile(
    r"""(?mx) ^([ ]*)\.\.[ ]+(?:raw::|(?![_\[|]|[\w:.+-]+::)).*\n(?:\1[ ]+.*\n|[ ]*\n)*
    | ^[ ]*\.\.[ ]+(?:_.*:[ ]\S*|[\w:.+-]+::) | ^[ ]*:[\w -]+:(?=\s)
    | :[\w:+.-]+:(?=`) | [ ]<\S+>(?=`_)"""
)


def _markdown(data: bytes) -> str:
    return _FRONT.sub("", _decoded(data))


def _rst(data: bytes) -> str:
    """Without comments, raw markup, and the names of directives, options, roles and targets."""
    return _RST.sub(" ", _decoded(data))


def _decoded(data: bytes, declared: str = "") -> str:
    marks = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    marked = next((code for mark, code in marks.items() if data.startswith(mark)), "")
    try:
        return data.decode(marked or "utf-8")
    except UnicodeDecodeError:
        if not declared:
            raise NoReadingError("no plain reading (not UTF-8)") from None
        return data.decode(declared)


READINGS: dict[str, Callable[[bytes], str]] = {
    "pdf": _pdf,
    "docx": _office,
    "pptx": _office,
    "xlsx": _office,
    "html": _html,
    "csv": _csv,
    "ipynb": _notebook,
    "json": _json,
    "jsonl": _json_lines,
    "md": _markdown,
    "rst": _rst,
}
"""By format, in the order of the report: what makes text of a file's bytes."""
