"""Options that several commands share, and converting their values.

Those of what searches make a query; others are conditions, metadata, moments and lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from triptych.errors import TriptychError, ValidationError
from triptych_adapters.cli.command import argument, option

if TYPE_CHECKING:
    from triptych.answers import ContextPack, ContextPrefix
    from triptych.records import Prices, Result
    from triptych.service import KnowledgeBase
    from triptych_adapters.cli.output import Output

_COMPARISON = re.compile("[<>!]$")
_OPERATORS = {">": "$gte", "<": "$lte", "!": "$ne"}
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TTL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*")


def conditions(values: Sequence[str], option: str, *, exact: bool = False) -> dict[str, Any]:
    """The ``where`` of ``KEY=VALUE`` options and JSON objects, all of which must hold.

    A key that comes several times may have any of its values. A value stands for the number, the
    boolean or the date that is written so, and for a list that holds it; if ``exact``, for text.
    """
    from triptych.records.where import parse_filter
    from triptych.search.syntax import merge_where

    plain, objects = _parted(values, option)
    several = pairs(plain, option)
    for key in several:
        sign = _COMPARISON.search(key)
        if sign:
            name = key[: sign.start()].strip()
            raise ValidationError(
                f"{option} {key}=… is not KEY=VALUE: a comparison is written as JSON, such as "
                f'\'{{"{name}": {{"{_OPERATORS[sign[0]]}": …}}}}\''
            )
    where: dict[str, Any] = {
        key: found[0] if len(found) == 1 else found for key, found in several.items()
    }
    if where and not exact:
        parse_filter(where)  # refuses values that look like comparisons
        own = {key: value for key, value in where.items() if key.startswith("$")}
        fields = {key: tuple(found) for key, found in several.items() if key not in own}
        where = dict(merge_where(own, fields)) if fields else own
    if where:
        objects.insert(0, where)
    return objects[0] if len(objects) == 1 else {"$and": objects} if objects else {}


def metadata_of(values: Sequence[str], option: str) -> dict[str, Any]:
    """The metadata of ``KEY=VALUE`` options, whose values are text, and JSON objects."""
    plain, objects = _parted(values, option)
    given = [{key: value} for key, found in pairs(plain, option).items() for value in found]
    metadata: dict[str, Any] = {}
    for entries in [*given, *objects]:
        for key, value in entries.items():
            if key in metadata:
                raise ValidationError(f"{option} gives {key!r} several times: give it once")
            metadata[key] = value
    return metadata


def _parted(values: Sequence[str], option: str) -> tuple[list[str], list[dict[str, Any]]]:
    """``KEY=VALUE`` options, and those that are JSON objects."""
    plain, objects = [], []
    for value in values:
        if not value.lstrip().startswith("{"):
            plain.append(value)
            continue
        try:
            objects.append(json.loads(value, object_pairs_hook=_unique_keys))
        except ValidationError as error:
            raise ValidationError(f"{option} {value[:60]!r} {error}") from None
        except RecursionError:
            raise ValidationError(f"{option} {value[:60]!r} is nested too deeply") from None
        except ValueError as error:
            raise ValidationError(
                f"{option} {value[:60]!r} is not a JSON object: {error}"
            ) from None
    return plain, objects


def _unique_keys(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which Python would keep the last of several values for a key."""
    found: dict[str, Any] = {}
    for key, value in entries:
        if key in found:
            raise ValidationError(f"gives {key!r} several times: give it once")
        found[key] = value
    return found


def pairs(values: Sequence[str], option: str) -> dict[str, list[str]]:
    """``KEY=VALUE`` options by key, every value in the order given."""
    found: dict[str, list[str]] = {}
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            raise ValidationError(f"{option} {value!r} is not KEY=VALUE")
        found.setdefault(key, []).append(rest)
    return found


def expiry_of(
    expires: str | None, ttl: str | None, *, what: str = "document"
) -> datetime | Literal["never"] | None:
    """What ``--expires`` and ``--ttl`` say of a ``what``; None where neither is given.

    Raises:
        ValidationError: both are given, one cannot be read, or the moment has passed.
    """
    if expires is not None and ttl is not None:
        raise ValidationError("--expires and --ttl both set the expiry: give one of them")
    now = datetime.now(UTC)
    if ttl is not None:
        found = _TTL.fullmatch(ttl)
        try:
            if found is None:
                raise ValueError(ttl)
            moment = now + timedelta(**{_UNITS[found[2]]: float(found[1])})
        except (ValueError, OverflowError):
            raise ValidationError(
                f"--ttl {ttl!r} is not a duration: write 30d, 12h, 90m, 45s or 2w"
            ) from None
    elif expires is None or expires == "never":
        return "never" if expires else None
    else:
        try:
            moment = datetime.fromisoformat(expires)
        except ValueError:
            raise ValidationError(
                f"--expires {expires!r} is not a time in ISO 8601: write 2026-12-31, "
                "2026-12-31T18:00Z or never"
            ) from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if ttl is not None and moment <= now:
        raise ValidationError("--ttl must be more than 0")
    if moment <= now:
        raise ValidationError(f"the {what} would have expired already: give a later moment")
    return moment


def names(text: str) -> list[str]:
    """The parts of a text with commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


def numbers(text: str, option: str) -> list[int]:
    """The whole numbers in a text with commas.

    Raises:
        ValidationError: one is not a whole number; it names ``option``.
    """
    try:
        return [int(each) for each in names(text)]
    except ValueError:
        raise ValidationError(
            f"{option} {text!r} is not whole numbers separated by commas"
        ) from None


ModeChoice = Literal["bm25", "vector", "hybrid", "sparse"]
"""The lanes to run; the domain's own enum would bring NumPy into every ``--help``."""
LayerChoice = Literal["L0", "L1", "L2"]
"""What to find; apart from the domain's enum for the same reason."""
QueryArgument = Annotated[list[str], argument("QUERY", "A question, or some words.")]
OptionalQuery = Annotated[
    list[str] | None,
    argument("QUERY", "A question, or some words. Without QUERY, --where lists all matches."),
]
Dataset = Annotated[str | None, option("--dataset -d", "Search this dataset only.")]
Language = Annotated[
    str | None,
    option(
        "--language",
        "The language of the dataset's texts, from now on; auto finds each text's.",
    ),
]
DocumentDataset = Annotated[
    str | None,
    option("--dataset -d", "The dataset of the documents. By default 'default', or the only one."),
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
        "Only documents with this metadata, or by doc_name, doc_prefix or heading. Repeat a key "
        'to allow several values. Or a condition in JSON: \'{"year": {"$gte": 2024}}\'.',
    ),
]
PipelineOption = Annotated[
    str | None,
    option(
        "--pipeline NAME",
        "Use this pipeline of triptych.toml; other options override its options. `triptych list "
        "--pipelines` lists them.",
    ),
]
AnswerModel = Annotated[
    str | None,
    option(
        "--llm PROVIDER:MODEL",
        "The model that answers. By default the setting llm, or the pipeline's.",
    ),
]
AsOf = Annotated[
    str | None,
    option(
        "--as-of MOMENT",
        "Search the store as of a time, such as 2026-11-01 or 2026-11-01T12:00+01:00 (by default "
        "in UTC), or as of a version number. Slower.",
    ),
]
PriceInput = Annotated[
    float | None, option("--price-input PRICE", "Price of a million input tokens.")
]
PriceOutput = Annotated[
    float | None, option("--price-output PRICE", "Price of a million output tokens.")
]
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
        fields["mode"] = mode
    if fresh_only:
        fields["fresh_only"] = True
    if dataset is not None:
        fields["dataset_id"] = dataset
    fields["where"] = conditions(where or [], "--where")
    return fields


def asked_of(
    service: KnowledgeBase,
    pipeline: str | None,
    words: Sequence[str] | None,
    fields: Mapping[str, Any],
) -> tuple[Any, Any, Mapping[str, Any]]:
    """Whom to ask, what, and by which options: the Service a whole query; its view by ``pipeline``,
    which says what is not given, the text and ``fields``."""
    from triptych.records import Query, Scope

    text = " ".join(words or ())
    if pipeline is not None:
        return service.pipeline(pipeline), text, fields
    scope = Scope.SINGLE if "dataset_id" in fields else Scope.ALL
    return service, Query(text=text, scope=scope, **fields), {}


def moment_note(answer: Result | ContextPack | ContextPrefix) -> str:
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
    output: Output, service: KnowledgeBase, dataset: str | None, where: Mapping[str, Any]
) -> None:
    """Say what of a filter that found nothing no document has, and which fields there are."""
    if where:
        datasets = service.list_datasets() if dataset is None else [dataset]
        with suppress(TriptychError):  # an access, what is damaged
            result = service.search("", where=where, top_k=1, dataset_ids=datasets)
            output.warn(*([] if result.hits else result.warnings))
