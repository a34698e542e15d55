"""``triptych get`` and ``triptych list``."""

from __future__ import annotations

from typing import Annotated

import typer

from triptych_adapters.cli.query_options import Where
from triptych_adapters.cli.session import Session, command, conditions, examples


def register(app: typer.Typer) -> None:
    """Add ``get`` and ``list``."""
    command(
        app,
        "get",
        epilog=examples(
            "triptych get guide/start.md > start.md",
            "triptych get start.md --info",
            "triptych get start.md --version 3",
        ),
    )(get)
    command(
        app,
        "list",
        epilog=examples(
            "triptych list --prefix guide/",
            "triptych list --datasets",
            "triptych list | cut -f1     names alone",
        ),
    )(list_)


def get(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The document.", show_default=False)],
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="Its dataset.")] = "default",
    version: Annotated[
        int | None,
        typer.Option("--version", min=1, help="As it was then: `triptych history` lists them."),
    ] = None,
    info: Annotated[
        bool, typer.Option("--info", help="Print what is known about it, not its content.")
    ] = False,
) -> None:
    """Print a document exactly as it was put, byte for byte."""
    from triptych_adapters.wire.schema import to_json

    with session.service() as service:
        document = service.get_document(dataset, name, version)
    output = session.output
    if output.as_json:
        fields = to_json(document)
        if info:
            del fields["content"]
        output.emit({"document": fields})
    elif info:
        rows: list[tuple[str, object]] = [
            ("name", document.name),
            ("dataset", document.dataset_id),
            ("version", document.version),
            ("updated", document.updated_at.isoformat()),
            ("size", len(document.content.encode("utf-8"))),
        ]
        if document.parser_sig:
            rows.append(("parser", document.parser_sig))
        rows += [(f"metadata.{key}", value) for key, value in sorted(document.metadata.items())]
        output.table(("", ""), rows)
    else:
        output.write(document.content)


def list_(
    session: Session,
    dataset: Annotated[str, typer.Option("--dataset", "-d", help="The dataset.")] = "default",
    datasets: Annotated[
        bool, typer.Option("--datasets", help="List the datasets instead.")
    ] = False,
    prefix: Annotated[
        str, typer.Option("--prefix", help="Only names that begin so.", show_default=False)
    ] = "",
    after: Annotated[
        str, typer.Option("--after", help="Only names behind this one.", show_default=False)
    ] = "",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The most documents to list.")
    ] = None,
    where: Where = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort",
            help="$name, $version, $updated_at or a metadata key; -$updated_at: newest first.",
        ),
    ] = "$name",
) -> None:
    """List a dataset's documents, or the datasets."""
    from triptych_adapters.wire.schema import to_json

    output = session.output
    with session.service() as service:
        if datasets:
            ids = service.list_datasets()
            if output.as_json:
                output.emit({"datasets": list(ids)})
            else:
                output.table(("dataset",), [(each,) for each in ids])
            return
        documents = service.list_documents(
            dataset,
            prefix=prefix,
            after=after,
            limit=limit,
            where=conditions(where or [], "--where"),
            sort=sort,
        )
    if output.as_json:
        output.emit({"dataset": dataset, "documents": to_json(documents)})
        return
    output.table(
        ("name", "version", "bytes", "updated"),
        [
            (each.name, each.version, each.size, each.updated_at.isoformat(timespec="seconds"))
            for each in documents
        ],
    )
    if not documents:
        output.note("no documents")
