"""The file on disk that a document came from, and the editor that opens it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from triptych_adapters.cli.excerpts import match_offset

if TYPE_CHECKING:
    from triptych.chunking.outline import Outline
    from triptych.records import DocumentInfo, Hit
    from triptych.service import Service
    from triptych_factory import Settings

__all__ = [
    "SourceFiles",
    "editor_command",
    "matched_line",
    "open_file",
    "shown_lines",
    "shown_path",
]

_PLUS_LINE = frozenset(
    (
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "emacs", "emacsclient"),
        *("kak", "sensible-editor"),
    )
)
_USUAL = ("sensible-editor", "nano", "vim", "vi", "xdg-open", "open")
_COLON_LINE = frozenset(["subl", "zed", "hx", "helix"])
_GOTO = frozenset(["code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"])
_LINES = re.compile(r"lines? (\d+)(?:-(\d+))?")
_PAGE = re.compile(r"pages? (\d+)")
_VIEWERS = {"evince": "--page-label=", "okular": "--page=", "zathura": "--page=", "mupdf": ""}
"""Viewers of PDF, and the option that opens a page; the last takes it after the file."""
_DESKTOP = ("xdg-open", "open", "explorer")


@attrs.define
class SourceFiles:
    """Finds the files of documents that a sync brought in.

    A document carries the key of its root; the folders of the roots are remembered beside the
    store.
    """

    service: Service
    settings: Settings
    _found: dict[tuple[str, str], Path | None] = attrs.field(factory=dict, init=False)
    _find: Callable[[DocumentInfo], Path | None] | None = attrs.field(default=None, init=False)
    _outlines: dict[tuple[str, str, int], tuple[Outline | None, str]] = attrs.field(
        factory=dict, init=False
    )

    def path(self, dataset_id: str, name: str) -> Path | None:
        """The file of a document, None where it came from none, or the file is gone."""
        place = dataset_id, name
        if place not in self._found:
            self._found[place] = self._look_up(dataset_id, name)
        return self._found[place]

    def spot(self, hit: Hit) -> tuple[int, str]:
        """Where in its file a hit matches best: the line, from 1, and "" or the place in words.

        Words are for what is not read by lines ("page 3"), and for a line of a file that is not
        here, where the stored text has other lines.
        """
        line = matched_line(hit)
        if hit.locator is None or hit.layer is None:
            return line, ""
        lines = _LINES.fullmatch(hit.locator)
        first = str(hit.start_line)
        if lines and (lines[1], lines[2] or first) == (first, str(hit.end_line)):
            return line, ""  # the text is that of the file
        label = self._located(hit) or hit.locator
        if (lines := _LINES.fullmatch(label)) is None:
            return 1, label
        in_file = int(lines[1])
        here = in_file == line or self.path(hit.dataset_id, hit.doc_name) is not None
        return in_file, "" if here else f"line {in_file}"

    def _located(self, hit: Hit) -> str | None:
        """The place of the match in words; None where the text has changed, or tells of none."""
        from triptych.chunking.outline import read_outline
        from triptych.errors import NotFoundError

        of = hit.dataset_id, hit.doc_name, hit.version
        if of not in self._outlines:
            self._outlines[of] = None, ""
            with suppress(NotFoundError):  # deleted since
                document = self.service.get_document(*of[:2])
                if document.version == hit.version:
                    text = document.content
                    self._outlines[of] = read_outline(document.system.outline, text), text
        outline, text = self._outlines[of]
        at = hit.start + match_offset(hit.content, hit.terms)
        return None if outline is None else outline.locate(text, at, at + 1)

    def _look_up(self, dataset_id: str, name: str) -> Path | None:
        if self.service.options.locate is None:
            return None
        if self._find is None:
            self._find = self.service.options.locate()
        info = self.service.documents.get_info(dataset_id, name)
        path = None if info is None else self._find(info)
        return path if path is not None and path.is_file() else None


def matched_line(hit: Hit) -> int:
    """The line of the document that holds most of the query's words, from 1."""
    from triptych.chunking.line_ends import LineEnds

    offset = match_offset(hit.content, hit.terms)
    return hit.start_line + LineEnds(hit.content).between(0, offset)


def shown_lines(path: Path | None, locator: str) -> str:
    """``locator`` as it follows a place: ``:12-20`` for lines of a file that is here."""
    lines = None if path is None else _LINES.fullmatch(locator)
    return f", {locator}" if lines is None else f":{locator.partition(' ')[2]}"


def shown_path(path: Path) -> str:
    """``path`` as short as it can be used from here: relative, or from the home folder."""
    here = Path.cwd()
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def editor_command(path: Path, line: int, environ: Mapping[str, str] | None = None) -> list[str]:
    """The command that opens ``path`` at ``line``: by ``$VISUAL``, ``$EDITOR``, or what is found.

    Without either, it is the first of the usual editors on the ``PATH``, else what the desktop
    opens files with. An editor that is not known gets the file alone.

    Raises:
        ValidationError: neither is set, and nothing is found.
    """
    from triptych.errors import ValidationError

    environ = os.environ if environ is None else environ
    words = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "")
    if not words:
        found = (shutil.which(each, path=environ.get("PATH", "")) for each in _USUAL)
        words = [each for each in found if each is not None][:1]
    if not words:
        raise ValidationError("no editor is set or found: set EDITOR, for example EDITOR=nano")
    name = Path(words[0]).name.removesuffix(".exe").lower()
    if name in _PLUS_LINE:
        return [*words, f"+{line}", str(path)]
    if name in _COLON_LINE:
        return [*words, f"{path}:{line}"]
    if name in _GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    return [*words, str(path)]


def viewer_command(path: Path, label: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """The command that shows ``path``, which is no text, at the page that ``label`` names.

    The desktop's own, which takes no page, where no viewer that does is found.

    Raises:
        NotAvailableError: there is none.
    """
    from triptych.errors import NotAvailableError

    search = (os.environ if environ is None else environ).get("PATH", "")
    page = _PAGE.match(label) if path.suffix.lower() == ".pdf" else None
    for name, option in _VIEWERS.items():
        if page is not None and (found := shutil.which(name, path=search)):
            at = f"{option}{page[1]}"
            return [found, at, str(path)] if option else [found, str(path), at]
    for name in _DESKTOP:
        if found := shutil.which(name, path=search):
            return [found, str(path)]
    raise NotAvailableError(
        f"no viewer for {path.name!r} is found: open {shown_path(path)} yourself"
        + (label and f", at {label}")
    )


def open_file(path: Path, line: int, label: str) -> None:
    """Open ``path`` in the editor at ``line``, or in a viewer where it is not text.

    It waits for an editor. ``label`` is where the match is in what is not read by lines.

    Raises:
        ValidationError: no editor is set, or it cannot be started.
        NotAvailableError: no viewer is found, or the file cannot be read.
    """
    from triptych.errors import NotAvailableError, ValidationError

    try:
        command = viewer_command(path, label) if _is_binary(path) else editor_command(path, line)
    except OSError as error:
        raise NotAvailableError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        raise ValidationError(
            f"{command[0]!r} cannot be started ({error.strerror}): set EDITOR to an editor "
            "that is installed"
        ) from error


def _is_binary(path: Path) -> bool:
    from triptych.errors import ParseError
    from triptych.parsing.decoder import decode_text

    try:
        return decode_text(path.read_bytes(), path.name) is None
    except ParseError:
        return False
