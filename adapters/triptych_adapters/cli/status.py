"""``triptych status`` and ``triptych doctor``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

from triptych._internal.wording import counted
from triptych.errors import NotAvailableError, NotFoundError, StoreError, TriptychError
from triptych_adapters.cli.command import command, option
from triptych_adapters.cli.session import Exit, Session, exit_for, uncovered

if TYPE_CHECKING:
    from triptych.records import CacheStats, DatasetStats, DoctorReport, Health, Unread
    from triptych.service import KnowledgeBase
    from triptych_adapters.cli.output import Output
    from triptych_factory import Settings

_COLUMNS = {
    "dataset": "dataset_id",
    **{name: name for name in ("documents", "chunks", "vectors", "layers", "stale", "pending")},
    "bytes": "size",
}
"""What is shown of a dataset: columns, and the fields of `DatasetStats` in them."""


@command("triptych status", "triptych status --json | jq '.problems'")
def status(session: Session) -> Exit:
    """Show the store, every setting with its source, the datasets, and problems.

    It tests the store, the search index and the embedder; if one fails, the exit code says so.
    """
    from triptych_factory import wire

    settings, output = session.settings(), session.output
    service, failure = None, None
    with ExitStack() as stack:
        try:
            service = stack.enter_context(wire(settings.without_llm(), create=False))
        except TriptychError as error:
            failure = error  # reported after the settings
        about = _about(settings, service)
        if not output.as_json:
            _show_head(output, about, settings.sources.get("url", "default"))
            if service is None:
                _show_settings(output, settings)
        for variable in about["unknown_variables"]:
            output.warn(f"the variable {variable} names no setting")
        if service is not None:
            return _report(session, settings, service, about)
    if not isinstance(failure, NotFoundError):
        assert failure is not None  # it says why there is no Service
        raise failure
    output.show(
        about,
        {"datasets": [], "health": [], "problems": ["there is no store yet"]},
        note="there is no store yet: `triptych put PATH` makes it",
    )
    return Exit.OK


def _about(settings: Settings, service: KnowledgeBase | None) -> dict[str, Any]:
    """What is known without a look into the store."""
    from triptych_backends.index import kernels
    from triptych_factory.embedders import settings_embedder
    from triptych_factory.locations import parse_location
    from triptych_factory.settings import unknown_variables

    location = parse_location(settings.url)
    embedder = (
        settings_embedder(settings, settings.embedder)
        if service is None
        else service.options.embedder
    )
    return {
        "store": {
            "location": str(location),
            "scheme": location.scheme,
            "exists": location.path is None or location.path.exists(),
        },
        "embedder": None if embedder is None else embedder.signature,
        "kernels": kernels.in_use,
        "settings": {
            each.name: {"value": each.value, "source": each.source} for each in settings.explain()
        },
        "unknown_variables": list(unknown_variables()),
        "not_in_force": settings.notice or None,
    }


def _report(
    session: Session, settings: Settings, service: KnowledgeBase, about: Mapping[str, Any]
) -> Exit:
    """What is in the store, and what is wrong with it."""
    from triptych.contracts.pages import MOST_READ, unread_of
    from triptych.search.file_location import synced_folders
    from triptych_adapters.cli.folders import tell_first
    from triptych_adapters.wire.build_layers import stale_layers
    from triptych_server.telemetry.metrics import figures

    output = session.output
    datasets: list[DatasetStats] = []
    layers: dict[str, int | None] = {}
    health = service.health()
    cache: CacheStats | None = None
    unread: dict[str, dict[str, Unread]] = {}
    with suppress(StoreError):  # reported by the health check
        datasets = service.stats()
        cache = _cache(service)
        layers = stale_layers(service, datasets)
        unread = {
            each.dataset_id: dict(unread_of(service.list_documents, each.dataset_id))
            for each in datasets
        }
    problems = [str(check) for check in health.problems]
    problems += [
        f"dataset {name!r} has {counted(count, 'stale layer')}: `triptych layers build --dataset "
        f"{shlex.quote(name)}` makes {'it' if count == 1 else 'them'} again"
        for name, count in layers.items()
        if count
    ]
    problems += [
        f"dataset {name!r}: {doc_name!r} has {each}"
        for name, found in unread.items()
        for doc_name, each in found.items()
        if each.no_text
    ]
    if output.as_json:
        output.show(
            about,
            {"datasets": datasets, "cache": cache, "health": health.checks, "problems": problems},
            {"stale_layers": layers, "unread": unread},
            # The names that /metrics has.
            {"figures": figures(datasets, cache), "server": _server_metrics(service)},
        )
        return _ended(health)
    rows = (
        [
            *(getattr(each, field) for field in _COLUMNS.values()),
            each.config and each.config.language,
        ]
        for each in datasets
    )
    output.table([*_COLUMNS, "language"], rows, title="datasets")
    spaces = [row for each in datasets for row in _spaces(each)]
    if spaces:
        kinds = ("vectors of", "dataset", "vectors", "width", "pending")
        output.table(kinds, [(_fitting(output, row[0]), *row[1:]) for row in spaces])
    _show_settings(output, settings)
    if cache is not None:
        output.note(
            f"semantic cache: {counted(cache.entries, 'answer')} kept, "
            f"{counted(cache.hits, 'hit')}, {counted(cache.misses, 'miss', 'misses')}"
        )
    for problem in problems:
        output.warn(problem)
    for check in health.checks:
        if check.name == "search settings" and check.status == "ok":
            output.note(check.detail)
    uncounted = [name for name, count in layers.items() if count is None]
    if not problems:
        rest = ", except perhaps layers" if uncounted else ""
        output.note(
            f"everything that is stored is fresh{rest}" if datasets else "the store is empty"
        )
    tell_first(output, list(_omitted(unread)), "triptych doctor")
    for each in datasets:
        if each.documents > MOST_READ:
            output.note(
                f"of dataset {each.dataset_id!r} only the first {MOST_READ:,} documents were "
                "looked at for words of their files that are not searched: `triptych doctor` "
                "reads all"
            )
    for name in uncounted:
        output.note(f"dataset {name!r} has so many layers that the stale ones were not counted")
    kept = service.capabilities.settings
    with suppress(StoreError):
        if kept is not None and synced_folders(kept):
            output.note(
                "files on disk were not compared: `triptych sync` looks at them again, and "
                "`triptych list --folders` says when it last did"
            )
    session.tell_embedder(service, settings)
    return _ended(health)


def _show_head(output: Output, about: Mapping[str, Any], source: str) -> None:
    """The store, and the embedder and the inner loops of searches in use."""
    location, embedder = about["store"]["location"], about["embedder"]
    embedder = embedder or "none: keyword search only"
    if output.stdout.is_terminal:
        # In a narrow terminal a table would cut the path.
        output.say(f" store: {location} ({source})")
        output.say(_fitting(output, f" embedder in use: {embedder}"))
        output.say(_fitting(output, f" search kernels: {about['kernels']}") + "\n")
    else:
        kernels = ("search kernels", about["kernels"], "")
        output.table((), [("store", location, source), ("embedder in use", embedder, ""), kernels])


def _show_settings(output: Output, settings: Settings) -> None:
    """Each setting with its source."""
    rows = [
        (each.name, "" if each.value is None else each.value, each.source)
        for each in settings.explain()
        if each.name != "url"
    ]
    output.table(("setting", "value", "source"), rows, title="settings", folds=True)


def _omitted(unread: Mapping[str, Mapping[str, Unread]]) -> Iterator[str]:
    """A line for each document with words of its file that are not searched."""
    for dataset, found in unread.items():
        for doc_name, each in found.items():
            if not each.no_text:
                yield f"dataset {dataset!r}: {doc_name!r}: {each}"


def _fitting(output: Output, text: str) -> str:
    """``text`` on one line of the terminal; whole where the output is piped."""
    width = output.stdout.width - 2
    return f"{text[: width - 1]}…" if output.stdout.is_terminal and len(text) > width else text


def _spaces(stats: DatasetStats) -> Iterator[tuple[str, str, int, int | str, int | str]]:
    """The vectors of a dataset by model; of further ones the documents that wait for theirs."""
    for space in stats.spaces:
        yield space.embed_sig, stats.dataset_id, space.vectors, space.dimension, ""
    for further in stats.further_spaces:
        yield further.sig, stats.dataset_id, further.vectors, "", further.pending


def _cache(service: KnowledgeBase) -> CacheStats | None:
    """What the semantic cache did; None where there is none and never was."""
    from triptych.records import CacheStats

    try:
        found = service.cache_stats()
    except NotAvailableError:
        return None
    unused = found == CacheStats() and service.options.semantic_cache is None
    return None if unused else found


def _server_metrics(service: KnowledgeBase) -> list[dict[str, Any]] | None:
    """What the server counted: None without one, or where it does not show that to this caller."""
    connection = getattr(service, "connection", None)
    if connection is None:
        return None
    try:
        found: list[dict[str, Any]] = json.loads(connection.get("/metrics"))
    except TriptychError:
        return None
    return found


def _ended(health: Health) -> Exit:
    """The exit code of the first check that failed; warnings are none."""
    failed = next((check for check in health.checks if check.status == "failed"), None)
    return Exit.OK if failed is None else exit_for(failed.error or RuntimeError(failed.detail))


@command("triptych doctor", "triptych doctor --repair", "triptych doctor --json | jq '.findings'")
def doctor(
    session: Session,
    dataset: Annotated[
        str | None, option("--dataset -d", "Check only this dataset, and the store itself.")
    ] = None,
    repair: Annotated[
        bool, option("--repair", "Repair data that can be derived again from the documents.")
    ] = False,
) -> Exit:
    """Check all stored data, and report what is wrong and why it matters.

    Reads everything: documents and old versions (against their checksums), chunks, vectors, layers,
    data without an owner, the database, the search index, records of syncs, and the model's files.
    This takes a while; `triptych status` is the quick check. A repair deletes wrong derived data
    and derives it again; it never deletes or changes a document. For pipelines over existing tables
    it checks columns and indexes.
    """
    from triptych_factory.syncing import examined_syncs
    from triptych_factory.tables import examined_tables

    output, settings = session.output, session.settings().without_llm()
    with session.service(settings=settings) as service, output.progress("examining") as progress:
        report = service.doctor(repair=repair, dataset_id=dataset, progress=progress)
        coverage = uncovered(service, dataset)
        report = examined_syncs(report, settings, repair=repair)
        if dataset is None:
            report = examined_tables(report, settings)
    output.show(
        {"dataset_id": dataset},
        report,
        {"coverage": coverage},
        lines=_lines(report, repair=repair),
        note=[*_notes(report), *coverage],
    )
    if report.clean:
        return Exit.OK
    of_model = all(finding.check == "embedder.weights" for finding in report.findings)
    return Exit.MODEL if of_model else Exit.STORE


def _lines(report: DoctorReport, *, repair: bool) -> Iterator[str]:
    for finding in report.repaired:
        yield f"repaired {finding}"
    for finding in report.findings:
        yield str(finding)
        yield f"  why: {finding.why}"
        how = f"{'not repaired' if repair else '--repair repairs it'}: {finding.repair}"
        yield f"  {how if finding.repairable else f'beyond repair: {finding.remedy}'}"


_LEFT_OUT = 20


def _notes(report: DoctorReport) -> Iterator[str]:
    yield from report.actions
    for skipped in report.skipped:
        yield f"not looked at: {skipped}"
    for left_out in report.left_out[:_LEFT_OUT]:
        yield f"not searched: {left_out}"
    if len(report.left_out) > _LEFT_OUT:
        yield f"and {len(report.left_out) - _LEFT_OUT:,} more such lines; --json lists them all"
    yield from report.advice
    checked = ", ".join(
        counted(count, what.removesuffix("s"), what) for what, count in report.checked.items()
    )
    ending = "all is well" if report.clean else counted(len(report.findings), "problem")
    yield f"checked {checked or 'an empty store'}: {ending}"
