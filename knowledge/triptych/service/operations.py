"""The decorator that declares for each method of a Service whether it reads, writes or deletes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

from triptych.errors import AccessDeniedError, CancelledError

if TYPE_CHECKING:
    from triptych.access.view import AccessView

_Method = TypeVar("_Method", bound=Callable[..., Any])
_NAME = "__triptych_operation__"


class Effect(StrEnum):
    """The effect of an operation on the store."""

    READS = "reads"
    WRITES = "writes"
    DESTROYS = "destroys"
    """It deletes something that no other operation restores."""


@attrs.frozen(kw_only=True, slots=True)
class OperationTraits:
    """The properties of an operation that the command line, HTTP, MCP and access checks need.

    Attributes:
        effect: whether it reads, writes or destroys.
        embeds: whether it may embed texts that it stores.
        creates: whether it creates a missing store and dataset.
        writes_if: the argument that says whether it writes at all; "" if it always does.
        long: whether it calls a model, embeds many texts, or reads a whole store.
    """

    effect: Effect
    embeds: bool = False
    creates: bool = False
    writes_if: str = ""
    long: bool = False


def operation(
    effect: Effect,
    *,
    embeds: bool = False,
    creates: bool = False,
    writes_if: str = "",
    long: bool = False,
) -> Callable[[_Method], _Method]:
    """Declare the `OperationTraits` of a public method of a Service.

    A method without this decorator is not available over HTTP or as a tool. The method raises
    `StoreError` if the Service is closed. For a restricted caller it does what the access allows.
    """
    traits = OperationTraits(
        effect=effect, embeds=embeds, creates=creates, writes_if=writes_if, long=long
    )

    def mark(method: _Method) -> _Method:
        @functools.wraps(method)
        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            self._require_open()
            if effect is Effect.READS or self._view is None:
                return method(self, *args, **kwargs)
            return _performed(self._view, traits, method, (self, *args), kwargs)

        setattr(checked, _NAME, traits)
        return cast(_Method, checked)

    return mark


def operations_of(kind: type) -> Mapping[str, OperationTraits]:
    """Return the operations of a class and its bases by name, in method resolution order.

    An overriding method is an operation only if it is decorated itself.
    """
    found: dict[str, OperationTraits | None] = {}
    for each in kind.__mro__:
        for name, method in vars(each).items():
            found.setdefault(name, getattr(method, _NAME, None))
    return {name: traits for name, traits in found.items() if traits is not None}


def _performed(
    view: AccessView,
    traits: OperationTraits,
    method: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """Call a method of a Service that writes, as the access of ``view`` allows it.

    Where the access may only read, all that writes is refused, whatever it is asked; what is
    written, and of which documents, the store of the access decides. A store keeps one vector of a
    text, whoever's document it is in: under a filter, how much had to be embedded would say which
    texts others have. So nothing is left to be embedded later, no progress is reported, and the
    report counts no texts.
    """
    if not traits.writes_if or options.get(traits.writes_if):
        view.access.check_can_write()
    if not traits.embeds or view.tree is None:
        return method(*args, **options)
    if options.get("embed", "now") == "later":
        raise AccessDeniedError(
            "this access is to some documents of a dataset, and must embed them at once: leave "
            "out embed='later'"
        )
    silent = {"progress": None} if "progress" in options else {}
    try:
        return _uncounted(method(*args, **{**options, **silent}))
    except CancelledError as error:
        error.report = _uncounted(error.report)
        raise


def _uncounted(found: Any) -> Any:
    """A report without its counts of texts."""
    from triptych.records import EmbedReport, PutReport, RebuildReport

    if isinstance(found, PutReport | EmbedReport | RebuildReport):
        return attrs.evolve(found, embedded=0, reused=0, encoded=0)
    return found
