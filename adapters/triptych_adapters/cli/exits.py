"""How the ``triptych`` command ends, by the table of `triptych_adapters.wire.errors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triptych_adapters.wire.errors import Exit, error_form

if TYPE_CHECKING:
    from triptych.records import Failure

__all__ = ["MEANINGS", "Exit", "describe", "exit_after", "exit_for", "hint_for"]


MEANINGS = {
    Exit.OK: "done; a search without hits is done, too",
    Exit.FAILED: "declined at a prompt, refused by a key, or an unforeseen failure",
    Exit.USAGE: "the command line, a setting or a file name is invalid",
    Exit.NOT_FOUND: "no such store, dataset, document or layer",
    Exit.CONFLICT: "the document has changed since (--if-version)",
    Exit.STORE: "the store is locked, damaged, or of another version",
    Exit.MODEL: "a model failed, or differs from the dataset's",
    Exit.NOT_AVAILABLE: "this installation or store cannot do that",
    Exit.PARTIAL: "some documents failed and are listed; the others are done",
    Exit.INTERRUPTED: "interrupted (Ctrl-C); what was committed stays",
    Exit.BROKEN_PIPE: "the reader of the output went away",
}


def describe() -> str:
    """The table of exit codes, for a help page's end."""
    lines = [f"{code:<3d} {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["Exit codes:", *lines])


def exit_for(error: BaseException) -> Exit:
    """The exit code that ``error`` ends with; FAILED for what Triptych does not raise."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return Exit.BROKEN_PIPE
    form = error_form(error)
    return Exit.FAILED if form is None else form.exit_code


def exit_after(failures: Sequence[Failure], *, done: int) -> Exit:
    """How a command over many documents ended: ``done`` of them went well.

    With none done, the first failure speaks for all; with some, the end is PARTIAL.
    """
    if not failures:
        return Exit.OK
    return Exit.PARTIAL if done else exit_for(failures[0].error)


def hint_for(error: BaseException) -> str:
    """What to do about it, "" where there is nothing to say."""
    if isinstance(error, KeyboardInterrupt):
        return ""
    form = error_form(error)
    if form is None:
        return "TRIPTYCH_DEBUG=1 shows where it happened"
    return getattr(error, "hint", "") or form.hint
