"""The file on disk that a document came from, and the editor that opens it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from triptych.errors import NotAvailableError, NotFoundError, ParseError, ValidationError
from triptych_adapters.cli.excerpts import match_offset

if TYPE_CHECKING:
    from triptych.records import DocumentInfo, Hit
    from triptych.service import Service
    from triptych_adapters.cli.output import Output

_PLUS_LINE = frozenset(
    (
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "emacs", "emacsclient"),
        *("kak", "sensible-editor"),
    )
)
_USUAL = ("sensible-editor", "nano", "vim", "vi", "xdg-open", "open")
_COLON_LINE = frozenset(["subl", "zed", "hx", "helix"])
_GOTO = frozenset(["code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"])
_VIEWERS = ("xdg-open", "open", "explorer")
_LINE = re.compile(r"lines? (\d+)")


@attrs.define
class SourceFiles:
    """Finds the files of documents that a sync brought in.

    A document carries the key of its root; the folders of the roots are remembered beside the
    store.
    """

    service: Service
    _found: dict[tuple[str, str], Path | None] = attrs.field(factory=dict, init=False)
    _find: Callable[[DocumentInfo], Path | None] | None = attrs.field(default=None, init=False)

    def path(self, dataset_id: str, name: str) -> Path | None:
        """The file of a document, None where it came from none, or the file is gone."""
        place = dataset_id, name
        if place not in self._found:
            self._found[place] = self._look_up(dataset_id, name)
        return self._found[place]

    def paths(self, dataset_id: str, names: Iterable[str]) -> list[Path]:
        """The files of those documents that have one."""
        found = (self.path(dataset_id, name) for name in names)
        return [path for path in found if path is not None]

    def spot(self, hit: Hit) -> tuple[int, str]:
        """Where in its file a hit matches best: the line, from 1; else the place in words.

        Words are for what is not read by lines ("page 3"), and where the file is not here.
        """
        if hit.locator is None or hit.layer is None:
            return matched_line(hit), ""
        place = self._located(hit) or hit.locator
        line = _LINE.match(place) if self.path(hit.dataset_id, hit.doc_name) else None
        return (1, place) if line is None else (int(line[1]), "")

    def _located(self, hit: Hit) -> str | None:
        """The place of the match in words; None where the hit's version is no longer kept."""
        from triptych.chunking.outline import read_outline

        at = hit.start + match_offset(hit.content, hit.terms)
        with suppress(NotFoundError, NotAvailableError):
            document = self.service.get_document(hit.dataset_id, hit.doc_name, hit.version)
            outline = read_outline(document.system.outline, document.content)
            return None if outline is None else outline.locate(document.content, at, at + 1)
        return None

    def _look_up(self, dataset_id: str, name: str) -> Path | None:
        if self.service.options.locate is None:
            return None
        if self._find is None:
            self._find = self.service.options.locate()
        info = self.service.documents.get_info(dataset_id, name)
        path = None if info is None else self._find(info)
        return path if path is not None and path.is_file() else None


def warn_of_next_sync(output: Output, files: Sequence[Path], *, deleted: bool) -> None:
    """Say that the next sync undoes what was done to the documents of ``files``, if any."""
    if not files:
        return
    named = shown_path(files[0]) + (" (and others)" if len(files) > 1 else "")
    output.warn(
        f"the next sync makes a document of {named} again: delete the file too, or exclude it "
        "(.triptychignore)"
        if deleted
        else f"the next sync puts back what is in the file: change {named} too"
    )


def matched_line(hit: Hit) -> int:
    """The line of the document, from 1, where a hit matches best."""
    from triptych.chunking.line_ends import LineEnds

    before = LineEnds(hit.content).between(0, match_offset(hit.content, hit.terms))
    return hit.start_line + before


def shown_path(path: Path) -> str:
    """``path`` as short as it can be used from here: relative, or from the home folder."""
    here = Path.cwd()
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def editor_command(
    path: Path, line: int | None, environ: Mapping[str, str] | None = None
) -> list[str]:
    """The command that opens ``path`` at ``line``: by ``$VISUAL``, ``$EDITOR``, or what is found.

    Without either, it is the first of the usual editors on the ``PATH``, else what the desktop
    opens files with. An editor that is not known gets the file alone. What is no text (``line``
    is None) is for the desktop.

    Raises:
        ValidationError: neither is set, and nothing is found.
    """

    environ = os.environ if environ is None else environ
    named = "" if line is None else environ.get("VISUAL") or environ.get("EDITOR") or ""
    words = shlex.split(named)
    if not words:
        usual = _VIEWERS if line is None else _USUAL
        found = (shutil.which(each, path=environ.get("PATH", "")) for each in usual)
        words = [each for each in found if each is not None][:1]
    if not words and line is None:
        raise ValidationError(f"no viewer is found: open it yourself, {shown_path(path)}")
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


def open_in_editor(path: Path, line: int) -> None:
    """Open ``path`` at ``line``, and wait for the editor; what is no text, in a viewer.

    Raises:
        ValidationError: no editor is set, or it cannot be started.
    """
    from triptych.parsing.decoder import decode_text

    is_text = True
    with suppress(OSError, ParseError):  # the editor says what is wrong with it
        is_text = decode_text(path.read_bytes(), path.name) is not None
    command = editor_command(path, line if is_text else None)
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        raise ValidationError(
            f"the editor {command[0]!r} cannot be started ({error.strerror}): set EDITOR to one "
            "that is installed"
        ) from error
