"""``triptych status``."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from triptych_adapters.cli.session import Session, command, examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triptych.contracts import Embedder
    from triptych.records import DatasetStats


def register(app: typer.Typer) -> None:
    """Add ``status``."""
    command(
        app,
        "status",
        epilog=examples("triptych status", "triptych status --json | jq '.problems'"),
    )(status)


def status(session: Session) -> None:
    """Show the store, the embedder, every setting with its source, and each dataset's health."""
    from triptych.errors import NotFoundError
    from triptych_adapters.cli.schema import stats_json
    from triptych_factory import wire
    from triptych_factory.embedders import build_embedder
    from triptych_factory.locations import parse_location
    from triptych_factory.settings import unknown_variables

    settings = session.settings()
    location = parse_location(settings.url)
    embedder = build_embedder(settings.embedder)
    output = session.output
    unknown = unknown_variables()
    about: dict[str, Any] = {
        "store": {
            "location": str(location),
            "scheme": location.scheme,
            "exists": location.path is None or location.path.exists(),
        },
        "embedder": None if embedder is None else embedder.signature,
        "settings": {
            each.name: {"value": each.value, "source": each.source} for each in settings.explain()
        },
        "unknown_variables": list(unknown),
    }
    if not output.as_json:
        output.table(
            ("setting", "value", "source"),
            [
                ("store", str(location), settings.sources.get("url", "default")),
                ("embedder in use", about["embedder"] or "none: keyword search alone", ""),
                *(
                    (each.name, "" if each.value is None else each.value, each.source)
                    for each in settings.explain()
                    if each.name != "url"
                ),
            ],
        )
    for variable in unknown:
        output.warn(f"the variable {variable} names no setting")
    try:
        with wire(settings, embedder=embedder, create=False) as service:
            datasets = service.stats()
    except NotFoundError:
        if output.as_json:
            output.emit(about | {"datasets": [], "problems": ["there is no store yet"]})
        else:
            output.note("there is no store yet: `triptych put PATH` makes it")
        return
    problems = find_problems(datasets, embedder)
    if output.as_json:
        rows = [stats_json(each) for each in datasets]
        output.emit(about | {"datasets": rows, "problems": problems})
        return
    output.table(
        ("dataset", "documents", "chunks", "vectors", "layers", "stale", "bytes"),
        [
            (
                each.dataset_id,
                each.documents,
                each.chunks,
                each.vectors,
                each.layers,
                each.stale,
                each.size,
            )
            for each in datasets
        ],
        title="datasets",
    )
    for problem in problems:
        output.warn(problem)
    if not problems:
        output.note("everything is fresh" if datasets else "the store is empty")


def find_problems(datasets: Sequence[DatasetStats], embedder: Embedder | None) -> list[str]:
    """What keeps a dataset from its best answers, each with what to do about it."""
    problems = []
    for each in datasets:
        stored = "" if each.config is None else each.config.embed_sig
        if stored and embedder is None:
            problems.append(
                f"dataset {each.dataset_id!r} has vectors of {stored} and no embedder is in "
                "use: it is searched by keyword alone"
            )
        elif stored and embedder is not None and stored != embedder.signature:
            problems.append(
                f"dataset {each.dataset_id!r} has vectors of {stored}, not of "
                f"{embedder.signature}: use that embedder, or rebuild the dataset"
            )
        elif not stored and embedder is not None and each.chunks:
            problems.append(
                f"dataset {each.dataset_id!r} was made without an embedder: "
                f"`triptych rebuild --dataset {quote(each.dataset_id)}` adds vectors"
            )
        if each.stale:
            problems.append(
                f"{each.stale} of {each.documents} documents in dataset {each.dataset_id!r} are "
                f"stale: `triptych rebuild --dataset {quote(each.dataset_id)}` mends them"
            )
    return problems
