"""Hits for a person: grouped by document, each with its place and the text around the match."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
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

__all__ = ["HitView", "grouped", "place_of", "render_hits", "views_of"]

_INDENT = "    "
_LEAST_WIDTH = 20
_MOST_WIDTH = 100
"""Longer lines are hard to read."""


@attrs.frozen(kw_only=True)
class HitView:
    """A hit, its rank from 1, the file it came from, and what ``--explain`` says of it."""

    hit: Hit
    rank: int
    path: Path | None = None
    explanation: Sequence[str] = ()


def grouped(views: Sequence[HitView]) -> list[list[HitView]]:
    """The hits of each document together, the document with the best hit first."""
    first: dict[tuple[str, str], int] = {}
    for view in views:
        first.setdefault((view.hit.dataset_id, view.hit.doc_name), view.rank)
    ordered = sorted(views, key=lambda each: first[each.hit.dataset_id, each.hit.doc_name])
    return [
        list(group)
        for _, group in groupby(ordered, key=lambda each: (each.hit.dataset_id, each.hit.doc_name))
    ]


def views_of(hits: Sequence[Hit], files: SourceFiles) -> list[HitView]:
    """The hits with their ranks and files."""
    return [
        HitView(hit=hit, rank=rank, path=files.path(hit.dataset_id, hit.doc_name))
        for rank, hit in enumerate(hits, start=1)
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
    return f"{name}, {hit.locator}" if hit.locator else f"{name}:{hit.start_line}"


def render_hits(views: Sequence[HitView], *, width: int, show_dataset: bool) -> list[Text]:
    """The lines of an answer, none wider than ``width`` cells but for a place that is.

    The hits of a document stand together; a blank line parts documents.
    """
    lines: list[Text] = []
    for group in grouped(views):
        if lines:
            lines.append(Text())
        for view in sorted(group, key=lambda each: each.rank):
            lines += _heading(view, width, show_dataset=show_dataset)
            room = min(max(width - len(_INDENT), _LEAST_WIDTH), _MOST_WIDTH)
            lines += [
                Text.assemble(_INDENT, line)
                for line in excerpt(view.hit.content, view.hit.terms, width=room)
            ]
            lines += [Text(f"{_INDENT}{each}", style="dim") for each in view.explanation]
    return lines


def _heading(view: HitView, width: int, *, show_dataset: bool) -> list[Text]:
    """The place, then what is known of the hit; on lines of their own what does not fit."""
    hit = view.hit
    style = Style(bold=True, color="cyan", link=None if view.path is None else view.path.as_uri())
    line = Text(visible(place_of(view)), style=style)
    parts = []
    if view.path is not None and not view.path.as_posix().endswith(f"/{hit.doc_name}"):
        parts.append(Text(visible(hit.doc_name), style="dim"))
    if show_dataset and hit.doc_name:
        parts.append(Text(f"[{visible(hit.dataset_id)}]", style="dim"))
    if hit.heading_path:
        parts.append(Text(visible(" > ".join(hit.heading_path)), style="italic"))
    parts.append(Text(f"#{view.rank}", style="dim"))
    if hit.stale is not None:
        parts.append(Text(f"stale: {hit.stale}", style="yellow"))
    if signs := dict.fromkeys(sign.kind for sign in hit.signs):
        parts.append(Text(f"written for models? {', '.join(signs)}", style="yellow"))
    lines = [line]
    for part in parts:
        if cell_len(lines[-1].plain) + 2 + cell_len(part.plain) <= width:
            lines[-1] = Text.assemble(lines[-1], "  ", part)
        else:
            part.truncate(max(width - len(_INDENT), _LEAST_WIDTH), overflow="ellipsis")
            lines.append(Text.assemble(_INDENT, part))
    return lines
