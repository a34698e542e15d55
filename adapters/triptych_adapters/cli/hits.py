"""Printing hits: each with its position and the text around the match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from triptych.errors import NotAvailableError, NotFoundError
from triptych_adapters.cli.names import SourceFiles, shown_path
from triptych_adapters.cli.output import visible

if TYPE_CHECKING:
    from triptych.records import Hit
    from triptych.service import KnowledgeBase

MATCH_STYLE = "bold magenta"
_ELLIPSIS = "…"
_WORD = re.compile(r"\S+")
_LEAD = re.compile(r"[ \t]*+(?:[-*+>] |\d{1,3}[.)] )?")
_INK = re.compile(r"[^ \t\r\n]")
_GOES_ON = re.compile(r" {0,4}(?!\* |\(?[a-z][.)] )[a-z(`*\"]")  # no item of a list
_PROSE_WORDS = 7
_USUAL_WIDTH = 76
_BROKEN_AT = 60
"""Characters from which on a line may have been broken because it was full."""

_Line = tuple[int, int, int]
"""Where a line begins and ends in the text, and its indent."""


def excerpt(content: str, terms: Sequence[str], *, width: int, lines: int = 5) -> list[Text]:
    """Return at most ``lines`` lines of ``content`` that hold most of ``terms``, highlighted.

    Each line is at most ``width`` cells wide. The lines stand together in the content, blank ones
    left out, with the matches in their middle. Where something was cut off, ``…`` says so. Without
    a match they are the first ones.
    """
    from triptych.text import matches

    text = _flowing(visible(content))
    found = matches(text, terms)
    # Room for an ellipsis before and after.
    spans = list(_wrapped(text, max(width - 2 * (len(_ELLIPSIS) + 1), 1)))
    if not spans:
        return []
    first, last = _best(spans, found, lines)
    shown = []
    for at in range(first, last):
        start, end, indent = spans[at]
        line = Text(text[start:end])
        for begins, ends, _ in found:
            if begins < end and ends > start:
                line.stylize(MATCH_STYLE, max(begins, start) - start, min(ends, end) - start)
        cut = f"{_ELLIPSIS} " if at == first and first > 0 else ""
        line = Text.assemble(" " * indent + cut, line)
        if at == last - 1 and last < len(spans):
            line = Text.assemble(line, f" {_ELLIPSIS}")
        shown.append(line)
    return shown


def match_offset(content: str, terms: Sequence[str]) -> int:
    """Where the match stands that an excerpt of one line shows first; 0 without a match."""
    from triptych.text import matches

    text = _flowing(visible(content))
    if not (found := matches(text, terms)):
        return 0
    spans = list(_wrapped(text, _USUAL_WIDTH))
    line = spans[_best(spans, found, 1)[0]]
    at = next(begins for begins, ends, _ in found if ends > line[0])
    # What flows has other white space, and the same characters between.
    return next(islice(_INK.finditer(content), len(_INK.findall(text, 0, at)), None)).start()


def _best(
    spans: Sequence[_Line], found: Sequence[tuple[int, int, int]], lines: int
) -> tuple[int, int]:
    """The first and last of ``lines`` spans with most terms, the matched ones in the middle."""
    held = [
        {number for begins, ends, number in found if begins < end and ends > start}
        for start, end, _ in spans
    ]
    most, chosen = (0, -len(spans)), (0, 0)
    for first in range(len(spans)):
        if not held[first]:
            continue
        seen: set[int] = set()
        last = first
        for at in range(first, min(first + lines, len(spans))):
            if held[at] - seen:
                seen |= held[at]
                last = at
        # Of lines with as many terms, those that stand closest.
        if (held_here := (len(seen), first - last)) > most:
            most, chosen = held_here, (first, last)
    first, last = chosen
    before = (lines - (last - first + 1)) // 2
    first = max(0, min(first - before, len(spans) - lines))
    return first, min(first + lines, len(spans))


def _wrapped(text: str, width: int) -> Iterator[_Line]:
    """The lines of ``text`` when none may be wider than ``width`` cells.

    What goes on from the line before hangs below its text.
    """
    position = 0
    for line in text.splitlines(keepends=True):
        lead = _LEAD.match(line)
        hang = min(lead.end() if lead else 0, width // 4)
        indent = min(len(line) - len(line.lstrip(" \t")), width // 4)
        start = end = -1
        for word in _WORD.finditer(line):
            for begins, ends in _pieces(line, word.start(), word.end(), width - hang):
                if start >= 0 and indent + cell_len(line[start:ends]) > width:
                    yield position + start, position + end, indent
                    start, indent = -1, hang
                start = begins if start < 0 else start
                end = ends
        if start >= 0:
            yield position + start, position + end, indent
        position += len(line)


def _pieces(line: str, start: int, end: int, width: int) -> Iterator[tuple[int, int]]:
    """A word, or parts of one that is too wide: as in scripts without spaces."""
    while cell_len(line[start:end]) > width:
        cut = start + 1
        room = width - cell_len(line[start])
        while cut < end and (room := room - cell_len(line[cut])) >= 0:
            cut += 1
        yield start, cut
        start = cut
    yield start, end


def _flowing(text: str) -> str:
    """``text`` with the lines of a paragraph joined, where its writer broke them at a width."""
    lines = text.split("\n")
    joined = lines[:1]
    for before, line in pairwise(lines):
        goes_on = _GOES_ON.match(line) and len(before.split()) >= _PROSE_WORDS
        if goes_on and len(before) >= _BROKEN_AT and not before.startswith(("#", "|", "    ")):
            joined[-1] = f"{joined[-1].rstrip()} {line.lstrip()}"
        else:
            joined.append(line)
    return "\n".join(joined)


_LINE = re.compile(r"lines? (\d+)")
_INDENT = "    "
_LEAST_WIDTH = 20
_MOST_WIDTH = 100
"""Longer lines are hard to read."""
_MOST_LINES = 5
_OTHER_ROWS = 4
"""Of a screen: for the prompts before and after an answer, and a remark or two."""


@attrs.frozen(kw_only=True)
class HitView:
    """A hit, its rank from 1, and where it is.

    ``path`` is the file it came from, ``line`` and ``label`` say where in it.
    """

    hit: Hit
    rank: int
    path: Path | None = None
    line: int = 1
    label: str = ""


def views_of(hits: Sequence[Hit], files: SourceFiles) -> list[HitView]:
    """The hits with their ranks, and the files and places in them."""
    views = []
    for rank, hit in enumerate(hits, start=1):
        path = files.path(hit.dataset_id, hit.doc_name)
        line, label = _spot(hit, files)
        views.append(HitView(hit=hit, rank=rank, path=path, line=line, label=label))
    return views


def _spot(hit: Hit, files: SourceFiles) -> tuple[int, str]:
    """Where in its file a hit matches best: the line, from 1; else the place in words.

    Words are for what is not read by lines ("page 3"), and where the file is not here.
    """
    if hit.locator is None or hit.layer is None:
        return matched_line(hit), ""
    place = _located(hit, files.service) or hit.locator
    line = _LINE.match(place) if files.path(hit.dataset_id, hit.doc_name) else None
    return (1, place) if line is None else (int(line[1]), "")


def _located(hit: Hit, service: KnowledgeBase) -> str | None:
    """The place of the match in words; None where the hit's version is no longer kept."""
    from triptych.chunking.outline import read_outline

    at = hit.start + match_offset(hit.content, hit.terms)
    with suppress(NotFoundError, NotAvailableError):
        document = service.get_document(hit.dataset_id, hit.doc_name, hit.version)
        outline = read_outline(document.system.outline, document.content)
        return None if outline is None else outline.locate(document.content, at, at + 1)
    return None


def matched_line(hit: Hit) -> int:
    """The line of the document, from 1, where a hit matches best."""
    from triptych.chunking.outline import LineEnds

    return hit.start_line + LineEnds(hit.content).between(0, match_offset(hit.content, hit.terms))


def place_of(view: HitView) -> str:
    """Where a hit is, as terminals and editors read it: the file or the document, and the line."""
    hit = view.hit
    # A dataset's own layers have no document.
    name = hit.doc_name or f"[{hit.dataset_id}]"
    name = name if view.path is None else shown_path(view.path)
    if hit.layer is None:
        return name
    if hit.chunk_index < 0:
        return f"{name} {hit.layer}"
    return f"{name}, {view.label}" if view.label else f"{name}:{view.line}"


def render_hits(
    views: Sequence[HitView],
    *,
    width: int,
    show_dataset: bool,
    height: int | None = None,
    marked: bool = False,
    weak_from: int | None = None,
) -> list[Text]:
    """The lines of an answer, the best hit first: its place, then up to five lines of its text.

    None is wider than ``width`` cells but for a long place and its section. With ``height`` they
    fit a screen of so many rows, if one line of each hit does. With ``marked`` a line says from
    where on no hit holds a word of the query, and one stands before the hit at ``weak_from``.
    """
    shown: list[Text] = []
    room = min(max(width - len(_INDENT), _LEAST_WIDTH), _MOST_WIDTH)
    lines = _MOST_LINES
    if height is not None and views:
        lines = min(max((height - _OTHER_ROWS) // len(views) - 1, 1), lines)
    wordless = len(list(takewhile(is_wordless, reversed(views)))) if marked else 0
    for at, view in enumerate(views):
        if wordless and at == len(views) - wordless:
            shown.append(Text(f"-- no word of the query from #{view.rank} on --", style="yellow"))
        elif at == weak_from:
            shown.append(Text("-- weak from here on --", style="yellow"))
        shown.append(_heading(view, width, show_dataset=show_dataset))
        text = excerpt(_body(view.hit), view.hit.terms, width=room, lines=lines)
        shown += [Text.assemble(_INDENT, line) for line in text]
    return shown


def is_wordless(view: HitView) -> bool:
    """Whether a chunk or layer was found by its vector, and holds no term of the query."""
    from triptych.text import matches

    hit = view.hit
    if not hit.terms or hit.layer is None or "vector" not in hit.scores or "bm25" in hit.scores:
        return False
    return not matches("\n".join((*hit.heading_path, hit.doc_name, hit.content)), hit.terms)


def _body(hit: Hit) -> str:
    """The text without its first lines where they are headings: the line above names them."""
    text = hit.content
    while (line := text.partition("\n"))[2].strip() and (
        not line[0].strip() or line[0].strip("# \r") in hit.heading_path
    ):
        text = line[2]
    return text


def web_page(hit: Hit) -> str | None:
    """The address of the page that a hit is of; None where it is of none."""
    url = str(hit.metadata.get("source_url", ""))
    return url if url.startswith(("http://", "https://")) else None


def _heading(view: HitView, width: int, *, show_dataset: bool) -> Text:
    """The place, and what is known of the hit; the section and the name are cut to fit."""
    hit = view.hit
    link = web_page(hit) if view.path is None else view.path.as_uri()
    style = Style(bold=True, color="cyan", link=link)
    line = Text(visible(place_of(view)), style=style)
    known = [Text(f"#{view.rank}", style="dim")]
    if show_dataset and hit.doc_name:
        known.insert(0, Text(f"[{visible(hit.dataset_id)}]", style="dim"))
    if hit.stale is not None:
        known.append(Text(f"stale: {hit.stale}", style="yellow"))
    if signs := dict.fromkeys(sign.kind for sign in hit.signs):
        known.append(Text(f"written for models? {', '.join(signs)}", style="yellow"))
    left = width - cell_len(line.plain) - sum(cell_len(each.plain) + 2 for each in known)
    section = Text(visible(" > ".join(hit.heading_path)), style="italic")
    name = Text("", style="dim")
    if view.path is not None and not view.path.as_posix().endswith(f"/{hit.doc_name}"):
        name = Text(visible(hit.doc_name), style="dim")
    section.truncate(max(left - 2, _LEAST_WIDTH), overflow="ellipsis")
    left -= cell_len(section.plain) + 2
    name.truncate(left - 2 if left > _LEAST_WIDTH else 0)
    for part in (name, section, *known):
        if part.plain:
            line = Text.assemble(line, "  ", part)
    return line
