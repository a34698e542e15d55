"""``triptych history``, ``diff`` and ``restore``: the old versions of a document."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from rich.text import Text

from triptych.errors import ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.copies import is_archive
from triptych_adapters.cli.names import find_document
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.source_files import SourceFiles, warn_of_next_sync

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
    if not output.as_json and not output.stdout.is_terminal:
        output.write(found)
    else:
        output.show(
            {"dataset_id": dataset, "name": name, "old": old, "new": new, "diff": found},
            lines=(_styled(line) for line in found.removesuffix("\n").split("\n") if found),
        )
    if not found:
        output.note("no difference")


def _styled(line: str) -> Text:
    style = "bold" if line.startswith(("--- ", "+++ ")) else _STYLES.get(line[:1], "")
    return Text(visible(line), style=style)


@command("triptych restore start.md 3", "triptych restore start.md 3 --if-version 5")
def restore(
    session: Session,
    name: _NAME,
    version: Annotated[
        str | None, argument("VERSION", "The version, as `triptych history` lists it.")
    ] = None,
    dataset: _DATASET = None,
    if_version: Annotated[
        int | None, option("--if-version", "Only if the document is at this version.", min=1)
    ] = None,
) -> None:
    """Put an old version of a document back, as a new version.

    A backup becomes a store by `triptych copy FILE STORE`.
    """
    from triptych.records.serialization import to_json

    if version is None or not (version.isascii() and version.isdecimal() and int(version)):
        if is_archive(Path(name)):
            typed = shlex.join(["triptych", "copy", name, version or "copy.db"])
            raise ValidationError(f"{name!r} is a backup: `{typed}` makes a store of it")
        typed = f"triptych restore {shlex.quote(name)} 3"
        raise ValidationError(
            f"say which version: `{typed}`; `triptych history` lists those that are kept"
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
