"""Exit codes of the ``triptych`` command, and which error ends with which."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

__all__ = ["Exit", "describe", "exit_after", "exit_for", "hint_for"]


class Exit(IntEnum):
    """How a run of ``triptych`` ended."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORE = 5
    MODEL = 6
    NOT_AVAILABLE = 7
    PARTIAL = 8
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    Exit.OK: "done; a search without hits is done, too",
    Exit.FAILED: "declined at a prompt, or an unforeseen failure",
    Exit.USAGE: "the command line, a setting or a file name is invalid",
    Exit.NOT_FOUND: "no such store, dataset, document or layer",
    Exit.CONFLICT: "the document changed meanwhile (--if-version)",
    Exit.STORE: "the store is locked, damaged, or of another version",
    Exit.MODEL: "a model failed or is another than the dataset's",
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
    from triptych import errors

    table: tuple[tuple[type[BaseException], Exit], ...] = (
        (KeyboardInterrupt, Exit.INTERRUPTED),
        (BrokenPipeError, Exit.BROKEN_PIPE),
        (errors.ValidationError, Exit.USAGE),
        (errors.NotFoundError, Exit.NOT_FOUND),
        (errors.ConflictError, Exit.CONFLICT),
        (errors.StoreError, Exit.STORE),
        (errors.ModelMismatchError, Exit.MODEL),
        (errors.ProviderError, Exit.MODEL),
        (errors.DerivationError, Exit.MODEL),
        (errors.BudgetExceededError, Exit.MODEL),
        (errors.NotAvailableError, Exit.NOT_AVAILABLE),
    )
    for kind, code in table:
        if isinstance(error, kind):
            return code
    return Exit.FAILED


def exit_after(errors: Sequence[Exception], *, done: int) -> Exit:
    """How a command over many documents ended: ``done`` of them went well.

    With none done, the first error speaks for all; with some, the end is PARTIAL.
    """
    if not errors:
        return Exit.OK
    return Exit.PARTIAL if done else exit_for(errors[0])


_HINTS = {
    Exit.USAGE: "add --help to the command for what it takes",
    Exit.NOT_FOUND: "`triptych status` shows the store and its datasets, `triptych list` "
    "the documents of one",
    Exit.CONFLICT: "`triptych get NAME --info` shows the version that is stored now",
    Exit.STORE: "`triptych status` shows which store is meant; TRIPTYCH_LOCK_TIMEOUT says how "
    "long to wait for another writer",
    Exit.MODEL: "documents that were stored stay; `triptych status` names the embedder a dataset "
    "was filled with, `triptych rebuild` derives it again with the one in use",
    Exit.NOT_AVAILABLE: "`triptych status` shows what is in use",
}


def hint_for(code: Exit) -> str:
    """What to do about it, "" where there is nothing to say."""
    return _HINTS.get(code, "")
