"""``triptych history``, ``diff`` and ``restore``: the old versions of a document."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from rich.text import Text

from triptych.errors import ValidationError
from triptych_adapters.cli import archives
from triptych_adapters.cli.archives import Replace
from triptych_adapters.cli.command import command
from triptych_adapters.cli.names import find_document
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.session import Session

_NAME = Annotated[str, argument("NAME", "The document: its name, or its file.")]
_DATASET = Annotated[str | None, option("--dataset -d", "Look in this dataset only.")]
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@command("triptych history guide/start.md")
def history(
    session: Session,
    name: _NAME,
    dataset: _DATASET = None,
) -> None:
    """List the versions of a document that are kept, the current one first."""
    from triptych.records.serialization import to_json

    with session.service() as service:
        named = find_document(service, name, dataset)
        dataset, name = named.dataset_id, named.name
        versions = service.history(dataset, name)
    output = session.output
    if output.as_json:
        output.emit({"dataset_id": dataset, "name": name, "versions": to_json(versions)})
        return
    output.table(
        ("version", "bytes", "updated", ""),
        [
            (
                each.version,
                each.size,
                each.updated_at.isoformat(timespec="seconds"),
                "" if at else "current",
            )
            for at, each in enumerate(versions)
        ],
    )


@command("triptych diff start.md", "triptych diff start.md 3 5")
def diff(
    session: Session,
    name: _NAME,
    old: Annotated[
        int | None, argument("OLD", "A version; without it, the previous one.", min=1)
    ] = None,
    new: Annotated[
        int | None, argument("NEW", "Another; without it, the current one.", min=1)
    ] = None,
    dataset: _DATASET = None,
) -> None:
    """Show how a version of a document differs from an older one, as diff -u does."""
    with session.service() as service:
        named = find_document(service, name, dataset)
        dataset, name = named.dataset_id, named.name
        if old is None:
            kept = service.history(dataset, name)
            old = kept[min(1, len(kept) - 1)].version
        found = service.diff(dataset, name, old, new)
    output = session.output
    if output.as_json:
        output.emit({"dataset_id": dataset, "name": name, "old": old, "new": new, "diff": found})
    elif not output.stdout.is_terminal:
        output.write(found)
    else:
        for line in found.removesuffix("\n").split("\n") if found else ():
            style = "bold" if line.startswith(("--- ", "+++ ")) else _STYLES.get(line[:1], "")
            output.say(Text(visible(line), style=style))
    if not found:
        output.note("no difference")


@command("triptych restore start.md 3", "triptych restore backup.zip other.db")
def restore(
    session: Session,
    name: Annotated[str, argument("NAME", "The document; or the file of a backup.")],
    version: Annotated[
        str | None,
        argument("VERSION", "The version; for a backup the store to make of it, or to complete."),
    ] = None,
    dataset: _DATASET = None,
    if_version: Annotated[
        int | None, option("--if-version", "Only if the document is at this version.", min=1)
    ] = None,
    replace: Replace = False,
) -> None:
    """Put an old version of a document back, as a new version; or a backup into a store.

    A backup, or an export to a .zip file, is taken over as it was written: versions, vectors and
    layers too. What the store has already is skipped, so run it again after a failure.
    """

    if version is None:
        typed = f"triptych restore {shlex.quote(name)}"
        raise ValidationError(
            f"say which store it becomes, or completes: `{typed} copy.db`"
            if archives.is_archive(Path(name))
            else f"say which version: `{typed} 3`; `triptych history` lists those that are kept"
        )
    if version.isascii() and version.isdecimal() and int(version):
        if replace:
            raise ValidationError(
                "--replace is for a backup: a document's version is always put in place of the "
                "current one, which is kept"
            )
        _restore_version(session, name, int(version), dataset, if_version)
    elif dataset is not None or if_version is not None:
        raise ValidationError(
            "--dataset and --if-version are for a version of a document: `triptych import FILE "
            "--dataset NAME` takes one dataset of a backup"
        )
    else:
        _restore_archive(session, name, version, replace=replace)


def _restore_archive(session: Session, file: str, store: str, *, replace: bool) -> None:

    path = Path(file)
    if not archives.is_archive(path):
        raise ValidationError(
            f"{store!r} is not a version of a document, and {file!r} is not the file of a backup: "
            "give NAME and VERSION, or FILE and the store to make of it"
        )
    archives.load_archive(session, path, store, with_settings=True, replace=replace)


def _restore_version(
    session: Session, name: str, version: int, dataset: str | None, if_version: int | None
) -> None:
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.source_files import SourceFiles, warn_of_next_sync

    with session.service() as service:
        named = find_document(service, name, dataset)
        dataset, name = named.dataset_id, named.name
        files = SourceFiles(service).paths(dataset, [name])
        before = service.get_document(dataset, name).version
        stored = service.restore(dataset, name, version, if_version=if_version)
    output = session.output
    changed = stored.version != before
    warn_of_next_sync(output, files if changed else (), deleted=False)
    if output.as_json:
        document = to_json(stored)
        del document["content"]
        output.emit({"document": document, "changed": changed})
    elif changed:
        output.note(f"{name} is version {version} again, as version {stored.version}")
    else:
        output.note(f"{name} is as it was in version {version}: nothing to do")
