"""An answer for a person: citations in colour, and a footnote for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from triptych_adapters.cli.output import visible
from triptych_adapters.cli.source_files import SourceFiles, shown_path

if TYPE_CHECKING:
    from triptych.answering import Answer, CitedSource

__all__ = ["footnotes", "styled"]

_CITED = re.compile(r"\[[0-9][0-9,;、 –-]*\]")


def styled(piece: str) -> Text:
    """A piece of an answer, without what could steer a terminal."""
    text = Text(visible(piece))
    text.highlight_regex(_CITED, "cyan")
    return text


def footnotes(answer: Answer, files: SourceFiles) -> list[Text]:
    """A line for each source that the answer cites: its number, file, lines and section."""
    return [_footnote(source, files) for source in answer.citations]


def _footnote(source: CitedSource, files: SourceFiles) -> Text:
    cited = source.citation
    path = files.path(cited.dataset_id, cited.doc_name)
    name = cited.doc_name or f"[{cited.dataset_id}]"
    place = name if path is None else shown_path(path)
    if cited.locator:
        # A locator says that the text was extracted: its lines are those of the file, if any.
        words = f", {cited.locator}"
        place += words if path is None else re.sub("^, lines? ", ":", words)
    elif cited.lines is not None:
        first, last = cited.lines[0], cited.lines[-1]
        place += f":{first}" if first == last else f":{first}-{last}"
    else:
        place += f" {cited.layer}"
    link = None if path is None else path.as_uri()
    line = Text.assemble(
        (f"[{source.number}]", "cyan"),
        " ",
        (visible(place), Style(bold=True, link=link)),
    )
    if cited.heading_path:
        line.append(f"  {visible(' > '.join(cited.heading_path))}", style="italic")
    if cited.stale is not None:
        line.append(f"  stale: {cited.stale}", style="yellow")
    if signs := dict.fromkeys(sign.kind for sign in source.piece.signs):
        line.append(f"  written for models? {', '.join(signs)}", style="yellow")
    return line
