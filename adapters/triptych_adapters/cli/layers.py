"""``triptych layers show``, ``build`` and ``ledger``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych._internal.wording import counted
from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.names import dataset_in_use, find_document, find_documents
from triptych_adapters.cli.options import (
    DocumentDataset,
    LayerChoice,
    PriceInput,
    PriceOutput,
    prices_of,
)
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Exit, Session, exit_for

if TYPE_CHECKING:
    from triptych.layers import Cost, LayerBuilder, LayerPlan
    from triptych.records import Prices
    from triptych.service import KnowledgeBase
    from triptych_adapters.wire.build_layers import LayerBuild

_NAMES = Annotated[
    list[str] | None,
    argument("NAME", "Documents and folders, with the folders that contain them. By default all."),
]
_LLM = Annotated[
    str | None,
    option(
        "--llm PROVIDER:MODEL",
        "The model: ollama:…, openai:…, anthropic:… or none. By default the setting llm. Without "
        "a model, layers consist of sentences of the documents.",
    ),
]
_RETRY = Annotated[bool, option("--retry-quarantined", "Try quarantined documents again.")]
_REWRITE = Annotated[bool, option("--rewrite", "Replace stale layers that a person wrote.")]
_WIDTH = 60
"""Characters of a signature that a remark shows; --json has all of it."""


@command(
    "triptych layers show start.md",
    "triptych layers show guide/",
    "triptych layers show --dataset-layer",
)
def show(
    session: Session,
    name: Annotated[
        str | None, argument("NAME", "The document or its file, or a folder: guide/.")
    ] = None,
    dataset_layer: Annotated[
        bool, option("--dataset-layer", "Show the dataset's own layers instead.")
    ] = False,
    dataset: DocumentDataset = None,
    layer: Annotated[LayerChoice | None, option("--layer -l", "L0 or L1. By default both.")] = None,
) -> None:
    """Show the abstract and the overview of a document, a folder or a whole dataset."""
    if (name is None) is not dataset_layer:
        raise ValidationError("give either a document or --dataset-layer")
    if layer == "L2":
        raise ValidationError("L2 is the chunks: find them with `triptych search`")
    wanted = ("L0", "L1") if layer is None else (layer,)
    with session.service() as service:
        if name is not None and not name.endswith("/"):
            named = find_document(service, name, dataset)
            dataset, name = named.dataset_id, named.name
        dataset = dataset_in_use(service, dataset)
        if name is None:
            found = [service.dataset_layer(dataset, each) for each in wanted]
        else:
            found = [service.layer(dataset, name, each) for each in wanted]
    layers = [each for each in found if each is not None]
    if not layers:
        whose = f"dataset {dataset!r}" if name is None else f"{name!r}"
        raise NotFoundError(f"{whose} has no such layer yet: `triptych layers build` makes it")
    output = session.output
    if output.as_json:
        output.show({"layers": layers})
    for each in () if output.as_json else layers:
        stale = "" if each.stale is None else f" (stale: {each.stale})"
        output.note(f"{each.layer} of {each.doc_name or 'the dataset ' + dataset}{stale}")
        output.say(each.content)


@command(
    "triptych layers build --dry-run --llm ollama:llama3.2     what is stale, and the cost",
    "triptych layers build --llm none",
    "triptych layers build --llm openai:gpt-4o-mini --max-calls 100",
)
def build(
    session: Session,
    names: _NAMES = None,
    dataset: DocumentDataset = None,
    llm: _LLM = None,
    max_calls: Annotated[
        int | None, option("--max-calls", "Maximum number of calls.", min=0)
    ] = None,
    max_tokens: Annotated[
        int | None, option("--max-tokens", "Maximum number of tokens.", min=0)
    ] = None,
    max_cost: Annotated[float | None, option("--max-cost", "Maximum cost; needs prices.")] = None,
    concurrency: Annotated[int, option("--concurrency", "Calls at a time.", min=1, max=64)] = 4,
    retry_quarantined: _RETRY = False,
    rewrite: _REWRITE = False,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
    dry_run: Annotated[
        bool,
        option(
            "--dry-run -n",
            "Show which layers are stale, why, and the cost of making them; call no model.",
        ),
    ] = False,
    listed: Annotated[bool, option("--list", "With --dry-run: list every layer.")] = False,
) -> Exit:
    """Generate missing and stale layers: of documents, then folders, then the dataset.

    Each layer is stored at once; an interrupted build continues with the next one. A document for
    which the model fails is quarantined, and not tried again until it, the prompt or the model
    changes. --dry-run estimates calls and tokens. Those for folders of a stale document are counted
    separately, because they are needed only if the abstracts in them change.
    """
    from triptych_adapters.wire.build_layers import LayerBuild
    from triptych_factory.locations import is_server

    if listed and not dry_run:
        raise ValidationError("--list lists the layers of --dry-run: give both")
    prices = prices_of(price_input, price_output)
    output = session.output
    chosen: dict[str, Any] = {"retry_quarantined": retry_quarantined, "rewrite": rewrite}
    if dry_run:
        with _builder(session, llm, prices, asked=False) as (builder, service):
            dataset, names = _named(service, dataset, names)
            made = builder.plan(dataset, names=names or None, **chosen)
            _show_plan(output, made, prices, listed=listed)
        return Exit.OK
    if is_server(session.settings().url):
        _check_served(llm, prices, max_cost)
        from triptych_server.client import RemoteService

        with session.service() as remote:
            assert isinstance(remote, RemoteService)
            built = remote.build_layers(
                dataset_in_use(remote, dataset),
                names=names or None,
                **chosen,
                max_calls=max_calls,
                max_tokens=max_tokens,
                extractive=llm == "none",
            )
        return _tell(session, built)
    with _builder(session, llm, prices, concurrency) as (builder, service):
        dataset, names = _named(service, dataset, names)
        made = builder.plan(dataset, names=names or None, **chosen)
        output.note(_estimate(made, prices))
        total = made.artifacts + made.conditional
        with output.progress("layers", total=total) as progress:
            report = builder.apply(
                made,
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_cost=max_cost,
                concurrency=concurrency,
                progress=progress,
            )
    return _tell(session, LayerBuild.of(made, report))


def _show_plan(output: Output, made: LayerPlan, prices: Prices | None, *, listed: bool) -> None:
    from triptych.records.serialization import to_json

    output.warn(*made.warnings)
    planned: list[dict[str, Any]] = to_json(list(made)) if listed else []
    if not output.as_json:
        output.note(_estimate(made, prices))
    fields = ("doc_name", "layer", "reason", "conditional")
    rows = ((*(each[name] for name in fields), each["cost"]["calls"]) for each in planned)
    output.show(
        _priced(to_json(made), prices),
        {"planned": planned} if listed else {},
        table=(("name", *fields[1:], "calls"), rows)
        if listed
        else (("layers", made.dataset_id), _counts(made).items()),
    )


def _check_served(llm: str | None, prices: Prices | None, max_cost: float | None) -> None:
    """Refuse what a server decides itself.

    Raises:
        ValidationError: a model, prices or a cost are given.
    """
    if llm not in (None, "none") or prices is not None or max_cost is not None:
        raise ValidationError(
            "a server has its own model and prices: leave out --llm (but for none), --max-cost and "
            "the prices, and limit it by --max-calls and --max-tokens"
        )


def _tell(session: Session, built: LayerBuild) -> Exit:
    output, report = session.output, built.report
    least = report.least if report.stopped == "max_cost" else math.ceil(report.least or 0)
    output.warn(*report.warnings)
    for quarantined in report.quarantined:
        name = quarantined.doc_name or "the dataset itself"
        output.warn(
            f"{name}: its {quarantined.layer} is quarantined ({quarantined.reason}): "
            f"{quarantined.message}"
        )
    for failure in report.failed:
        name = failure.name or "the dataset itself"
        what = f"{name} {failure.layer}" if failure.layer else name
        output.warn(f"{what}: {failure.error}")
    if report.least is not None:
        option = f"--{str(report.stopped).replace('_', '-')}"
        output.warn(f"{option} is too small for any layer: the minimum is {least}")
    elif report.stopped == "provider":
        output.warn("ended, as the model's provider kept failing: build again when it answers")
    elif report.stopped is not None:
        output.warn(f"ended by {report.stopped}: build again to continue")
    counts = {
        "made": report.made,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "quarantined": len(report.quarantined),
        "failed": len(report.failed),
        "kept": built.kept,
        "calls": report.calls,
    }
    if failures := sum(each.failures for each in report.usage):
        counts["failed calls"] = failures
    output.show(built, table=(("layers", built.dataset_id), counts.items()), unless_quiet=True)
    if report.least is not None:
        return Exit.USAGE
    if not (report.quarantined or report.failed):
        return Exit.OK
    if report.made:
        return Exit.PARTIAL
    return Exit.MODEL if report.quarantined else exit_for(report.failed[0].error)


@command("triptych layers ledger --quarantined")
def ledger(
    session: Session,
    dataset: Annotated[str, option("--dataset -d", "The dataset.")] = "default",
    quarantined: Annotated[
        bool, option("--quarantined", "List quarantined documents instead.")
    ] = False,
) -> None:
    """Show the total cost of a dataset's layers by model."""
    from triptych.layers import LayerBuilder
    from triptych_factory.backends import check_local

    check_local(session.settings(), "making layers")
    with session.service() as service:
        service.list_documents(dataset, limit=1)  # raises if the dataset does not exist
        builder = LayerBuilder(service)
        usage, broken = builder.ledger(dataset), builder.quarantined(dataset)
    session.output.show(
        {"dataset_id": dataset, "usage": usage, "quarantined": broken},
        table=(
            ("name", "layer", "reason", "message"),
            [(each.doc_name, str(each.layer), each.reason, each.message) for each in broken],
        )
        if quarantined
        else (
            ("model", "calls", "failures", "tokens in", "tokens out", "cost"),
            (
                (e.model, e.calls, e.failures, e.input_tokens, e.output_tokens, round(e.cost, 4))
                for e in usage
            ),
        ),
    )


@contextmanager
def _builder(
    session: Session,
    llm: str | None,
    prices: Prices | None,
    concurrency: int = 1,
    *,
    asked: bool = True,
) -> Iterator[tuple[LayerBuilder, KnowledgeBase]]:
    """A builder, and the store in force; one that is not ``asked`` can only plan."""
    from triptych.layers import LayerBuilder
    from triptych.layers.builder.builder import RESERVED_TOKENS
    from triptych_factory.backends import check_local
    from triptych_factory.llms import planned_llm

    settings = session.settings(llm=llm)
    check_local(settings, "making layers")
    # What is asked for at a time must be let through at a time.
    at_a_time = max(settings.llm_concurrency, concurrency)
    settings = attrs.evolve(settings, llm_concurrency=at_a_time)
    room = max(settings.llm_context - RESERVED_TOKENS, settings.llm_context // 4)
    if asked:
        with session.service(settings=settings) as service:
            yield LayerBuilder(service, input_tokens=room, prices=prices), service
        return
    planned = planned_llm(settings.llm)
    with session.service() as service:
        yield LayerBuilder(service, planned, input_tokens=room, prices=prices), service


def _named(
    service: KnowledgeBase, dataset: str | None, names: Sequence[str] | None
) -> tuple[str, list[str]]:
    """The dataset, and what documents are called in it; the other names are of folders."""
    dataset, found, others = find_documents(service, names or (), dataset)
    return dataset, [*found.values(), *others]


def _counts(made: LayerPlan) -> dict[str, int]:
    return {
        **{str(reason): count for reason, count in made.reasons.items()},
        "conditional": made.conditional,
        "kept": made.kept,
        "calls": made.cost.calls,
        "input_tokens": made.cost.input_tokens,
        "output_tokens": made.cost.output_tokens,
        "conditional_calls": made.conditional_cost.calls,
    }


def _estimate(made: LayerPlan, prices: Prices | None) -> str:
    line = _work(made, prices)
    for count, hand in (
        (made.kept_of_models, "another model"),
        (made.kept - made.kept_of_models, "a person"),
    ):
        if count:
            line += f"; {counted(count, 'stale layer')} by {hand} kept"
    if made.kept_names:
        names = [name or "the dataset itself" for name in made.kept_names]
        more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
        line += f" ({', '.join(names[:10])}{more})"
    return line


def _work(made: LayerPlan, prices: Prices | None) -> str:
    if made.is_empty:
        left = f"; {made.quarantined:,} quarantined" if made.quarantined else ""
        fresh = "nothing is to be made" if made.kept else "every layer is fresh"
        return f"{fresh}{left}"
    if not (made.artifacts or made.conditional):
        return f"to be removed: {counted(made.gone, 'layer')} of folders without documents"
    model = made.model if len(made.model) <= _WIDTH else f"{made.model[: _WIDTH - 1]}…"
    line = f"{counted(made.artifacts, 'layer')} by {model}: {_cost(made.cost, prices)}"
    if made.conditional:
        more = _cost(made.conditional_cost, prices)
        line += f"; up to {made.conditional:,} of folders more: {more}"
    return line


def _cost(cost: Cost, prices: Prices | None) -> str:
    if not cost.calls:
        return "no calls of a model"
    calls = f"about {counted(cost.calls, 'call')}"
    if cost.part_calls:
        calls = (
            f"up to {counted(cost.calls, 'call')} ({cost.part_calls:,} for parts of long documents)"
        )
    line = f"{calls}, {cost.input_tokens:,} tokens in, {cost.output_tokens:,} out"
    if prices is None:
        return line
    return f"{line}, a cost of {prices.of(cost.input_tokens, cost.output_tokens):,.4f}"


def _priced(plan: dict[str, Any], prices: Prices | None) -> dict[str, Any]:
    for key in ("cost", "conditional_cost"):
        cost = plan[key]
        tokens = (cost["input_tokens"], cost["output_tokens"])
        cost["price"] = None if prices is None else prices.of(*tokens)
    return plan
