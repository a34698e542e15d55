"""The lossless form of an answer, for clients that want records: `to_record`, `from_record`.

It is that of `triptych.records.serialization`, and of a context beside its fields the receipt,
which is made from what only the server has.
"""

from __future__ import annotations

from typing import Any, Final, get_type_hints

import attrs

from triptych.answering import Answer
from triptych.context import ContextPack
from triptych.context.receipt import ContextReceipt
from triptych.context.rendering import whole
from triptych.errors import ValidationError
from triptych.records.serialization import from_dict, to_dict
from triptych.text.tokens import ESTIMATE, default_counter

__all__ = ["RECORD_TYPE", "from_record", "to_record"]

RECORD_TYPE: Final = "application/vnd.triptych.record+json"
"""The media type of the form."""


def to_record(value: Any) -> Any:
    """``value``, an answer of a Service, as JSON's types.

    Raises:
        TypeError: it is, or holds, something that has no JSON form.
    """
    return to_dict(value, _view)


def from_record(hint: Any, plain: Any) -> Any:
    """What `to_record` made ``plain`` of; ``hint`` is its type, such as `Operation.result`.

    Tokens of a context are counted by what counts here where its counter is not: the text in the
    format that was asked for is the same either way.

    Raises:
        ValidationError: ``plain`` is something else.
    """
    if hint is ContextPack:
        return _pack(plain)
    if hint is Answer:
        return _fields(Answer, plain, {"pack": _pack})
    return from_dict(hint, plain)


def _view(record: Any) -> Any:
    if not isinstance(record, ContextPack):
        return record
    names = (field.name for field in attrs.fields(ContextPack))
    fields = {name: getattr(record, name) for name in names if name not in _MADE}
    return fields | {"receipt": record.receipt}


_MADE: Final = frozenset({"count", "trace"})


def _pack(plain: Any) -> ContextPack:
    if not isinstance(plain, dict) or "receipt" not in plain:
        raise ValidationError("a context is an object with a receipt")
    fields = dict(plain)
    receipt = from_dict(ContextReceipt, fields.pop("receipt"))
    ours = default_counter()
    same = fields.get("counter") == ours.name

    def count(text: str) -> int:
        if same:
            return ours.count(text)
        own = whole(made.pieces, made.format, made.mark if made.format != "json" else "")
        return made.tokens if text == own else ESTIMATE.count(text)

    made: ContextPack = _fields(ContextPack, fields, {}, count=count, trace=lambda plain: receipt)
    return made


def _fields(kind: Any, plain: Any, special: dict[str, Any], **given: Any) -> Any:
    """A record, some of whose fields are read by functions of their own."""
    if not isinstance(plain, dict):
        raise ValidationError(f"the fields of a {kind.__name__} are an object")
    hints = get_type_hints(kind)
    if unknown := set(plain) - set(hints):
        raise ValidationError(f"a {kind.__name__} has no field {min(unknown)!r}")
    try:
        return kind(
            **{
                n: special[n](v) if n in special else from_dict(hints[n], v)
                for n, v in plain.items()
            },
            **given,
        )
    except TypeError as error:
        raise ValidationError(f"a {kind.__name__} lacks a field: {error}") from None
