"""Hits for a person, the best first: each with its place and the text around the match."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from triptych_adapters.cli.excerpts import excerpt
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.source_files import SourceFiles, shown_path

if TYPE_CHECKING:
    from triptych.records import Hit

_INDENT = "    "
_LEAST_WIDTH = 20
_MOST_WIDTH = 100
"""Longer lines are hard to read."""
_MOST_LINES = 5
_OTHER_ROWS = 4
"""Of a screen: for the prompts before and after an answer, and a remark or two."""


@attrs.frozen(kw_only=True)
class HitView:
    """A hit, its rank from 1, where it is, and what ``--explain`` says of it.

    ``path`` is the file it came from, ``line`` and ``label`` are of `SourceFiles.spot`.
    """

    hit: Hit
    rank: int
    path: Path | None = None
    line: int = 1
    label: str = ""
    explanation: Sequence[str] = ()


def views_of(hits: Sequence[Hit], files: SourceFiles) -> list[HitView]:
    """The hits with their ranks, and the files and places in them."""
    return [
        HitView(hit=hit, rank=rank, path=path, line=line, label=label)
        for rank, hit in enumerate(hits, start=1)
        for path in [files.path(hit.dataset_id, hit.doc_name)]
        for line, label in [files.spot(hit)]
    ]


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
) -> list[Text]:
    """The lines of an answer, the best hit first: its place, then up to five lines of its text.

    None is wider than ``width`` cells but for a long place and its section. With ``height`` they
    fit a screen of so many rows, if one line of each hit does. With ``marked`` a line says from
    where on no hit holds a word of the query.
    """
    shown: list[Text] = []
    room = min(max(width - len(_INDENT), _LEAST_WIDTH), _MOST_WIDTH)
    lines = _MOST_LINES
    if height is not None and views:
        lines = min(max((height - _OTHER_ROWS) // len(views) - 1, 1), lines)
    wordless = len(list(takewhile(_is_wordless, reversed(views)))) if marked else 0
    for at, view in enumerate(views):
        if wordless and at == len(views) - wordless:
            shown.append(Text(f"-- no word of the query from #{view.rank} on --", style="yellow"))
        shown.append(_heading(view, width, show_dataset=show_dataset))
        text = excerpt(_body(view.hit), view.hit.terms, width=room, lines=lines)
        shown += [Text.assemble(_INDENT, line) for line in text]
        shown += [Text(f"{_INDENT}{each}", style="dim") for each in view.explanation]
    return shown


def _is_wordless(view: HitView) -> bool:
    """Whether a chunk or layer was found by its vector, and holds no term of the query."""
    from triptych.text import matches

    hit = view.hit
    if not hit.terms or hit.layer is None or "vector" not in hit.scores or "bm25" in hit.scores:
        return False
    return not matches("\n".join((*hit.heading_path, hit.content)), hit.terms)


def _body(hit: Hit) -> str:
    """The text without its first lines where they are headings: the line above names them."""
    text = hit.content
    while (line := text.partition("\n"))[2].strip() and (
        not line[0].strip() or line[0].strip("# \r") in hit.heading_path
    ):
        text = line[2]
    return text


def _heading(view: HitView, width: int, *, show_dataset: bool) -> Text:
    """The place, and what is known of the hit; the section and the name are cut to fit."""
    hit = view.hit
    style = Style(bold=True, color="cyan", link=None if view.path is None else view.path.as_uri())
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
