"""What each operation of a Service does, said once, at its method."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar, cast

import attrs

_Method = TypeVar("_Method", bound=Callable[..., Any])
_NAME = "__triptych_operation__"


class Effect(StrEnum):
    """What an operation does to the store."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"
    """It removes what no other operation brings back."""


@attrs.frozen(kw_only=True, slots=True)
class OperationTraits:
    """What callers at any door must know of an operation.

    Attributes:
        effect: whether it reads, writes or destroys.
        embeds: whether it may embed texts that it stores.
        creates: whether it makes the store and the dataset that it needs.
        long: whether it asks a model, embeds many texts, or goes through a whole store.
    """

    effect: Effect
    embeds: bool = False
    creates: bool = False
    long: bool = False


def operation(
    effect: Effect, *, embeds: bool = False, creates: bool = False, long: bool = False
) -> Callable[[_Method], _Method]:
    """Say what a public method of a Service does: see `OperationTraits`.

    A caller with an access is refused a method that does not say it, and so is every other door.
    A Service that is closed refuses the method.
    """
    traits = OperationTraits(effect=effect, embeds=embeds, creates=creates, long=long)

    def mark(method: _Method) -> _Method:
        @functools.wraps(method)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            self._require_open()
            return method(self, *args, **kwargs)

        setattr(checked, _NAME, traits)
        return cast(_Method, checked)

    return mark


def operations_of(kind: type) -> Mapping[str, OperationTraits]:
    """The operations of a class and its bases, by name: its own first, each base in its order.

    A method that a class defines again is an operation if it says so again.
    """
    found: dict[str, OperationTraits | None] = {}
    for each in kind.__mro__:
        for name, method in vars(each).items():
            found.setdefault(name, getattr(method, _NAME, None))
    return {name: traits for name, traits in found.items() if traits is not None}
