"""``triptych rebuild``, ``embed``, ``work``, ``tag`` and ``delete``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triptych._internal.wording import counted
from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.names import (
    SourceFiles,
    dataset_in_use,
    find_document,
    find_documents,
    first_names,
    names_of_file,
    warn_of_next_sync,
)
from triptych_adapters.cli.options import (
    DocumentDataset,
    Where,
    conditions,
    metadata_of,
    note_unknown_fields,
)
from triptych_adapters.cli.output import counts_of, summary_line
from triptych_adapters.cli.session import Exit, Session, exit_after

if TYPE_CHECKING:
    from triptych.service import KnowledgeBase


@command("triptych rebuild --all", "triptych rebuild --dataset docs --doc guide/start.md")
def rebuild(
    session: Session,
    dataset: DocumentDataset = None,
    doc: Annotated[str, option("--doc NAME", "The name or file of one document.")] = "",
    everything: Annotated[bool, option("--all -a", "Every dataset.")] = False,
) -> Exit:
    """Bring chunks and vectors up to date with their documents and the settings.

    Fresh data is not changed; unchanged text is not embedded again.
    """
    if everything and doc:
        raise ValidationError("--doc names a document of one dataset: leave out --all")
    output = session.output
    with session.service() as service, output.progress("rebuilding") as progress:
        service.health().require()
        scope = ""
        if doc:
            named = find_document(service, doc, dataset)
            scope, doc = named.dataset_id, named.name
        elif not everything:
            scope = dataset_in_use(service, dataset)
        if not doc:
            output.warn(*_given_up(service, scope))
        before = _languages(service)
        report = service.rebuild(dataset_id=scope, doc_name=doc, progress=progress)
        for name, language in _languages(service).items():
            if before.get(name, language) != language:
                output.note(
                    f"the language of dataset {name!r} is {language} now, not {before[name]}"
                )
    return session.finish(
        report.failed,
        {"dataset_id": scope or None},
        report,
        done=report.checked - len(report.failed),
        placed=True,
        lines=[summary_line(counts_of(report))],
    )


@command("triptych embed", "triptych embed --dataset docs")
def embed(
    session: Session,
    dataset: Annotated[str | None, option("--dataset -d", "The dataset. By default all.")] = None,
    retry: Annotated[
        bool, option("--retry", "Send texts again that the model has refused before.")
    ] = False,
) -> Exit:
    """Make missing vectors of documents.

    Keyword search finds documents as soon as they are stored, vector search once they have vectors.
    You can stop this command at any time: vectors are stored as they are made, and the next run
    continues. A text that has a vector is not embedded again, nor one that the model has refused.
    With a sparse encoder in the settings, sparse vectors are made too.
    """
    output = session.output
    with session.service() as service, output.progress("embedding") as progress:
        service.health().require()
        report = service.embed_pending(dataset, retry=retry, progress=progress)
    return session.finish(
        report.failed,
        {"dataset_id": dataset},
        report,
        done=report.documents + report.embedded + report.encoded,
        placed=True,
        table=(("", dataset or "every dataset"), counts_of(report).items()),
    )


def _languages(service: KnowledgeBase) -> dict[str, str]:
    """The language of each dataset, where a rebuild may change it."""
    if service.options.language == "auto":
        return {}
    found = {each.dataset_id: each.config for each in service.stats()}
    return {name: config.language for name, config in found.items() if config is not None}


def _given_up(service: KnowledgeBase, scope: str) -> list[str]:
    """Which vectors a rebuild without an embedder removes."""
    if service.options.embedder is not None:
        return []
    return [
        f"no embedder is in use: the {each.vectors} vectors of dataset {each.dataset_id!r}, of "
        f"{each.config.embed_sig}, are given up, and it is searched by keyword only"
        for each in service.stats()
        if scope in ("", each.dataset_id) and each.vectors and each.config is not None
    ]


@command(
    "triptych tag notes.md --set status=read",
    "triptych tag --where lang=en --set '{\"year\": 2024}' --unset draft",
)
def tag(
    session: Session,
    names: Annotated[list[str] | None, argument("NAME", "Names or files of the documents.")] = None,
    dataset: DocumentDataset = None,
    where: Where = None,
    given: Annotated[
        list[str] | None,
        option("--set KEY=VALUE", "Metadata to set: text, or a JSON object of typed values."),
    ] = None,
    unset: Annotated[list[str] | None, option("--unset KEY", "A key to remove.")] = None,
) -> Exit:
    """Change the metadata of documents.

    Other keys are kept. Nothing is embedded unless a title or kind changes.
    """
    changes: dict[str, Any] = metadata_of(given or [], "--set")
    for key in unset or []:
        if key in changes:
            raise ValidationError(f"--set and --unset both name {key!r}: leave one out")
        changes[key] = None
    if not changes:
        raise ValidationError("nothing to change: give --set KEY=VALUE or --unset KEY")
    if not names and not where:
        raise ValidationError("no documents are named: give names or --where")
    output = session.output
    with session.service() as service:
        dataset, found, missing = find_documents(service, names or [], dataset)
        filters = conditions(where, "--where") if where else None
        some = found.values() or first_names(service, dataset, filters)
        files = SourceFiles(service).paths(dataset, some)
        if filters and not some:
            note_unknown_fields(output, service, dataset, filters)
        report = service.update_metadata(
            dataset, changes, names=[*found.values(), *missing] or None, where=filters
        )
    warn_of_next_sync(output, files if report.updated else (), deleted=False)
    done = report.updated + report.unchanged
    no_such = f"dataset {dataset!r} has no such document: "
    if names and not done and not report.failed:
        raise NotFoundError(no_such + ", ".join(map(repr, report.missing)))
    output.warn(*(f"{no_such}{name!r}" for name in report.missing))
    output.warn_of(report.failed)
    updated = counted(report.updated, "document")
    note = f"updated {updated}, {report.unchanged} unchanged"
    output.show({"dataset_id": dataset}, report, note=note)
    if report.missing and not report.failed:
        return Exit.PARTIAL
    return exit_after(report.failed, done=done)


@command("triptych delete guide/old.md", "triptych delete --dataset-wide --dataset docs --yes")
def delete(
    session: Session,
    names: Annotated[
        list[str] | None, argument("NAME", "Names or files of the documents to delete.")
    ] = None,
    dataset: DocumentDataset = None,
    dataset_wide: Annotated[
        bool, option("--dataset-wide", "Delete the whole dataset instead.")
    ] = False,
    where: Where = None,
    purge: Annotated[
        bool, option("--purge", "Also erase its remains from the store's files.")
    ] = False,
    yes: Annotated[bool, option("--yes -y", "Do not ask.")] = False,
) -> Exit:
    """Delete documents, or a whole dataset, with all derived data.

    A whole dataset, and documents that match --where, are deleted only after confirmation or with
    --yes.
    """
    from triptych.contracts.rules import missing_dataset
    from triptych.records.serialization import to_json

    names = names or []
    if where:
        if names or dataset_wide or purge:
            raise ValidationError(
                "--where selects what to delete: leave out names, --dataset-wide and --purge"
            )
        return _delete_found(session, dataset, where, yes=yes)
    if bool(names) is dataset_wide:
        raise ValidationError("give either names of documents or --dataset-wide")
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
    receipts = to_json(removed) if purge else []
    deleted = [name for name, there in found.items() if there]
    missing = [name for name, there in found.items() if not there]
    if missing and not deleted and not purge:
        raise NotFoundError(
            f"dataset {dataset!r} has no document " + ", ".join(repr(name) for name in missing)
        )
    for name in missing:
        again = ": what the files still held was erased all the same" if purge else ""
        output.warn(f"there is no document {name!r} in dataset {dataset!r}{again}")
    what = f"dataset {dataset!r}" if dataset_wide else ", ".join(deleted)
    output.show(
        {
            "dataset_id": dataset,
            "dataset_deleted": dataset_wide,
            "deleted": deleted,
            "missing": missing,
            **({"receipts": receipts} if purge else {}),
        },
        note=[
            f"deleted {what}" if what else "",
            *(line for receipt in receipts for line in _erased(receipt)),
        ],
    )
    return Exit.PARTIAL if missing and not purge else Exit.OK


def _erased(receipt: dict[str, Any]) -> list[str]:
    counts = ", ".join(f"{of} {n}" for of, n in receipt.items() if type(n) is int and n)
    head = f"erased: {counts or 'nothing was left'}; beyond it:"
    return [head, *(f"- {place}" for place in receipt["beyond"])]


def _delete_found(session: Session, dataset: str | None, where: list[str], *, yes: bool) -> Exit:
    """Delete what a filter finds, after a question that says how many."""
    output = session.output
    found = conditions(where, "--where")
    with session.service() as service:
        dataset = dataset_in_use(service, dataset)
        count = service.count_documents(dataset, where=found)
        if not count:
            note_unknown_fields(output, service, dataset, found)
        question = f"Delete {counted(count, 'document')} of {dataset!r}?"
        if count and not yes and not _confirmed(question):
            output.note("nothing was deleted")
            return Exit.FAILED
        files = SourceFiles(service).paths(dataset, first_names(service, dataset, found))
        report = service.delete_documents(dataset, where=found)
    warn_of_next_sync(output, files, deleted=True)
    done = len(report.deleted)
    note = f"deleted {counted(done, 'document')}"
    return session.finish(report.failed, {"dataset_id": dataset}, report, done=done, note=note)


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise ValidationError("this delete needs confirmation, and there is no terminal: add --yes")
    return typer.confirm(question, err=True)
