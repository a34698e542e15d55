"""``triptych status``."""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import typer

from triptych._internal.plurals import counted
from triptych_adapters.cli.exits import Exit, exit_for
from triptych_adapters.cli.session import Session, command, examples

if TYPE_CHECKING:
    from triptych.errors import TriptychError
    from triptych.records import CacheStats, DatasetStats, Health
    from triptych.service import Service
    from triptych_factory import Settings


def register(app: typer.Typer) -> None:
    """Add ``status``."""
    command(
        app,
        "status",
        epilog=examples("triptych status", "triptych status --json | jq '.problems'"),
    )(status)


def status(session: Session) -> Exit:
    """Show the store, every setting with its source, the datasets, and what is wrong.

    Store, search index and embedder are tried; one that fails ends this with its exit code.
    """
    from triptych.errors import TriptychError
    from triptych_factory import wire

    settings = session.settings()
    with ExitStack() as stack:
        service, failure = None, None
        try:
            wired = settings.without_llm()
            service = stack.enter_context(wire(wired, create=False))
        except TriptychError as error:
            failure = error  # reported after the settings
        return _report(session, settings, service, failure)


def _report(
    session: Session,
    settings: Settings,
    service: Service | None,
    failure: TriptychError | None,
) -> Exit:
    from triptych.errors import NotFoundError, StoreError
    from triptych_adapters.telemetry.figures import figures
    from triptych_adapters.wire.schema import to_json
    from triptych_factory.embedders import build_embedder
    from triptych_factory.locations import parse_location
    from triptych_factory.settings import unknown_variables

    location = parse_location(settings.url)
    embedder = build_embedder(settings.embedder) if service is None else service.options.embedder
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
        source = settings.sources.get("url", "default")
        # In a narrow terminal a table would cut the path.
        store = [] if output.stdout.is_terminal else [("store", str(location), source)]
        if not store:
            output.say(f" store: {location} ({source})\n")
        output.table(
            ("setting", "value", "source"),
            [
                *store,
                ("embedder in use", about["embedder"] or "none: keyword search only", ""),
                *(
                    (each.name, "" if each.value is None else each.value, each.source)
                    for each in settings.explain()
                    if each.name != "url"
                ),
            ],
        )
    for variable in unknown:
        output.warn(f"the variable {variable} names no setting")
    if isinstance(failure, NotFoundError):
        if output.as_json:
            output.emit(
                about | {"datasets": [], "health": [], "problems": ["there is no store yet"]}
            )
        else:
            output.note("there is no store yet: `triptych put PATH` makes it")
        return Exit.OK
    if failure is not None:
        raise failure
    assert service is not None  # or a failure says why not
    datasets: list[DatasetStats] = []
    health = service.health()
    cache: CacheStats | None = None
    with suppress(StoreError):  # reported by the health check
        datasets = service.stats()
        cache = _cache(service)
    problems = [str(check) for check in health.problems]
    if output.as_json:
        found = {
            "datasets": datasets,
            "cache": cache,
            "health": health.checks,
            "problems": problems,
        }
        numbers = {
            # The names that /metrics has.
            "figures": figures(datasets, cache),
            "server": _server_metrics(service),
        }
        output.emit(about | to_json(found) | numbers)
        return ended(health)
    has_sparse = any(each.sparse_spaces or each.sparse_pending for each in datasets)
    output.table(
        (
            "dataset",
            "documents",
            "chunks",
            "vectors",
            "layers",
            "stale",
            "pending",
            "bytes",
            "vectors of",
            *(("sparse vectors of",) if has_sparse else ()),
        ),
        [
            (
                each.dataset_id,
                each.documents,
                each.chunks,
                each.vectors,
                each.layers,
                each.stale,
                each.pending,
                each.size,
                "; ".join(
                    f"{space.vectors} of {space.embed_sig}, {space.dimension} wide"
                    for space in each.spaces
                ),
                *((_sparse(each),) if has_sparse else ()),
            )
            for each in datasets
        ],
        title="datasets",
    )
    if cache is not None:
        output.note(
            f"semantic cache: {counted(cache.entries, 'answer')} kept, "
            f"{counted(cache.hits, 'hit')}, {counted(cache.misses, 'miss', 'misses')}"
        )
    for problem in problems:
        output.warn(problem)
    if not problems:
        output.note("everything is fresh" if datasets else "the store is empty")
    return ended(health)


def _sparse(stats: DatasetStats) -> str:
    """The sparse vectors of a dataset, and how many documents wait for theirs."""
    said = [f"{space.vectors} of {space.sparse_sig}" for space in stats.sparse_spaces]
    if stats.sparse_pending:
        said.append(f"{stats.sparse_pending} pending")
    return "; ".join(said)


def _cache(service: Service) -> CacheStats | None:
    """What the semantic cache did; None where there is none and never was."""
    from triptych.errors import NotAvailableError
    from triptych.records import CacheStats

    try:
        found = service.cache_stats()
    except NotAvailableError:
        return None
    unused = found == CacheStats() and service.options.semantic_cache is None
    return None if unused else found


def _server_metrics(service: Service) -> list[dict[str, Any]] | None:
    """What the server counted: None without one, or where it does not show that to this caller."""
    from triptych.errors import TriptychError

    connection = getattr(service, "connection", None)
    if connection is None:
        return None
    try:
        found: list[dict[str, Any]] = json.loads(connection.get("/metrics"))
    except TriptychError:
        return None
    return found


def ended(health: Health) -> Exit:
    """The exit code of the first check that failed; warnings are none."""
    failed = next((check for check in health.checks if check.status == "failed"), None)
    return Exit.OK if failed is None else exit_for(failed.error or RuntimeError(failed.detail))
