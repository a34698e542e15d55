"""The file on disk that a document came from, and the editor that opens it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from triptych.records import DocumentInfo
    from triptych.service import Service
    from triptych_factory import Settings

__all__ = ["SourceFiles", "editor_command", "open_in_editor", "shown_path"]

_PLUS_LINE = frozenset(
    (
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "emacs", "emacsclient"),
        *("kak", "sensible-editor"),
    )
)
_USUAL = ("sensible-editor", "nano", "vim", "vi", "xdg-open", "open")
_COLON_LINE = frozenset(["subl", "zed", "hx", "helix"])
_GOTO = frozenset(["code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"])


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

    def path(self, dataset_id: str, name: str) -> Path | None:
        """The file of a document, None where it came from none, or the file is gone."""
        place = dataset_id, name
        if place not in self._found:
            self._found[place] = self._look_up(dataset_id, name)
        return self._found[place]

    def _look_up(self, dataset_id: str, name: str) -> Path | None:
        if self.service.options.locate is None:
            return None
        if self._find is None:
            self._find = self.service.options.locate()
        info = self.service.documents.get_info(dataset_id, name)
        path = None if info is None else self._find(info)
        return path if path is not None and path.is_file() else None


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


def open_in_editor(path: Path, line: int) -> None:
    """Open ``path`` at ``line``, and wait for the editor.

    Raises:
        ValidationError: no editor is set, or it cannot be started.
    """
    from triptych.errors import ValidationError

    command = editor_command(path, line)
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        raise ValidationError(
            f"the editor {command[0]!r} cannot be started ({error.strerror}): set EDITOR to one "
            "that is installed"
        ) from error
