"""A folder that has no store yet: its files are found by keyword meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from triptych.deadlines import deadline
from triptych.errors import CancelledError, TriptychError
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.service import KnowledgeBase
    from triptych_factory import Settings

_NAMED: Final = 5
_READING: Final = "the files of the folder are still being read: ask again for what is not found"


def storeless_folder(
    settings: Settings, *, is_empty: bool = False, beside_own: bool = False
) -> Path | None:
    """The folder whose store is not there yet, None where there is one, or none of a folder is
    meant: the one of a ``.triptych``, or the present one, unless that is all of a person's files.

    With ``is_empty`` the store is there, and has nothing. With ``beside_own`` a person's own store,
    which serves where a folder has none, does not count.
    """
    from triptych_factory.locations import STORE_FOLDER, is_server, parse_location, user_store

    path = None if is_server(settings.url) else parse_location(settings.url).path
    if path is None or (
        path.exists() and not is_empty and not (beside_own and path == user_store())
    ):
        return None
    folder = path.parent.parent if path.parent.name == STORE_FOLDER else None
    if path == user_store():
        folder = Path.cwd()
    at_home = folder is not None and Path.home().is_relative_to(folder)
    return None if folder is None or at_home or not folder.is_dir() else folder.absolute()


@contextmanager
def found_by_keyword(
    session: Session, settings: Settings, folder: Path
) -> Iterator[tuple[KnowledgeBase, Callable[[], str]]]:
    """A Service over the files of ``folder``, in memory and by keyword, which are read meanwhile;
    and what to say until they all are.

    What fails is said on stderr: the files that were read are found.
    """
    from triptych.sync import SyncRoot
    from triptych_factory.syncing import directory_sync

    held = attrs.evolve(settings, url="memory://", embedder="none")
    with session.service(create=True, settings=held) as service:
        service.create_dataset("default")
        sync = directory_sync(service, held, [SyncRoot(path=folder)])

        def read() -> None:
            try:
                report = sync.sync()
            except CancelledError:
                pass  # the client has gone
            except TriptychError as error:
                session.output.note(f"not all files of {folder} were read: {error}")
            else:
                for failure in report.failed[:_NAMED]:
                    session.output.note(f"{failure.name} was not read: {failure.error}")

        with deadline(None) as scope:
            context = copy_context()
        reading = threading.Thread(
            target=context.run, args=(read,), name="triptych-read-folder", daemon=True
        )
        reading.start()
        try:
            yield service, lambda: _READING if reading.is_alive() else ""
        finally:  # before the store closes, and the interpreter takes no more work
            scope.cancel()
            reading.join()


def note_of(folder: Path) -> str:
    """The note for an agent where `found_by_keyword` answers."""
    return (
        f"The folder {folder} has no knowledge base yet: its files are read now, and found by "
        "keyword only. Offer the person to keep them and to find them by meaning, too: "
        "`triptych init` and `triptych add .` in that folder, then start this server again."
    )
