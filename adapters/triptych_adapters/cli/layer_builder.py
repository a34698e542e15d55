"""``triptych layers plan``, ``build`` and ``ledger``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import attrs

from triptych._internal.plurals import counted
from triptych.errors import ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_for
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.query_options import DocumentDataset
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.layers import Cost, LayerBuilder, LayerPlan
    from triptych.records import ModelUsage, Prices
    from triptych.service import Service
    from triptych_adapters.wire.build_layers import LayerBuild

_NAMES = Annotated[
    list[str] | None,
    argument(
        "NAME", "Documents and folders to look at, with the folders around. Without any: all."
    ),
]
_LLM = Annotated[
    str | None,
    option(
        "--llm PROVIDER:MODEL",
        "What writes: ollama:…, openai:…, anthropic:… or none. By default the setting llm; "
        "without a model, sentences of the documents themselves are taken.",
    ),
]
_RETRY = Annotated[bool, option("--retry-quarantined", "Try again what broke the model before.")]
_REWRITE = Annotated[bool, option("--rewrite", "Replace stale layers that a person wrote.")]
_WIDTH = 60
"""Characters of a signature that a remark shows; --json has all of it."""
_PRICE_IN = Annotated[float | None, option("--price-input", "Price of a million tokens in.")]
_PRICE_OUT = Annotated[float | None, option("--price-output", "Price of a million tokens out.")]


@command("triptych layers plan --llm ollama:llama3.2", "triptych layers plan --list")
def plan(
    session: Session,
    names: _NAMES = None,
    dataset: DocumentDataset = None,
    llm: _LLM = None,
    listed: Annotated[bool, option("--list", "List every artifact.")] = False,
    retry_quarantined: _RETRY = False,
    rewrite: _REWRITE = False,
    price_input: _PRICE_IN = None,
    price_output: _PRICE_OUT = None,
) -> None:
    """Show which layers are stale, why, and what making them costs; ask no model.

    Calls and tokens are estimates. Those of folders around a stale document are counted apart:
    they fall due only if the abstracts of their children change.
    """
    from triptych.records.serialization import to_json

    prices = _prices(price_input, price_output)
    with _builder(session, llm, prices, asked=False) as (builder, service):
        dataset, names = _named(service, dataset, names)
        made = builder.plan(
            dataset, names=names or None, retry_quarantined=retry_quarantined, rewrite=rewrite
        )
        planned: list[dict[str, Any]] = to_json(list(made)) if listed else []
    output = session.output
    for warning in made.warnings:
        output.warn(warning)
    if output.as_json:
        output.emit(_priced(to_json(made), prices) | ({"planned": planned} if listed else {}))
        return
    output.note(_estimate(made, prices))
    if listed:
        columns = ("name", "layer", "reason", "conditional", "calls")
        rows = [
            (
                each["doc_name"],
                each["layer"],
                each["reason"],
                each["conditional"],
                each["cost"]["calls"],
            )
            for each in planned
        ]
        output.table(columns, rows)
    else:
        output.table(("layers", dataset), list(_counts(made).items()))


@command(
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
    price_input: _PRICE_IN = None,
    price_output: _PRICE_OUT = None,
) -> Exit:
    """Make the layers that are missing or stale: documents, then folders, then the dataset.

    Each is stored as soon as it is made; what is cut off goes on with the next build. A document
    that breaks the model is quarantined, and not tried again before it, the prompt or the model
    changes.
    """
    from triptych_adapters.cli.progress import shown
    from triptych_adapters.wire.build_layers import LayerBuild
    from triptych_factory.remote import is_server

    prices = _prices(price_input, price_output)
    output = session.output
    if is_server(session.settings().url):
        _check_served(llm, prices, max_cost)
        return _tell(
            session,
            _build_there(
                session,
                dataset or "default",
                names=names or None,
                max_calls=max_calls,
                max_tokens=max_tokens,
                extractive=llm == "none",
                retry_quarantined=retry_quarantined,
                rewrite=rewrite,
            ),
        )
    with _builder(session, llm, prices, concurrency) as (builder, service):
        dataset, names = _named(service, dataset, names)
        made = builder.plan(
            dataset, names=names or None, retry_quarantined=retry_quarantined, rewrite=rewrite
        )
        output.note(_estimate(made, prices))
        total = made.artifacts + made.conditional
        with shown(output, "layers", total=total) as progress:
            report = builder.apply(
                made,
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_cost=max_cost,
                concurrency=concurrency,
                progress=progress,
            )
    return _tell(session, LayerBuild.of(made, report))


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


def _build_there(session: Session, dataset: str, **options: Any) -> LayerBuild:
    from triptych_adapters.client import RemoteService

    with session.service() as service:
        assert isinstance(service, RemoteService)
        return service.build_layers(dataset, **options)


def _tell(session: Session, built: LayerBuild) -> Exit:
    from triptych.records.serialization import to_json

    output, report = session.output, built.report
    least = report.least if report.stopped == "max_cost" else math.ceil(report.least or 0)
    for warning in report.warnings:
        output.warn(warning)
    for quarantined in report.quarantined:
        name = quarantined.doc_name or "the dataset itself"
        output.warn(
            f"{name}: its {quarantined.layer} is quarantined ({quarantined.reason}): "
            f"{quarantined.message}"
        )
    for failure in report.failed:
        output.warn(f"{failure.name or 'the dataset itself'}: {failure.error}")
    if report.least is not None:
        option = f"--{str(report.stopped).replace('_', '-')}"
        output.warn(f"{option} is too small for any layer: the least that would do is {least}")
    elif report.stopped is not None:
        output.warn(f"ended by {report.stopped}: build again to go on")
    if output.as_json:
        output.emit(to_json(built))
    elif not output.quiet:
        counts = {
            "made": report.made,
            "unchanged": report.unchanged,
            "removed": report.removed,
            "quarantined": len(report.quarantined),
            "failed": len(report.failed),
            "kept": built.kept,
            "calls": report.calls,
        }
        output.table(("layers", built.dataset_id), list(counts.items()))
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
        bool, option("--quarantined", "List what broke a model instead.")
    ] = False,
) -> None:
    """Show what making a dataset's layers cost so far, by model."""
    from triptych.layers import LayerBuilder
    from triptych.records.serialization import to_json
    from triptych_factory.remote import check_local

    check_local(session.settings(), "making layers")
    with session.service() as service:
        service.list_documents(dataset, limit=1)  # raises where there is no such dataset
        builder = LayerBuilder(service)
        usage, broken = builder.ledger(dataset), builder.quarantined(dataset)
    output = session.output
    if output.as_json:
        output.emit({"dataset_id": dataset, **to_json({"usage": usage, "quarantined": broken})})
    elif quarantined:
        output.table(
            ("name", "layer", "reason", "message"),
            [(each.doc_name, str(each.layer), each.reason, each.message) for each in broken],
        )
    else:
        output.table(
            ("model", "calls", "failures", "tokens in", "tokens out", "cost"),
            [_usage_row(each) for each in usage],
        )


def _usage_row(usage: ModelUsage) -> tuple[object, ...]:
    return (
        usage.model,
        usage.calls,
        usage.failures,
        usage.input_tokens,
        usage.output_tokens,
        round(usage.cost, 4),
    )


@contextmanager
def _builder(
    session: Session,
    llm: str | None,
    prices: Prices | None,
    concurrency: int = 1,
    *,
    asked: bool = True,
) -> Iterator[tuple[LayerBuilder, Service]]:
    """A builder, and the store in force; one that is not ``asked`` can only plan."""
    from triptych.layers import LayerBuilder
    from triptych.layers.builder.builder import RESERVED_TOKENS
    from triptych_factory.llms import planned_llm
    from triptych_factory.remote import check_local

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
    service: Service, dataset: str | None, names: Sequence[str] | None
) -> tuple[str, list[str]]:
    """The dataset, and what documents are called in it; the other names are of folders."""
    from triptych_adapters.cli.names import find_documents

    dataset, found, others = find_documents(service, names or (), dataset)
    return dataset, [*found.values(), *others]


def _prices(price_input: float | None, price_output: float | None) -> Prices | None:
    from triptych.records import Prices

    if price_input is None and price_output is None:
        return None
    if price_input is None or price_output is None:
        raise ValidationError("give --price-input and --price-output: both or none")
    return Prices(input=price_input, output=price_output)


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
