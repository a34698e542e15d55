"""The package of a Word, PowerPoint or Excel file (ECMA-376, part 2): its parts and their words."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias
from xml.etree import ElementTree

from triptych.errors import ParseError
from triptych.parsing import markdown_safe, omission, one_line, words
from triptych.records import Omission
from triptych_parsers.number_formats import shown_number
from triptych_parsers.worker import Reading

Element = ElementTree.Element
Parts: TypeAlias = Mapping[str, tuple[str, str]]
"""By the id of a relation, its kind and the path of the part that it leads to."""

_SMALL = 1 << 20  # what unpacks to less is harmless at any ratio
_DOCTYPES = tuple("<!DOCTYPE".encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be"))
# The namespaces of ISO 29500 Strict are those of all other files without a year.
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
_OPEN = rb"http://schemas.openxmlformats.org/\1/2006/"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"

PAGE_NUMBER = "\x0e"
"""Stands in `plain_text` for the number of a page or slide; no text has it."""
NUMBERING = frozenset(words("page of slide Seite von página pagina pág de di sur sida av"))
"""The words of a line that says no more than a page's number."""
_NUMBERED = re.compile(r"\s*(PAGE|NUMPAGES|SECTIONPAGES)\b", re.IGNORECASE)
SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
SIGNS |= {"den": "/", "sup": "^", "d": "("}  # of fractions, powers, and terms in parentheses
"""By an element's name, what stands for it or before its text."""
ENDS = {"p": "\n", "d": ")"}
"""By an element's name, what stands after its text."""
_TRACKED = ("del", "moveFrom", "delText", "delInstrText")
_UNUSED = ("pPr", "rPr", "sectPr", "tblPr", "tblGrid", "trPr", "tcPr", "ffData", "instrText")
UNSEEN = frozenset((*_TRACKED, *_UNUSED, "rt", "rPh", "Fallback"))
"""The elements whose text nobody sees, or that have none."""


def check_package(reading: Reading) -> zipfile.ZipFile:
    """Refuse an archive that unpacks to too much, or whose XML declares entities.

    zipfile reads no more of a member than its directory entry says, so that the sizes there
    hold whatever the packed data is. ECMA-376 (part 2) forbids document type declarations.
    """
    name, limits = reading.name, reading.limits
    try:
        archive = zipfile.ZipFile(io.BytesIO(reading.data))
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise ParseError(
            f"{name!r} is damaged, or no office file ({error}): open it in the program that made "
            "it, and save it again"
        ) from error
    members = archive.infolist()
    if len(members) > limits.max_members:
        raise ParseError(f"{name!r} holds {len(members):,} files, more than {limits.max_members:,}")
    if sum(member.file_size for member in members) > limits.max_unpacked:
        raise ParseError(
            f"{name!r} unpacks to more than {limits.max_unpacked:,} bytes: split it, or raise "
            "max_unpacked of ParseLimits"
        )
    for member in members:
        if member.flag_bits & 1:
            raise ParseError(f"{name!r} is encrypted: save a copy without a password")
        if member.file_size > max(_SMALL, limits.max_ratio * member.compress_size):
            raise ParseError(
                f"{name!r} looks like a zip bomb: {member.filename!r} unpacks to "
                f"{member.file_size:,} bytes from {member.compress_size:,}. If it can be "
                "trusted, raise max_ratio of ParseLimits"
            )
    return archive


class Package:
    """The parts of the file that ``reading`` is of.

    A part that is damaged, other than the main one, becomes an omission of the reading.

    Raises:
        ParseError: it is damaged or hostile, or has no main part.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._archive = check_package(reading)
        self._names = {name.lower(): name for name in self._archive.namelist()}
        self.path = next(iter(self.targets("", "officeDocument")), "")

    def data(self, path: str) -> bytes | None:
        """The XML of a part, in the usual namespaces; None if the package lacks it."""
        name = self._names.get(path.lower())
        if name is None:
            return None
        data = self._archive.read(name)
        if any(mark in data for mark in _DOCTYPES):
            raise ParseError(
                f"{self.reading.name!r} declares a document type in {name!r}, which no office "
                "program does: it is not read"
            )
        return _STRICT.sub(_OPEN, data) if b"purl.oclc.org" in data else data

    def root(self, path: str) -> Element | None:
        """The root of a part; None if there is none to be had."""
        try:
            data = self.data(path)
            return None if data is None else ElementTree.fromstring(data)
        except (ElementTree.ParseError, zipfile.BadZipFile, zlib.error) as error:
            self.leave_out(path, f"damaged: {error}")
            return None

    def leave_out(self, place: str, reason: str, missing: Iterable[str] | None = None) -> None:
        """Name the words ``missing`` of a place, if there are any; None is a place without text."""
        nothing = Omission(place=place, words=0, reason=reason)
        found = nothing if missing is None else omission(place, [*missing], reason)
        self.reading.omissions += [found] if found else []

    @cached_property
    def main(self) -> Element:
        """The root of the main part."""
        data = self.data(self.path)
        if data is None:
            raise ParseError(
                f"{self.reading.name!r} is damaged, or is not a file of this format: it has no "
                "main part. Open it in the program that made it, and save it again"
            )
        return ElementTree.fromstring(data)

    def relations(self, path: str) -> dict[str, tuple[str, str]]:
        """By its id, the kind and path of each part that the part at ``path`` names."""
        folder, _, name = path.rpartition("/")
        found: dict[str, tuple[str, str]] = {}
        root = self.root(posixpath.join(folder, "_rels", f"{name}.rels"))
        for each in () if root is None else root:
            target = each.get("Target", "")
            if target and each.get("TargetMode") != "External":
                kind = each.get("Type", "").rpartition("/")[2]
                place = posixpath.normpath(posixpath.join("/", folder, target))
                found[each.get("Id", "")] = (kind, place.lstrip("/"))
        return found

    def targets(self, path: str, *kinds: str) -> list[str]:
        """The paths of the parts of these kinds that the part at ``path`` names."""
        return [place for kind, place in self.relations(path).values() if kind in kinds]

    def describe(self, usual: str = "") -> None:
        """Take the title over, unless it is the ``usual`` one of a program."""
        for path in self.targets("", "core-properties"):
            root = self.root(path)
            title = "" if root is None else root.findtext("{*}title") or ""
            if (shown := one_line(title)) and shown != usual:
                self.reading.metadata["title"] = shown[:300]
        self.reading.metadata["kind"] = "markdown"


def tag(element: Element) -> str:
    """The element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def attribute(element: Element | None, name: str, default: str = "") -> str:
    """The attribute of this name, whatever its namespace."""
    items = () if element is None else element.items()
    return next((value for key, value in items if key.rpartition("}")[2] == name), default)


def chosen(element: Element) -> Element:
    """``element``; of mc:AlternateContent, which says one thing for each program, the first."""
    if tag(element) != "AlternateContent":
        return element
    drawn = ("chart", "relIds")
    shown = (
        each
        for each in element
        if plain_text(each).strip() or any(tag(inner) in drawn for inner in each.iter())
    )
    return next(shown, element)


def is_deleted(element: Element) -> bool:
    """Whether it is a table's row whose deletion is tracked."""
    return tag(element) == "tr" and element.find("{*}trPr/{*}del") is not None


def plain_text(element: Element) -> str:
    """All text that a person sees in ``element``, whatever holds it; each paragraph is a line."""
    pieces: list[str] = []
    _collect(element, pieces, [False])
    return "".join(pieces)


def _collect(element: Element, pieces: list[str], numbered: list[bool]) -> None:
    """Add the text; ``numbered`` says whether it is a page's number, to the paragraph's end."""
    for child in element:
        name = tag(child)
        if name == "instrText" and _NUMBERED.match(child.text or ""):
            numbered[0] = True
            pieces.append(PAGE_NUMBER)
        if name in UNSEEN or is_deleted(child):
            continue
        if name in SIGNS:
            pieces.append(SIGNS[name])
        elif name == "t" and not numbered[0]:
            pieces.append(child.text or "")
        elif name == "fldChar" and attribute(child, "fldCharType") == "end":
            numbered[0] = False
        elif is_page_number(child):
            pieces.append(PAGE_NUMBER)
            continue
        elif tag(element) == "mr":  # a row of a matrix
            pieces.append(" ")
        _collect(chosen(child), pieces, numbered)
        numbered[0] &= name != "p"
        pieces.append(ENDS.get(name, ""))


def is_page_number(element: Element) -> bool:
    """Whether it is a field with the number of the page or slide."""
    name = tag(element)
    if name == "fld":
        return element.get("type") == "slidenum"
    return name == "fldSimple" and bool(_NUMBERED.match(attribute(element, "instr")))


def lines_of(element: Element | None) -> list[str]:
    """The paragraphs of ``element`` that hold words, without those that only number pages."""
    found = [] if element is None else plain_text(element).split("\n")
    return [
        one_line(line.replace(PAGE_NUMBER, ""))
        for line in found
        if line.strip() and (PAGE_NUMBER not in line or not NUMBERING.issuperset(words(line)))
    ]


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows of cells that hold anything; the first of several is the table's head."""
    filled = [[cell.replace("|", "\\|") for cell in cells] for cells in rows if any(cells)]
    lines = [f"| {' | '.join(cells)} |" for cells in filled]
    if len(lines) > 1:
        lines.insert(1, "|" + " --- |" * len(filled[0]))
    return "\n".join(lines)


CHART = "Chart:"
_MOST_POINTS = 200  # a chart of more is a cloud of dots


def drawn_text(element: Element, package: Package, parts: Parts) -> str:
    """The text of what is drawn by ``element``: a chart, a diagram, a shape, letters as a shape.

    ``parts`` are the relations of the part that it stands in.
    """
    name = tag(element)
    if name == "textpath":
        return one_line(attribute(element, "string"))
    if name == "txBody":
        return "\n".join(lines_of(element))
    if name == "relIds":  # a diagram ("SmartArt")
        lines = lines_of(package.root(parts.get(attribute(element, "dm"), ("", ""))[1]))
        return "\n".join(f"- {markdown_safe(line)}" for line in lines)
    if name == "chart" and (root := package.root(parts.get(attribute(element, "id"), ("", ""))[1])):
        shown = "\n\n".join(filter(None, _chart(root)))
        return "" if shown == CHART else shown
    return ""


def drawn_texts(
    parent: Element, package: Package, parts: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """The text of all that is drawn in ``parent``; see `drawn_text`."""
    for child in parent:
        if text := drawn_text(child, package, parts):
            yield text
        else:
            yield from drawn_texts(chosen(child), package, parts)


def _chart(root: Element) -> Iterator[str]:
    """A chart's titles and series, and its values as a table, or only the categories of many."""
    texts = [each for each in root.iter() if tag(each) in ("title", "dLbl")]
    titles = [one_line(plain_text(each)) for each in texts]
    titles += [
        value for each in root.iter() if tag(each) == "title" for value in _values(each, "tx")
    ]
    series = [each for each in root.iter() if tag(each) == "ser"]
    names = [" ".join(_values(each, "tx")) for each in series]
    yield f"{CHART} {', '.join(filter(None, [*titles, *names]))}".strip()
    categories: dict[int, str] = {}
    for each in series:
        categories |= _points(each, "cat") or _points(each, "xVal")
    if len(categories) * len(series) <= _MOST_POINTS:
        values = [_points(each, "val") or _points(each, "yVal") for each in series]
        rows = [[shown, *(each.get(at, "") for each in values)] for at, shown in categories.items()]
        yield markdown_table([["", *names], *rows])
    else:
        yield ", ".join(categories.values())


def _values(parent: Element, kind: str) -> list[str]:
    return [*_points(parent, kind).values()]


def _points(series: Element, kind: str) -> dict[int, str]:
    """By its index, each saved value of a series' name, categories or values."""
    found: dict[int, str] = {}
    for group in series.findall(f"{{*}}{kind}"):
        code = group.findtext(".//{*}formatCode", "")
        for at, point in enumerate(each for each in group.iter() if tag(each) == "pt"):
            value = one_line(point.findtext("{*}v", ""))
            place = whole_number(point.get("idx", "")) or at
            value = shown_number(value, code) if code else value
            found[place] = f"{value} {found.get(place, '')}".strip()  # several levels
        if not found and (value := one_line(group.findtext("{*}v", ""))):
            found[0] = value
    return found


def whole_number(text: str, most: int = 1 << 20) -> int:
    """The number that ``text`` is, from 0 to ``most``; 0 for what is none."""
    return min(int(text) if len(text) < 10 else most, most) if text.isdecimal() else 0


def is_worse(missing: int, shown: str) -> bool:
    """Whether a reading that lacks so many words of the text ``shown`` is worse than this text."""
    return missing > 3 and missing * 50 > len(words(shown))
