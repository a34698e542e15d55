"""Converting records to plain data for JSON, and back.

A record is a dict of its fields, each under its name; None is null. A time is an ISO 8601 string,
one in metadata ``{"$date": "…"}`` (`triptych.records.metadata`), a vector the base64 of its
float32 numbers (little-endian), a path or an enum's member its string, a tuple a list. An error is
its class, message and attributes (`error_fields`). Records of a backend's own are
taken too: any attrs class whose fields are annotated with these kinds of values, or with mappings
and sequences of them.

A class may say three things of its form:

- `NOT_PLAIN` is the attrs metadata of a field that is no data.
- ``__plain_properties__`` names the properties that `to_json` adds to the fields.
- ``__from_plain__``, a classmethod, makes a record of its fields and these properties, where the
  fields that are data are not enough.
"""

from __future__ import annotations

import base64
import functools
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from pathlib import PurePath
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import numpy as np

from triptych import errors
from triptych.errors import TriptychError, ValidationError
from triptych.records.documents import SourceDocument
from triptych.records.metadata import Metadata, metadata_from_plain, metadata_to_plain
from triptych.records.values import Vector

T = TypeVar("T")
View = Callable[[Any], Any]
"""What a record is shown as, one of its class; and a number that is not finite."""

NOT_PLAIN: Final = {"plain": False}

_Reader = Callable[[Any], Any]
_BARE = frozenset({str, int, bool, types.NoneType})
_ATOMS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def to_dict(value: Any, view: View | None = None) -> Any:
    """``value``, a record or whatever a record holds, as plain data of its own.

    ``view`` is given each record, and each number that JSON has not (NaN, an infinite one), and
    answers with what to write for it.

    Raises:
        TypeError: it is, or holds, something that has no plain form.
    """
    return _plain(value, False, view)


def to_json(value: Any, view: View | None = None) -> Any:
    """``value`` as programs outside are shown it: `to_dict`, and the properties that a class names.

    `from_dict` reads it, too. Of an error the stored ``document`` is left out.

    Raises:
        TypeError: it is, or holds, something that has no plain form.
    """
    return _plain(value, True, view)


def _plain(value: Any, outside: bool, view: View | None) -> Any:
    kind: Any = type(value)
    if kind in _BARE:
        return value
    if kind is float:
        return value if view is None or math.isfinite(value) else view(value)
    if kind is tuple or kind is list:  # the most of what a record holds
        return [v if type(v) in _BARE else _plain(v, outside, view) for v in value]
    if kind is dict:  # as lists are: few hold more than numbers and texts
        return {
            str(key): each if type(each) in _BARE else _plain(each, outside, view)
            for key, each in value.items()
        }
    if isinstance(value, str):
        return str(value)
    if (getter := _getter(kind, outside)) is not None:
        fields: dict[str, Any] = dict(getter(value if view is None else view(value)))
        if fields.get("metadata") and isinstance(fields["metadata"], Mapping):
            fields["metadata"] = metadata_to_plain(fields["metadata"])
        for name, each in fields.items():
            of = type(each)
            if of in _BARE or (of is float and math.isfinite(each)):
                continue
            fields[name] = _plain(each, outside, view)
        return fields
    if isinstance(value, Mapping):
        return {
            str(key): each if type(each) in _BARE else _plain(each, outside, view)
            for key, each in value.items()
        }
    if isinstance(value, tuple | list):
        return [_plain(each, outside, view) for each in value]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Exception):
        fields = error_fields(value)
        if outside:
            fields.pop("document", None)  # all of a text that is stored
        return _plain(fields, outside, view)
    if isinstance(value, np.ndarray) and (value.dtype, value.ndim) == (np.float32, 1):
        return base64.b64encode(value.astype("<f4").tobytes()).decode("ascii")
    raise TypeError(f"a {kind.__name__} has no plain form: {value!r:.60}")


def from_dict(kind: type[T], plain: object) -> T:
    """The record of class ``kind`` that `to_dict` or `to_json` made ``plain`` of.

    Fields that are missing get their defaults. Vectors are read-only.

    Raises:
        ValidationError: ``plain`` is something else; the message leads to the place.
    """
    hint: Any = kind
    record: T = _reader(hint)(plain)
    return record


def _fields(kind: Any) -> list[attrs.Attribute[Any]]:
    """The fields of a record that are data."""
    return [field for field in attrs.fields(kind) if field.metadata.get("plain", True)]


@functools.cache
def _names(kind: Any, outside: bool = False) -> tuple[str, ...]:
    if not attrs.has(kind):
        return ()
    shown = getattr(kind, "__plain_properties__", ()) if outside else ()
    return (*(field.name for field in _fields(kind)), *shown)


@functools.cache
def _getter(kind: Any, outside: bool) -> Callable[[Any], Iterable[tuple[str, Any]]] | None:
    """What reads names and values of a record at once; None for a class that is none."""
    names = _names(kind, outside)
    if not names:
        return None
    get = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)
    return lambda record: zip(names, get(record), strict=True)


def plain_hints(kind: Any, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The type of each value in the `to_json` of a record: of its fields, then its properties.

    ``known`` holds what modules import for the type checker alone, by name.
    """
    hints = get_type_hints(kind)
    made = {
        name: get_type_hints(getattr(kind, name).fget, localns=known)["return"]
        for name in _names(kind, True)[len(_names(kind)) :]
    }
    return {name: hints[name] for name in _names(kind)} | made


@functools.cache
def _reader(hint: Any) -> _Reader:
    """What makes a value of type ``hint`` from plain data."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint == Vector:
        return _vector
    if hint == Metadata:
        return metadata_from_plain
    if hint in _ATOMS:
        return functools.partial(_atom, hint)
    if origin is Literal:
        return functools.partial(_member, inner)
    if origin in (Union, types.UnionType) and len(inner) == 2 and inner[1] is types.NoneType:
        return functools.partial(_optional, _reader(inner[0]))
    if origin in (Union, types.UnionType):
        kinds = [each for each in inner if each is not types.NoneType]
        either = functools.partial(_either, tuple(map(_reader, kinds)))
        return functools.partial(_optional, either) if len(kinds) < len(inner) else either
    if origin is tuple and inner[1:] == (...,):
        return functools.partial(_items, _reader(inner[0]))
    if origin is tuple:
        return functools.partial(_items_of, tuple(map(_reader, inner)))
    if origin in (list, Sequence):
        items = functools.partial(_items, _reader(inner[0]))
        return lambda plain: list(items(plain))
    if hint is Exception:
        return _error
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_mapping, _reader(inner[0]), _reader(inner[1]))
    if hint is datetime:
        return _time
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        members = {str(member): member for member in hint}
        return lambda plain: members[_member(tuple(members), plain)]
    if isinstance(hint, type) and attrs.has(hint):
        return _reader_of(hint)
    raise TypeError(f"a field of type {hint} has no plain form")


def _reader_of(kind: Any) -> _Reader:
    """What makes a record from plain data."""
    needed = [field.name for field in _fields(kind) if field.default is attrs.NOTHING]
    shown = getattr(kind, "__plain_properties__", ())
    make = getattr(kind, "__from_plain__", None)
    if make is not None:
        fields = {name: _reader(hint) for name, hint in plain_hints(kind).items()}
        return functools.partial(_record, kind, make, fields, (), [*needed, *shown])
    hints = get_type_hints(kind)
    fields = {name: _reader(hints[name]) for name in _names(kind)}
    return functools.partial(_record, kind, kind, fields, shown, needed)


def _record(
    kind: type[Any],
    make: Callable[..., Any],
    fields: Mapping[str, _Reader],
    ignored: Sequence[str],
    needed: Sequence[str],
    plain: Any,
) -> Any:
    given = {name: value for name, value in _atom(dict, plain).items() if name not in ignored}
    for name in [*needed, *given]:
        if name not in given:
            raise ValidationError(f"{name} of a {kind.__name__} is missing")
        if name not in fields:
            raise ValidationError(f"a {kind.__name__} has no field {name!r}")
    return make(**{name: _at(name, fields[name], value) for name, value in given.items()})


def _mapping(key: _Reader, value: _Reader, plain: Any) -> dict[Any, Any]:
    return {key(name): _at(name, value, each) for name, each in _atom(dict, plain).items()}


def _items(item: _Reader, plain: Any) -> tuple[Any, ...]:
    return tuple(_at(at, item, each) for at, each in enumerate(_atom(list, plain)))


def _items_of(readers: tuple[_Reader, ...], plain: Any) -> tuple[Any, ...]:
    if len(_atom(list, plain)) != len(readers):
        raise ValidationError(f"{len(readers)} entries are needed, not {len(plain)}")
    return tuple(_at(at, reader, plain[at]) for at, reader in enumerate(readers))


def _at(step: str | int, reader: _Reader, plain: Any) -> Any:
    try:
        return reader(plain)
    except ValidationError as error:
        raise ValidationError(f"{step}: {error}") from None


def _optional(reader: _Reader, plain: Any) -> Any:
    return None if plain is None else reader(plain)


def _either(readers: tuple[_Reader, ...], plain: Any) -> Any:
    """What the first reader makes of it that can."""
    faults = []
    for reader in readers:
        try:
            return reader(plain)
        except ValidationError as error:
            faults.append(str(error))
    raise ValidationError(", or ".join(faults))


def _atom(kind: type[Any], plain: Any) -> Any:
    if type(plain) is kind or (kind is float and type(plain) is int):
        return plain
    wanted = _ATOMS.get(kind, "an object" if kind is dict else "a list")
    raise ValidationError(f"{wanted} belongs here, not {plain!r:.60}")


def _member(choices: tuple[Any, ...], plain: Any) -> Any:
    if isinstance(plain, str) and plain in choices:
        return plain
    raise ValidationError(f"one of {', '.join(map(repr, choices))} belongs here, not {plain!r:.60}")


def _error(plain: Any) -> Exception:
    fields = dict(_atom(dict, plain))
    if fields.get("document") is not None:
        fields["document"] = _at("document", _reader(SourceDocument), fields["document"])
    if fields.get("errors") is not None:
        fields["errors"] = _at("errors", _reader(tuple[Exception, ...]), fields["errors"])
    return error_of(fields)


def _time(plain: Any) -> datetime:
    try:
        return datetime.fromisoformat(_atom(str, plain))
    except ValueError:
        raise ValidationError(f"a time in ISO 8601 belongs here, not {plain!r:.60}") from None


def _vector(plain: Any) -> Vector:
    try:
        data = base64.b64decode(_atom(str, plain), validate=True)
        return np.frombuffer(data, "<f4").astype(np.float32, copy=False)
    except ValueError:
        raise ValidationError(f"float32 in base64 belong here, not {plain!r:.60}") from None


_ATTRIBUTES: Final[Mapping[type[TriptychError], tuple[str, ...]]] = {
    errors.ConflictError: ("expected", "actual"),
    errors.PendingReviewError: ("proposals",),
    errors.ModelMismatchError: ("stored", "configured"),
    errors.StoreError: ("errors",),
    errors.RateLimitedError: ("retry_after",),
    errors.UnusableAnswerError: ("reason",),
    errors.DerivationError: ("document",),
    errors.DeletionHeldError: ("names", "documents"),
}
"""What the constructors take beside the message, and can be written down."""


def error_fields(error: Exception) -> dict[str, Any]:
    """The class, message and attributes of an error; what is empty is left out."""
    fields: dict[str, Any] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, TriptychError):
        fields["hint"] = error.hint
        for kind, names in _ATTRIBUTES.items():
            if isinstance(error, kind):
                fields |= {name: getattr(error, name) for name in names}
    always = ("type", "message")
    return {k: v for k, v in fields.items() if k in always or (v is not None and v not in ("", ()))}


def error_of(fields: Mapping[str, Any]) -> Exception:
    """The error of these fields. A class that is not of `triptych.errors` becomes a `TriptychError`
    whose message begins with its name.

    Raises:
        ValidationError: ``fields`` are those of no error.
    """
    name, message = fields.get("type"), fields.get("message")
    if not isinstance(name, str) or not isinstance(message, str):
        raise ValidationError(f"an error has a type and a message, not {fields!r:.60}")
    kind = getattr(errors, name, None) if name in errors.__all__ else None
    if kind is None:
        return TriptychError(f"{name}: {message}")
    known = {each for k, names in _ATTRIBUTES.items() if issubclass(kind, k) for each in names}
    attributes = {each: fields[each] for each in known if each in fields}
    try:
        made: TriptychError = kind(message, **attributes)
    except (TypeError, ValueError):
        raise ValidationError(f"the attributes of a {name} are {sorted(known)}") from None
    hint = fields.get("hint")
    return made.hinted(hint) if isinstance(hint, str) and hint else made
