"""``triptych history``, ``diff``, ``restore`` and ``changes``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from triptych.errors import ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.copies import is_backup
from triptych_adapters.cli.names import SourceFiles, find_document, warn_of_next_sync
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Exit, Session

if TYPE_CHECKING:
    from triptych.records import ChangePage

_NAME = Annotated[str, argument("NAME", "The name or file of the document.")]
_DATASET = Annotated[str | None, option("--dataset -d", "Look in this dataset only.")]
_STYLES = {"file": "bold", "place": "cyan", "same": "", "added": "green", "removed": "red"}


@command("triptych history guide/start.md")
def history(session: Session, name: _NAME, dataset: _DATASET = None) -> None:
    """List the kept versions of a document, newest first."""
    with session.service() as service:
        named = find_document(service, name, dataset)
        dataset, name = named.dataset_id, named.name
        versions = service.history(dataset, name)
    session.output.show(
        {"dataset_id": dataset, "name": name, "versions": versions},
        table=(
            ("version", "bytes", "updated", ""),
            (
                (
                    each.version,
                    each.size,
                    each.updated_at.isoformat(timespec="seconds"),
                    "" if at else "current",
                )
                for at, each in enumerate(versions)
            ),
        ),
    )


@command("triptych diff start.md", "triptych diff start.md 3 5")
def diff(
    session: Session,
    name: _NAME,
    old: Annotated[
        int | None, argument("OLD", "The old version. By default the previous one.", min=1)
    ] = None,
    new: Annotated[
        int | None, argument("NEW", "The new version. By default the current one.", min=1)
    ] = None,
    dataset: _DATASET = None,
) -> None:
    """Show the differences of two versions of a document, like diff -u."""
    with session.service() as service:
        named = find_document(service, name, dataset)
        dataset, name = named.dataset_id, named.name
        if old is None:
            kept = service.history(dataset, name)
            old = kept[min(1, len(kept) - 1)].version
        found = service.diff(dataset, name, old, new)
    output = session.output
    if not output.as_json and not output.stdout.is_terminal:
        output.write(found)
    else:
        output.show(
            {"dataset_id": dataset, "name": name, "old": old, "new": new, "diff": found},
            lines=styled_lines(found),
        )
    if not found:
        output.note("no difference")


def styled_lines(difference: str) -> Iterator[Text]:
    """The lines of a difference, in its colours, with what is not seen made visible."""
    from triptych.text import diff_lines

    return (Text(line, style=_STYLES[kind]) for kind, line in diff_lines(difference))


@command("triptych restore start.md 3", "triptych restore start.md 3 --if-version 5")
def restore(
    session: Session,
    name: _NAME,
    version: Annotated[
        str | None, argument("VERSION", "The version, as listed by `triptych history`.")
    ] = None,
    dataset: _DATASET = None,
    if_version: Annotated[
        int | None, option("--if-version", "Only if the document is at this version.", min=1)
    ] = None,
) -> None:
    """Restore an old version of a document as a new version.

    To restore a backup, use `triptych copy FILE STORE`.
    """
    from triptych.records.serialization import to_json

    if version is None or not (version.isascii() and version.isdecimal() and int(version)):
        if is_backup(Path(name)):
            typed = shlex.join(["triptych", "copy", name, version or "copy.db"])
            raise ValidationError(f"{name!r} is a backup: `{typed}` restores it to a store")
        typed = f"triptych restore {shlex.quote(name)} 3"
        raise ValidationError(
            f"name the version: `{typed}`; `triptych history` lists the kept versions"
        )
    with session.service() as service:
        named = find_document(service, name, dataset)
        dataset, name = named.dataset_id, named.name
        files = SourceFiles(service).paths(dataset, [name])
        before = service.get_document(dataset, name).version
        stored = service.restore(dataset, name, int(version), if_version=if_version)
    changed = stored.version != before
    warn_of_next_sync(session.output, files if changed else (), deleted=False)
    document = to_json(stored)
    del document["content"]
    now = f"{name} is version {version} again, as version {stored.version}"
    session.output.show(
        {"document": document, "changed": changed},
        note=now if changed else f"{name} is as it was in version {version}: nothing to do",
    )


_LIMIT = 1000


@command(
    "triptych changes                          every document, as added",
    "triptych changes --since CURSOR --json    what became of them since",
    "triptych changes --follow                 and each change as it comes, until Ctrl-C",
)
def changes(
    session: Session,
    since: Annotated[
        str | None,
        option(
            "--since CURSOR", "The cursor of an earlier run. By default start with every document."
        ),
    ] = None,
    dataset: Annotated[str | None, option("--dataset -d", "By default all datasets.")] = None,
    limit: Annotated[
        int, option("--limit -n", "Maximum number of changes.", min=1, max=10_000)
    ] = _LIMIT,
    follow: Annotated[
        bool, option("--follow -f", "Keep running, and print each change as it is made.")
    ] = False,
    poll: Annotated[float, option("--poll SECONDS", "With --follow: look this often.")] = 0.5,
) -> Exit:
    """List which documents were added, updated or deleted since a cursor, oldest first.

    Each document is listed once, with its last change. The cursor for the next call is on stderr,
    and in the JSON. "reset" means that the store could not continue from the given cursor and
    started from the beginning: drop your copies.
    """
    with session.service() as service:
        if not follow:
            _print(session.output, service.changes(since, dataset_id=dataset, limit=limit))
            return Exit.OK
        try:
            for page in service.follow(since, dataset_id=dataset, limit=limit, poll=poll):
                _print(session.output, page, stream=True)
        except KeyboardInterrupt:
            session.output.note("stopped")
    return Exit.OK


def _print(output: Output, page: ChangePage, *, stream: bool = False) -> None:
    if page.reset and not output.as_json:
        output.note(
            "reset: the store cannot continue from this cursor; the list starts from the beginning"
        )
    rows = ((each.kind, each.dataset_id, each.name, each.version) for each in page.changes)
    more = "; there are more changes" if page.more else ""
    output.show(
        page,
        table=(("change", "dataset", "document", "version"), rows),
        note=f"go on with --since {page.cursor}{more}",
        stream=stream,
    )
