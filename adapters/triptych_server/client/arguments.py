"""Converting calls of a Service to arguments of operations, and splitting them into requests."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import attrs

from triptych import deadlines
from triptych.answers import ASK_DEFAULTS, CONTEXT_DEFAULTS, FORM_DEFAULTS
from triptych.derivation import PutReportBuilder, new_documents
from triptych.errors import CancelledError, NotAvailableError, ValidationError
from triptych.records import (
    NewDocument,
    Query,
    check_metadata,
    check_option_names,
    check_text,
    split_options,
)
from triptych.records.serialization import to_dict
from triptych.search import names_none, query_of, validate
from triptych_adapters.wire import OPERATIONS

_BATCH: Final = 256
_BATCH_BYTES: Final = 512 << 10
_AROUND: Final = 4096
"""The maximum bytes of a body for everything except its documents."""
_METADATA: Final = frozenset({"metadata", "changes", "where"})
_TEXTS: Final = frozenset({"content", "name", "dataset_id"})
_IGNORED: Final = frozenset({"layer", "top_k"})
"""Fields of a query that are ignored if an operation does not take them."""
_OWN: Final[Mapping[str, Mapping[str, None]]] = {
    "ask": dict.fromkeys(ASK_DEFAULTS),
    "context": dict.fromkeys(CONTEXT_DEFAULTS),
    "context_prefix": dict.fromkeys(FORM_DEFAULTS),
}
"""The options of an operation that are not options of a search, with None as the default."""
_UNASKED: Final = Query(text="")


def plain(value: Any) -> Any:
    """Convert metadata or conditions to plain data for JSON: a date becomes ``{"$date": …}``."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    return value


def query_fields(operation: str, query: Query) -> dict[str, Any]:
    """Return the fields of a query, except its text, that differ from their defaults."""
    known = OPERATIONS[operation].parameters["properties"]
    fields: dict[str, Any] = {}
    for field in attrs.fields(Query):
        value = getattr(query, field.name)
        if field.name == "text" or value == getattr(_UNASKED, field.name):
            continue
        if field.name in _IGNORED and field.name not in known:
            continue
        fields[field.name] = _plain_argument(field.name, value)
    return fields


def _text_of(query: Query | str) -> str:
    return check_text(query.text if isinstance(query, Query) else query, "a query")


def _over_pipeline(
    operation: str, query: Query | str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options that override a pipeline's, including given defaults.

    A `Query` overrides all options. None is left to the pipeline, because requests cannot hold it.
    """
    check_option_names(options)
    fields: dict[str, Any] = {}
    if isinstance(query, Query):
        fields = {each.name: getattr(query, each.name) for each in attrs.fields(Query)}
        del fields["text"]
    known = OPERATIONS[operation].parameters["properties"]
    given = {**fields, **options}
    return {
        name: _plain_argument(name, value)
        for name, value in given.items()
        if value is not None and (name in known or name in options)
    }


def call_arguments(
    operation: str,
    method: Callable[..., Any],
    given: Sequence[Any],
    named: Mapping[str, Any],
    *,
    pipeline: str = "",
) -> dict[str, Any]:
    """Return the arguments of a call of ``method`` as plain data for JSON, without defaults; with a
    ``pipeline``, for which options are defaults, with all that were given.

    Raises:
        TypeError: the method does not have these arguments.
        NotAvailableError: an argument is code, which requests cannot hold.
    """
    signature = inspect.signature(method)
    bound = signature.bind(None, *given, **named).arguments
    known = OPERATIONS[operation].parameters["properties"]
    own, options = split_options(bound.pop("options", {}), _OWN.get(operation, {}))
    arguments: dict[str, Any] = {}
    for at, (name, value) in enumerate([*bound.items(), *own.items()]):
        if at == 0:
            continue
        if name in ("query", "question"):
            if not pipeline:
                query = query_of(value, options)
                validate(attrs.evolve(query, dataset_id="any") if names_none(query) else query)
                arguments |= {name: query.text, **query_fields(operation, query)}
            else:
                arguments |= {name: _text_of(value), **_over_pipeline(operation, value, options)}
        elif name in known:
            if value is not getattr(signature.parameters.get(name), "default", None):
                arguments[name] = _plain_argument(name, value)
        elif name != "progress" and value is not None:
            raise NotAvailableError(
                f"{operation} of a knowledge base on a server takes no {name}: it is code, which "
                "the server cannot receive; configure it on the server"
            )
    if options and "prefix_tokens" in bound:
        arguments |= query_fields(operation, query_of("", options))
    return arguments


def _plain_argument(name: str, value: Any) -> Any:
    if name == "metadata":
        value = check_metadata(value)
    if name in _METADATA:
        return plain(value)
    if isinstance(value, str) or name in _TEXTS:
        return check_text(value, name)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | list | tuple):
        value = list(value)
    try:
        return to_dict(value)
    except TypeError:
        raise ValidationError(f"{name} cannot be {value!r:.80}") from None


def batches(
    documents: Iterable[NewDocument] | Mapping[str, str], refused: PutReportBuilder, limit: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield the documents as plain data for JSON, in batches for one request each.

    ``limit`` is the server's limit of a body in bytes. ``refused`` is called for invalid documents
    and for documents that are too large.

    Raises:
        ValidationError: something in ``documents`` is not a document.
    """
    if isinstance(documents, Sequence):
        # Of a list nothing is stored, if something is wrong in it.
        documents = list(new_documents(documents, refused))
    most = min(_BATCH_BYTES, limit - _AROUND)
    batch: list[dict[str, Any]] = []
    size = 0
    for each in new_documents(documents, refused):
        fields = to_dict(each)
        length = len(json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if length > limit - _AROUND:
            refused.refused(each.name, _too_large(each.name, length, limit))
            continue
        if batch and (len(batch) == _BATCH or size + length > most):
            yield batch
            batch, size = [], 0
        batch.append(fields)
        size += length
    if batch:
        yield batch


def _too_large(name: str, length: int, limit: int) -> ValidationError:
    return ValidationError(
        f"the document {name!r:.200} takes {length:,} bytes, and the server accepts {limit:,} at a "
        "time: split it, or start the server with a larger --max-body"
    )


# Several requests

_WITHOUT_PROGRESS: Final = 2
_WORK: Final = frozenset(
    {
        *("added", "updated", "chunks", "documents", "embedded", "encoded", "reused"),
        *("rebuilt", "removed", "expired", "made"),
    }
)
"""Counts of completed work: they do not increase in a request without progress."""


def until_done(call: Callable[[], Any]) -> Any:
    """Repeat ``call`` until the server does not cut it off; return a report over all requests.

    Raises:
        CancelledError: the deadline around this call passed; or two consecutive requests were cut
            off without progress, such as for one text that takes the model longer than the server
            allows.
    """
    before: dict[str, int] = {}
    futile = 0
    while True:
        try:
            return _whole(before, call())
        except CancelledError as error:
            deadlines.check("the call")
            counts: Mapping[str, int] = error.report or {}
            futile = 0 if _WORK & counts.keys() else futile + 1
            if futile == _WITHOUT_PROGRESS:
                raise CancelledError(
                    f"two consecutive requests made no progress: {error}", report=before
                ).hinted("start the server with a longer --timeout") from error
            for name in _WORK & counts.keys():
                before[name] = before.get(name, 0) + counts[name]


def _whole(before: Mapping[str, int], result: Any) -> Any:
    """Return the report ``result`` plus those of the earlier requests ``before``."""
    if not before:
        return result
    if hasattr(result, "report"):
        return attrs.evolve(result, report=_whole(before, result.report))
    fields = {name: getattr(result, name) + n for name, n in before.items()}
    # What an earlier request stored is found as it should be by the last.
    for name, done in (("unchanged", ("added", "updated")), ("fresh", ("rebuilt",))):
        if any(each in before for each in done):
            fields[name] = max(0, getattr(result, name) - sum(before.get(each, 0) for each in done))
    return attrs.evolve(result, **fields)
