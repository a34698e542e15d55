"""The options of what searches, and the query that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from triptych.errors import TriptychError, ValidationError
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.values import conditions

if TYPE_CHECKING:
    from triptych.answers import ContextPack
    from triptych.records import Prices, Query, Result
    from triptych.service import Service
    from triptych.service.views import PipelineView
    from triptych_adapters.cli.output import Output


class ModeChoice(StrEnum):
    """The lanes to run; the domain's own enum would bring NumPy into every ``--help``."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"
    SPARSE = "sparse"


class LayerChoice(StrEnum):
    """What to find; apart from the domain's enum for the same reason."""

    ABSTRACT = "L0"
    OVERVIEW = "L1"
    DETAIL = "L2"


QueryArgument = Annotated[list[str], argument("QUERY", "A question, or some words.")]
OptionalQuery = Annotated[
    list[str] | None,
    argument("QUERY", "A question, or some words. Without any, --where lists what passes it."),
]
Dataset = Annotated[str | None, option("--dataset -d", "Search this dataset only.")]
DocumentDataset = Annotated[
    str | None,
    option("--dataset -d", "The dataset of the documents; without any by default 'default'."),
]
ModeOption = Annotated[
    ModeChoice | None,
    option(
        "--mode MODE", "bm25, vector, hybrid or sparse. By default hybrid, or bm25 without a model."
    ),
]
Where = Annotated[
    list[str] | None,
    option(
        "--where -w KEY=VALUE",
        "Only documents with this metadata; doc_name, doc_prefix and heading work too. Repeat "
        'a key to allow several values. Or conditions as JSON: \'{"year": {"$gte": 2024}}\'.',
    ),
]
PipelineOption = Annotated[
    str | None,
    option(
        "--pipeline NAME",
        "Search as this pipeline of triptych.toml does; other options take the place of its "
        "own. `triptych list --pipelines` lists them.",
    ),
]
AsOf = Annotated[
    str | None,
    option(
        "--as-of MOMENT",
        "Search what was stored at a moment, such as 2026-11-01 or 2026-11-01T12:00+01:00, in "
        "UTC unless it says; or a version number. Slower.",
    ),
]
PriceInput = Annotated[float | None, option("--price-input PRICE", "Of a million tokens in.")]
PriceOutput = Annotated[float | None, option("--price-output PRICE", "Of a million tokens out.")]
FreshOnly = Annotated[bool, option("--fresh-only", "Leave out stale hits.")]


def query_fields(
    *,
    dataset: str | None,
    mode: ModeChoice | None,
    where: Sequence[str] | None,
    fresh_only: bool,
    **others: Any,
) -> dict[str, Any]:
    """The fields of `Query` that these options give; ``others`` are some, None where not given."""
    fields = {name: value for name, value in others.items() if value is not None}
    if mode is not None:
        fields["mode"] = str(mode)
    if fresh_only:
        fields["fresh_only"] = True
    if dataset is not None:
        fields["dataset_id"] = dataset
    fields["where"] = conditions(where or [], "--where")
    return fields


def make_query(text: str, fields: Mapping[str, Any], view: PipelineView | None) -> Query:
    """The query of these fields. The pipeline of ``view`` says what is not given."""
    from triptych.records import Query, Scope

    if view is not None:
        return view.pipeline.query(text, fields)
    return Query(text=text, scope=Scope.SINGLE if "dataset_id" in fields else Scope.ALL, **fields)


def moment_note(answer: Result | ContextPack) -> str:
    """What to say of the moment that was searched."""
    if isinstance(answer.as_of, int):
        return f"as of version {answer.as_of}"
    return "" if answer.as_of is None else f"as of {answer.as_of.isoformat()}"


def prices_of(price_input: float | None, price_output: float | None) -> Prices | None:
    """The prices of a model, where both are given."""
    from triptych.records import Prices

    if price_input is None and price_output is None:
        return None
    if price_input is None or price_output is None:
        raise ValidationError("give --price-input and --price-output: both or none")
    return Prices(input=price_input, output=price_output)


def note_unknown_fields(
    output: Output, service: Service, dataset: str | None, *filters: Mapping[str, Any]
) -> None:
    """Say what of the filters that found nothing no document has, and which fields there are."""
    from triptych.records.filters import NAME, conditions_of, parse_filter

    asked = [each for where in filters for each in conditions_of(parse_filter(where))]
    fields = dict.fromkeys(each.field for each in asked if not each.field.startswith("$"))
    prefixes = [
        str(text)
        for each in asked
        if (each.field, each.operator) == (NAME, "starts")
        for _, text in each.values
    ]
    with suppress(TriptychError):  # tables in place, an access, what is damaged
        datasets = service.list_datasets() if dataset is None else [dataset]
        for prefix in prefixes:
            if not any(service.list_documents(each, prefix=prefix, limit=1) for each in datasets):
                output.note(f"no document's name begins with {prefix!r}: see `triptych list`")
        unknown = [
            field
            for field in fields
            if not any(
                service.count_documents(each, where={field: {"$exists": True}}) for each in datasets
            )
        ]
        if unknown:
            seen = [info for each in datasets for info in service.list_documents(each, limit=1000)]
            known = ", ".join(sorted({key for info in seen for key in info.metadata})) or "none"
            missing = ", ".join(map(repr, unknown))
            output.note(f"no document has the field {missing}; the fields there are: {known}")
