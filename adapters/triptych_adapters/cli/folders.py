"""What ``sync`` and ``watch`` share: folders and options to a `DirectorySync`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.parsing.files import Skipped
    from triptych.sync import DirectorySync
    from triptych_adapters.cli.output import Output

__all__ = [
    "MAX_BYTES",
    "NOT_TOLD",
    "Adopt",
    "AllFolders",
    "DatasetOption",
    "Delete",
    "Exclude",
    "Folders",
    "FoldersArgument",
    "Include",
    "MaxBytes",
    "Prefix",
    "tell_generated",
    "tell_notes",
]

MAX_BYTES = 16 * 1024 * 1024

NOT_TOLD = ("hidden", "ignored", "excluded", "the store itself", "settings of Triptych")
"""Why a file is passed over where its owner has said so, in one way or another."""

_NAMED = 5
"""How many of the folders that are left out a remark names."""

FoldersArgument = Annotated[
    list[Path], typer.Argument(metavar="PATH", help="Folders.", show_default=False)
]
DatasetOption = Annotated[
    str, typer.Option("--dataset", "-d", help="The dataset they are kept in.")
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix", help="What each document's name begins with, such as docs/.", show_default=False
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="PATTERN",
        help="Take files that match, and no others; as in a .gitignore. Repeatable.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help="Leave out files and folders that match. Repeatable.",
        show_default=False,
    ),
]
AllFolders = Annotated[
    bool,
    typer.Option(
        "--all-folders",
        help="Take folders of installed or generated files too: node_modules, virtual "
        "environments, build outputs.",
    ),
]
MaxBytes = Annotated[
    int, typer.Option("--max-bytes", metavar="N", help="Leave out larger files.", min=1)
]
Delete = Annotated[
    bool, typer.Option("--delete/--no-delete", help="Delete documents whose file is gone.")
]
Adopt = Annotated[
    bool,
    typer.Option("--adopt", help="Replace documents of the same name that came otherwise."),
]


@attrs.frozen(kw_only=True)
class Folders:
    """The command line's folders and options."""

    paths: Sequence[Path]
    dataset: str
    prefix: str
    include: Sequence[str]
    exclude: Sequence[str]
    all_folders: bool
    max_bytes: int
    delete: bool
    adopt: bool

    def check(self) -> None:
        """Refuse what is no folder, before a store comes into being.

        Raises:
            NotFoundError, ValidationError: a path is not there, or no folder.
        """
        from triptych.errors import NotFoundError, ValidationError

        for path in self.paths:
            if not path.exists():
                raise NotFoundError(f"there is no folder {str(path)!r}")
            if not path.is_dir():
                raise ValidationError(f"{str(path)!r} is no folder: `triptych put` takes files")

    @contextmanager
    def opened(self, session: Session, *, dry: bool = False) -> Iterator[DirectorySync]:
        """The sync over the Service in force; ``dry`` leaves no store behind where none is."""
        from triptych.sync import SyncOptions, SyncRoot
        from triptych_factory import wire
        from triptych_factory.backends import store_exists
        from triptych_factory.locations import parse_location
        from triptych_factory.synced_folders import remember_folders
        from triptych_factory.syncing import directory_sync

        settings = attrs.evolve(session.settings(), llm="none")  # whose key may be missing
        roots = [
            SyncRoot(path=path, dataset_id=self.dataset, prefix=self.prefix) for path in self.paths
        ]
        options = SyncOptions(
            include=tuple(self.include),
            exclude=tuple(self.exclude),
            all_folders=self.all_folders,
            max_bytes=self.max_bytes,
            delete=self.delete,
            adopt=self.adopt,
        )
        new = dry and not store_exists(parse_location(settings.url))
        opening = attrs.evolve(settings, url="memory://", sources={}) if new else settings
        with wire(opening, create=not dry) as service:
            yield directory_sync(service, settings, roots, options)
        if not dry:
            remember_folders(settings, roots)


def tell_notes(output: Output, notes: Sequence[str]) -> None:
    """The first of the remarks on files that were read."""
    for note in notes[:_NAMED]:
        output.note(note)
    if len(notes) > _NAMED:
        output.note(f"and {len(notes) - _NAMED} more remarks like these; --json has them all")


def tell_generated(output: Output, skipped: Iterable[Skipped]) -> None:
    """A remark that names the folders of installed or generated files that were left out."""
    from triptych.parsing.generated_folders import GENERATED

    found = [f"{each.name} ({each.reason})" for each in skipped if each.reason in GENERATED]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        folders = "1 folder" if len(found) == 1 else f"{len(found)} folders"
        some = ", ".join(found[:_NAMED])
        output.note(f"left out {folders}: {some}{more}; --all-folders takes them")
