"""Pieces of a context, each with its citation, and how they are written in each format."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import attrs
import regex

from triptych._internal.xml_text import attribute_text, element_text
from triptych.errors import ValidationError
from triptych.records import DerivedSig, Layer, StaleReason, to_layer
from triptych.records.serialization import to_dict
from triptych.text.labels import titles_of

if TYPE_CHECKING:
    from triptych.text.injection import Sign


@attrs.frozen(kw_only=True, slots=True)
class Citation:
    """The source of a piece of text and the text itself, so that it can be verified later.

    Attributes:
        dataset_id: the dataset.
        doc_name: the document; for a layer also a folder ("guide/") or the dataset itself ("").
        layer: L2 for the document's text, L0 or L1 for its abstract or overview.
        version: the document version of the text, or from which the layer was made; 0 for layers of
            folders and datasets.
        start: the start of the text, in code points of the document or the layer's text.
        end: the end of the text: ``content[start:end] == text`` at that version.
        lines: first and last line in the document, from 1; None for layers.
        heading_path: the headings above its start, outermost first.
        locator: the page, cell or slide in the original file; None if unknown.
        stale: None, or why the text may be out of date.
        text: the exact cited text.
    """

    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(default=Layer.DETAIL, converter=to_layer)
    version: int
    start: int
    end: int
    lines: tuple[int, int] | None = None
    heading_path: tuple[str, ...] = ()
    locator: str | None = None
    stale: StaleReason | None = None
    text: str = attrs.field(repr=False)

    def __str__(self) -> str:
        """Where it is from, for people: ``dataset/document:5-9  Heading > Heading``."""
        place = f"{self.dataset_id}/{self.doc_name}"
        if self.locator is not None:
            place += f", {self.locator}"
        elif self.lines is not None:
            first, last = self.lines
            place += f":{first}" if first == last else f":{first}-{last}"
        if self.layer is not Layer.DETAIL:
            place += f" {self.layer}"
        stale = f"  stale: {self.stale}" if self.stale else ""
        section = f"  {' > '.join(self.heading_path)}" if self.heading_path else ""
        return f"{place}{section}{stale}"


@attrs.frozen(kw_only=True, slots=True)
class Piece:
    """One passage of a pack.

    ``number`` is its rank: 1 is the best. ``cut`` tells whether the passage was shortened, at the
    end of a sentence, to fit the budget. ``score`` orders the pieces of one pack and has no other
    meaning. ``sig`` is the signature of the chunk or layer.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("signs",)

    number: int
    citation: Citation
    cut: bool = False
    score: float = 0.0
    sig: DerivedSig = attrs.field(factory=DerivedSig, repr=False, eq=False)

    @property
    def text(self) -> str:
        """The text of its citation."""
        return self.citation.text

    @property
    def signs(self) -> tuple[Sign, ...]:
        """Parts of the text that look like instructions to a model or are invisible to readers."""
        from triptych.text.injection import suspicious  # its patterns take a while to compile

        return suspicious(self.text)

    @property
    def sign_kinds(self) -> tuple[str, ...]:
        """The kinds of signs in its text and in the names that the model sees with it."""
        from triptych.text.injection import suspicious

        shown = "\n".join((self.citation.doc_name, *self.citation.heading_path))
        return tuple(dict.fromkeys(sign.kind for sign in (*self.signs, *suspicious(shown))))


@attrs.frozen(kw_only=True, slots=True)
class Verification:
    """The result of verifying a citation.

    Attributes:
        status: "fresh": the source contains the cited text, possibly at another position.
            "changed": the text differs now, or the layer is stale. "gone": the document was
            deleted, or nothing is left of the passage.
        citation: the verified citation.
        version: the document's current version, 0 if it was deleted.
        start: the current start of the passage in code points; None if it is gone.
        end: its current end.
        moved: whether the position has changed.
        stale: for a layer, why it is stale.
        text: the current text, "" if it is gone.
        diff: a unified diff from the cited to the current text; "" if they are equal.
    """

    status: Literal["fresh", "changed", "gone"]
    citation: Citation
    version: int = 0
    start: int | None = None
    end: int | None = None
    moved: bool = False
    stale: StaleReason | None = None
    text: str = attrs.field(default="", repr=False)
    diff: str = attrs.field(default="", repr=False)


WIDEST: Final = f"text-{'0a' * 6}"
"""A name with the maximum number of tokens: alternating letters and digits."""


def new_mark(texts: Iterable[str]) -> str:
    """A name of 48 random bits that is in none of ``texts``.

    Documents were written before it was drawn: none can close the delimiters.
    """
    texts = tuple(texts)
    while True:
        mark = f"text-{secrets.token_hex(6)}"
        if not any(mark in text for text in texts):
            return mark


def said(pieces: Iterable[Piece]) -> Iterator[str]:
    """All that documents say in a rendering."""
    for piece in pieces:
        yield from (piece.text, piece.citation.doc_name, *piece.citation.heading_path)


# What a reader may take for the end of a line, besides CR LF: str.splitlines has the same list.
_LINE_END: Final = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_STEERING: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069]")
_PLAIN_NAME: Final = regex.compile(r"[\p{L}\p{N}_./@+-]++(?: [\p{L}\p{N}_./@+-]++)*+", regex.V1)
_LONGEST_HEADING: Final = 80
_LONGEST_HEAD: Final = 200
_LAYERS: Final = {Layer.ABSTRACT: "abstract", Layer.OVERVIEW: "overview"}
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


@attrs.frozen(kw_only=True, slots=True)
class _Format:
    """How pieces are written one by one, between marks where there is one, and joined."""

    piece: Callable[[Piece, str], str]
    opening: str = ""
    joint: str = ""
    closing: str = ""


def check_format(format: object) -> str:
    """``format`` itself, if there is one of this name.

    Raises:
        ValidationError: there is none.
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise ValidationError(
            f"there is no format {format!r:.60}: choose one of {', '.join(map(repr, FORMATS))}"
        )
    return format


def in_reading_order(ranked: Sequence[Piece]) -> tuple[Piece, ...]:
    """Ranks 1, 3, 5, … and then …, 6, 4, 2: the best first, the second best last."""
    return (*ranked[::2], *reversed(ranked[1::2]))


def render_piece(piece: Piece, format: str, mark: str = "") -> str:
    """One piece with its header, as it stands in a rendering."""
    return FORMATS[format].piece(piece, mark)


def render(
    pieces: Sequence[Piece],
    format: str,
    budget: int,
    count: Callable[[str], int],
    mark: str = "",
) -> str:
    """The pieces in a format; "" where not even the empty frame is within the budget."""
    text = whole(pieces, format, mark)
    if not pieces and count(text) > budget:
        return ""
    return text


def fit(
    pieces: Sequence[Piece],
    format: str,
    budget: int,
    count: Callable[[str], int],
    mark: str = "",
) -> tuple[Piece, ...]:
    """The best of ``pieces`` whose rendering is within the budget, in reading order."""
    ranked = sorted(pieces, key=lambda piece: piece.number)
    # Counters need not be monotone: only what was counted whole is known to fit.
    while ranked:
        order = in_reading_order(ranked)
        if count(whole(order, format, mark)) <= budget:
            return order
        ranked.pop()
    return ()


def whole(pieces: Sequence[Piece], format: str, mark: str = "") -> str:
    """The pieces in a format, in the order in which they come, whatever that costs."""
    form = FORMATS[format]
    return form.opening + form.joint.join(form.piece(each, mark) for each in pieces) + form.closing


def _between(mark: str, section: str, body: str) -> str:
    """Between marks stands all that a document says: its headings, too."""
    if not mark:
        return body
    named = f"Section: {section}\n\n" if section else ""
    return f"<{mark}>\n{named}{body}\n</{mark}>"


def _text(piece: Piece, mark: str) -> str:
    if mark:
        body = _line_ends(_STEERING.sub(_REPLACEMENT, piece.text.strip("\r\n")))
        return f"{_header(piece, fenced=True)}\n{_between(mark, _section(piece), body)}\n"
    body = _LINE_END.sub(_indented, _STEERING.sub(_REPLACEMENT, piece.text.strip("\r\n")))
    return f"{_header(piece)}\n {body}\n"


def _indented(found: re.Match[str]) -> str:
    end = "\n" if found[0] in ("\r\n", "\r") else found[0]
    after = found.string[found.end() : found.end() + 1]
    # An empty line can be taken for nothing, and costs less without the blank.
    return end if after in ("\n", "\r") else f"{end} "


def _markdown(piece: Piece, mark: str) -> str:
    body = _line_ends(_STEERING.sub(_REPLACEMENT, piece.text.strip("\r\n")))
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    header = _header(piece, marked=True, fenced=bool(mark))
    return f"**{header}\n{fence}\n{_between(mark, _section(piece), body)}\n{fence}\n"


def _section(piece: Piece) -> str:
    """The titles, cut where they are long, and the whole head of a table, which says more."""
    path = piece.citation.heading_path
    titles = titles_of(path)
    heads = [_one_line(head, _LONGEST_HEAD) for head in path[len(titles) :]]
    return " > ".join(filter(None, [_one_line(" > ".join(titles)), *heads]))


def _header(piece: Piece, *, marked: bool = False, fenced: bool = False) -> str:
    """The one line that names a source; what a document may say comes last, if not in a fence."""
    cited = piece.citation
    place = _place(cited)
    if marked and place.startswith('"'):
        place = _escaped(place)
    parts = [f"[{piece.number}]{'**' if marked else ''} {place}"]
    if cited.layer in _LAYERS:
        parts.append(_LAYERS[cited.layer])
    if cited.version:
        parts.append(f"v{cited.version}")
    if cited.stale:
        parts.append(f"(stale: {cited.stale})")
    if piece.cut:
        parts.append("(cut)")
    line = " ".join(parts)
    if cited.heading_path and not fenced:
        section = _section(piece)
        line += f" | {_escaped(section) if marked else section}"
    return line


def _place(cited: Citation) -> str:
    """Dataset, name and lines (or locator), quoted where they could be taken for more."""
    name = f"{cited.dataset_id}/{cited.doc_name}"
    shown = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=True)
    if cited.locator is not None:
        return f"{shown} {json.dumps(_one_line(cited.locator), ensure_ascii=True)}"
    return shown if cited.lines is None else f"{shown}:{_lines(cited.lines)}"


def _lines(lines: Sequence[int]) -> str:
    return f"{lines[0]}" if lines[0] == lines[-1] else f"{lines[0]}-{lines[-1]}"


def _one_line(text: str, longest: int = _LONGEST_HEADING) -> str:
    line = " ".join(_STEERING.sub(_REPLACEMENT, _LINE_END.sub(" ", text)).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _escaped(line: str) -> str:
    return re.sub(r"([\\`*_\[\]<>~|&])", r"\\\1", line.replace(" > ", " › "))


def _line_ends(text: str) -> str:
    return re.sub("\r\n?", "\n", text)


def _xml(piece: Piece, mark: str) -> str:
    cited = piece.citation
    about = {
        "id": str(piece.number),
        "source": cited.doc_name,
        "dataset": cited.dataset_id,
        "version": str(cited.version) if cited.version else "",
        "layer": "" if cited.layer is Layer.DETAIL else str(cited.layer),
        "lines": "" if cited.lines is None else _lines(cited.lines),
        "locator": cited.locator or "",
        "section": "" if mark else _section(piece),
        "stale": cited.stale or "",
        "cut": "yes" if piece.cut else "",
    }
    attributes = " ".join(
        f'{key}="{attribute_text(value)}"'
        for key, value in about.items()
        if value or key in ("id", "source")
    )
    body = element_text(piece.text.strip("\r\n"))
    body = _between(mark, element_text(_section(piece)), body)
    return f"<document {attributes}>\n{body}\n</document>\n"


def _json(piece: Piece, mark: str) -> str:
    """A piece for a prompt: fields without a value are left out."""
    cited = {
        key: value for key, value in to_dict(piece.citation).items() if value not in (None, [])
    }
    shown = {"number": piece.number, "citation": cited} | ({"cut": True} if piece.cut else {})
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


FORMATS: Final = {
    "text": _Format(piece=_text, joint="\n"),
    "markdown": _Format(piece=_markdown, joint="\n"),
    "xml": _Format(piece=_xml, opening="<context>\n", closing="</context>\n"),
    "json": _Format(piece=_json, opening='{"pieces":[', joint=",\n", closing="]}\n"),
}
"""The formats by name."""
