"""``triptych create``, ``triptych rebuild``, ``triptych embed`` and ``triptych delete``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.query_options import DocumentDataset, Where, note_unknown_fields
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.values import conditions

if TYPE_CHECKING:
    from triptych.service import Service


@command("triptych create docs", "triptych create docs --language german")
def create(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset.")],
    language: Annotated[str | None, option("--language", "The language it is analysed in.")] = None,
) -> None:
    """Create an empty dataset.

    A put creates the dataset it needs by itself. A dataset that exists is left as it is.
    """
    output = session.output
    created = session.perform("create_dataset", dataset_id=dataset, language=language)
    if output.as_json:
        output.emit({"dataset_id": dataset, "created": created})
    else:
        output.note(
            f"created dataset {dataset!r}" if created else f"there is a dataset {dataset!r} already"
        )


@command("triptych rebuild --all", "triptych rebuild --dataset docs --doc guide/start.md")
def rebuild(
    session: Session,
    dataset: DocumentDataset = None,
    doc: Annotated[str, option("--doc NAME", "One document: its name, or its file.")] = "",
    everything: Annotated[bool, option("--all -a", "Every dataset.")] = False,
) -> Exit:
    """Bring chunks and vectors up to date with their documents and the settings.

    What is fresh is left alone; unchanged text is not embedded again.
    """
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.names import find_document
    from triptych_adapters.cli.progress import shown
    from triptych_adapters.cli.summaries import counts_of, summary_line

    if everything and doc:
        raise ValidationError("--doc names a document of one dataset: leave out --all")
    scope = "" if everything else dataset or "default"
    with session.service() as service, shown(session.output, "rebuilding") as progress:
        service.health().require()
        if doc:
            named = find_document(service, doc, dataset)
            scope, doc = named.dataset_id, named.name
        if not doc:
            for warning in _given_up(service, scope):
                session.output.warn(warning)
        report = service.rebuild(dataset_id=scope, doc_name=doc, progress=progress)
    output = session.output
    for failure in report.failed:
        output.warn(f"{failure.dataset_id}/{failure.name}: {failure.error}")
    if output.as_json:
        output.emit({"dataset_id": scope or None, **to_json(report)})
    elif not output.quiet:
        output.say(summary_line(counts_of(report)))
    done = report.checked - len(report.failed)
    return exit_after([failure.error for failure in report.failed], done=done)


@command("triptych embed", "triptych embed --dataset docs")
def embed(
    session: Session,
    dataset: Annotated[str | None, option("--dataset -d", "The dataset. By default all.")] = None,
) -> Exit:
    """Add the vectors that documents still lack.

    Documents are found by keyword as soon as they are put, and by meaning once they have vectors.
    Stop this command whenever you like: each vector is kept, and the next run goes on from there.
    A text that has a vector is not embedded again. With a sparse encoder in the settings, sparse
    vectors are added too.
    """
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.progress import shown
    from triptych_adapters.cli.summaries import counts_of

    output = session.output
    with session.service() as service, shown(output, "embedding") as progress:
        service.health().require()
        report = service.embed_pending(dataset, progress=progress)
    for failure in report.failed:
        place = f"{failure.dataset_id}/{failure.name}" if failure.name else failure.dataset_id
        output.warn(f"{place}: {failure.error}")
    if output.as_json:
        output.emit({"dataset_id": dataset, **to_json(report)})
    elif not output.quiet:
        output.table(("", dataset or "every dataset"), list(counts_of(report).items()))
    done = report.documents + report.embedded + report.encoded
    return exit_after([failure.error for failure in report.failed], done=done)


def _given_up(service: Service, scope: str) -> list[str]:
    """Which vectors a rebuild without an embedder removes."""
    if service.options.embedder is not None:
        return []
    return [
        f"no embedder is in use: the {each.vectors} vectors of dataset {each.dataset_id!r}, of "
        f"{each.config.embed_sig}, are given up, and it is searched by keyword only"
        for each in service.stats()
        if scope in ("", each.dataset_id) and each.vectors and each.config is not None
    ]


@command("triptych delete guide/old.md", "triptych delete --dataset-wide --dataset docs --yes")
def delete(
    session: Session,
    names: Annotated[
        list[str] | None, argument("NAME", "Documents to delete: their names, or their files.")
    ] = None,
    dataset: DocumentDataset = None,
    dataset_wide: Annotated[
        bool, option("--dataset-wide", "Delete the whole dataset instead.")
    ] = False,
    where: Where = None,
    purge: Annotated[
        bool, option("--purge", "Erase also what the store's files still hold of it.")
    ] = False,
    yes: Annotated[bool, option("--yes -y", "Do not ask.")] = False,
) -> Exit:
    """Delete documents, or a whole dataset, with all that was derived from them.

    A whole dataset, and what --where finds, is deleted only after a question, or with --yes.
    """
    from triptych.records.serialization import to_json
    from triptych.rules import missing_dataset
    from triptych_adapters.cli.names import find_documents, first_names, names_of_file
    from triptych_adapters.cli.source_files import SourceFiles, warn_of_next_sync

    names = names or []
    if where:
        if names or dataset_wide or purge:
            raise ValidationError(
                "--where says what to delete: leave out names, --dataset-wide and --purge"
            )
        return _delete_found(session, dataset or "default", where, yes=yes)
    if bool(names) is dataset_wide:
        raise ValidationError("name documents, or give --dataset-wide: one of the two")
    output = session.output
    with session.service() as service:
        if dataset_wide:
            dataset = dataset or "default"
            if dataset not in (datasets := service.list_datasets()) and not purge:
                raise missing_dataset(dataset, datasets)
            if not yes and not _confirmed(f"Delete the dataset {dataset!r} and all in it?"):
                output.note("nothing was deleted")
                return Exit.FAILED
            some = first_names(service, dataset, None) if dataset in datasets else []
            files = SourceFiles(service).paths(dataset, some)
            remove_all = service.purge if purge else service.delete_dataset
            removed, found = [remove_all(dataset)], {}
        else:
            remove = service.purge if purge else service.delete_document
            dataset, present, absent = find_documents(service, names, dataset)
            if purge:
                # Of a file whose document is gone already, what is left is erased all the same.
                absent = [next(iter(names_of_file(service, each)), each) for each in absent]
            files = SourceFiles(service).paths(dataset, present.values())
            found = {name: remove(dataset, name) for name in (*present.values(), *absent)}
            removed = [*found.values()]
    warn_of_next_sync(output, files, deleted=True)
    receipts = removed if purge else []
    deleted = [name for name, there in found.items() if there]
    missing = [name for name, there in found.items() if not there]
    if missing and not deleted and not purge:
        raise NotFoundError(
            f"dataset {dataset!r} has no document " + ", ".join(repr(name) for name in missing)
        )
    for name in missing:
        again = ": what the files still held was erased all the same" if purge else ""
        output.warn(f"there is no document {name!r} in dataset {dataset!r}{again}")
    if output.as_json:
        output.emit(
            {
                "dataset_id": dataset,
                "dataset_deleted": dataset_wide,
                "deleted": deleted,
                "missing": missing,
                **({"receipts": to_json(receipts)} if purge else {}),
            }
        )
    else:
        what = f"dataset {dataset!r}" if dataset_wide else ", ".join(deleted)
        if what:
            output.note(f"deleted {what}")
        for receipt in to_json(receipts):
            erased = [f"{of} {n}" for of, n in receipt.items() if type(n) is int and n]
            counts = ", ".join(erased) or "nothing was left"
            output.note(f"erased: {counts}; beyond it:")
            for place in receipt["beyond"]:
                output.note(f"- {place}")
    return Exit.PARTIAL if missing and not purge else Exit.OK


def _delete_found(session: Session, dataset: str, where: list[str], *, yes: bool) -> Exit:
    """Delete what a filter finds, after a question that says how many."""
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.names import first_names
    from triptych_adapters.cli.source_files import SourceFiles, warn_of_next_sync

    output = session.output
    found = conditions(where, "--where")
    with session.service() as service:
        count = service.count_documents(dataset, where=found)
        if not count:
            note_unknown_fields(output, service, dataset, found)
        documents = "1 document" if count == 1 else f"{count} documents"
        if count and not yes and not _confirmed(f"Delete {documents} of {dataset!r}?"):
            output.note("nothing was deleted")
            return Exit.FAILED
        files = SourceFiles(service).paths(dataset, first_names(service, dataset, found))
        report = service.delete_documents(dataset, where=found)
    warn_of_next_sync(output, files, deleted=True)
    for failure in report.failed:
        output.warn(f"{failure.name}: {failure.error}")
    if output.as_json:
        output.emit({"dataset_id": dataset, **to_json(report)})
    else:
        done = len(report.deleted)
        output.note(f"deleted {'1 document' if done == 1 else f'{done} documents'}")
    return exit_after([failure.error for failure in report.failed], done=len(report.deleted))


def _confirmed(question: str) -> bool:

    if not sys.stdin.isatty():
        raise ValidationError(
            "deleting that much asks first, and nobody is here to answer: add --yes"
        )
    return typer.confirm(question, err=True)
