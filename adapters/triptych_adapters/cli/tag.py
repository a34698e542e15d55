"""``triptych count`` and ``triptych tag``: documents by their metadata."""

from __future__ import annotations

from typing import Annotated, Any

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.query_options import DocumentDataset, Where, note_unknown_fields
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.values import conditions, metadata_of


@command("triptych count", "triptych count --where lang=en")
def count(
    session: Session,
    dataset: Annotated[str, option("--dataset -d", "The dataset.")] = "default",
    where: Where = None,
) -> None:
    """Count a dataset's documents, or those that pass a filter."""
    with session.service() as service:
        filters = conditions(where or [], "--where")
        found = service.count_documents(dataset, where=filters)
        if not found:
            note_unknown_fields(session.output, service, dataset, filters)
    if session.output.as_json:
        session.output.emit({"dataset_id": dataset, "count": found})
    else:
        session.output.write(f"{found}\n")


@command(
    "triptych tag notes.md --set status=read",
    "triptych tag --where lang=en --set '{\"year\": 2024}' --unset draft",
)
def tag(
    session: Session,
    names: Annotated[
        list[str] | None, argument("NAME", "The documents: their names, or their files.")
    ] = None,
    dataset: DocumentDataset = None,
    where: Where = None,
    given: Annotated[
        list[str] | None,
        option("--set KEY=VALUE", "What to set: text, or a JSON object of typed values."),
    ] = None,
    unset: Annotated[list[str] | None, option("--unset KEY", "A key to remove.")] = None,
) -> Exit:
    """Change the metadata of documents, and nothing else of them.

    Keys that are not named stay. Nothing is embedded, unless a title or kind changes.
    """
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.names import find_documents, first_names
    from triptych_adapters.cli.source_files import SourceFiles, warn_of_next_sync

    changes: dict[str, Any] = metadata_of(given or [], "--set")
    for key in unset or []:
        if key in changes:
            raise ValidationError(f"--set and --unset both name {key!r}: leave one out")
        changes[key] = None
    if not changes:
        raise ValidationError("nothing to change: give --set KEY=VALUE or --unset KEY")
    if not names and not where:
        raise ValidationError("say which documents: give names, or --where")
    with session.service() as service:
        dataset, found, missing = find_documents(service, names or [], dataset)
        filters = conditions(where, "--where") if where else None
        some = found.values() or first_names(service, dataset, filters)
        files = SourceFiles(service).paths(dataset, some)
        if filters and not some:
            note_unknown_fields(session.output, service, dataset, filters)
        report = service.update_metadata(
            dataset, changes, names=[*found.values(), *missing] or None, where=filters
        )
    output = session.output
    warn_of_next_sync(output, files if report.updated else (), deleted=False)
    done = report.updated + report.unchanged
    if names and not done and not report.failed:
        raise NotFoundError(
            f"dataset {dataset!r} has no such document: " + ", ".join(map(repr, report.missing))
        )
    for name in report.missing:
        output.warn(f"dataset {dataset!r} has no such document: {name!r}")
    for failure in report.failed:
        output.warn(f"{failure.name}: {failure.error}")
    if output.as_json:
        output.emit({"dataset_id": dataset, **to_json(report)})
    else:
        updated = "1 document" if report.updated == 1 else f"{report.updated} documents"
        output.note(f"updated {updated}, {report.unchanged} unchanged")
    if report.missing and not report.failed:
        return Exit.PARTIAL
    return exit_after([failure.error for failure in report.failed], done=done)
