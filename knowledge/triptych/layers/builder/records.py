"""Plans for building layers, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Literal

import attrs

from triptych._internal.model_texts import is_prompt
from triptych.errors import BudgetExceededError
from triptych.layers.prompts import (
    ABSTRACT_PROMPT,
    CHILDREN_ABSTRACT_PROMPT,
    CHILDREN_OVERVIEW_PROMPT,
    OVERVIEW_PROMPT,
    PART_PROMPT,
)
from triptych.records import Failure, Layer, ModelUsage, QuarantinedLayer
from triptych.records.reports import Summed
from triptych.records.serialization import NOT_PLAIN

PlanReason = Literal["new", "source", "input", "prompt", "model", "quarantined", "gone"]
"""Why a layer is in a plan: it is missing; its document changed; the abstracts below it changed;
the prompt changed; the model changed; it is quarantined; its folder has no documents any more, so
that it is deleted."""

Stop = Literal["max_calls", "max_tokens", "max_cost", "provider"]
"""What ended an `apply` before its plan was done: a limit, or a provider that keeps failing."""


@attrs.frozen(kw_only=True, slots=True)
class LayerPrompts:
    """Instructions for the model, without the text, which is sent separately as data.

    Attributes:
        abstract, overview: for a document (L0, L1).
        children_abstract, children_overview: for a folder or dataset, from its children's L0.
        part: for notes on a part of an input that is too long for one prompt.
    """

    abstract: str = attrs.field(default=ABSTRACT_PROMPT, validator=is_prompt)
    overview: str = attrs.field(default=OVERVIEW_PROMPT, validator=is_prompt)
    children_abstract: str = attrs.field(default=CHILDREN_ABSTRACT_PROMPT, validator=is_prompt)
    children_overview: str = attrs.field(default=CHILDREN_OVERVIEW_PROMPT, validator=is_prompt)
    part: str = attrs.field(default=PART_PROMPT, validator=is_prompt)

    def of(self, layer: Layer, *, folder: bool) -> str:
        """Return the prompt for a layer of a document, or of a folder or dataset."""
        if layer is Layer.ABSTRACT:
            return self.children_abstract if folder else self.abstract
        return self.children_overview if folder else self.overview


@attrs.frozen(kw_only=True, slots=True)
class Cost(Summed):
    """An estimate of calls of the model and of input and output tokens.

    ``part_calls`` of the calls take notes on parts of long inputs. This is an upper estimate: short
    notes are not condensed again, and notes made earlier cost nothing.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    part_calls: int = 0


@attrs.frozen(kw_only=True, slots=True)
class PlannedLayer:
    """A stale layer of a document, a folder ("name/") or the dataset ("").

    ``conditional``: it will be made only if the abstract of a child, which is about to be made,
    changes. ``cost`` is zero if the model is not called: for layers to delete, and for quarantined
    layers, unless they are tried again.
    """

    doc_name: str
    layer: Layer
    reason: PlanReason
    conditional: bool = False
    cost: Cost = Cost()


@attrs.frozen(kw_only=True, slots=True)
class LayerPlan:
    """The counts of stale layers in a dataset; iterating it yields each `PlannedLayer`.

    A plan has only counts: iterating reads the store again, and yields the layers that are stale
    then. Documents come with the folders that they complete, inner folders first and the dataset
    last.

    Attributes:
        artifacts: the number of layers that will be made.
        conditional: the number of further layers, if the abstracts of all their children change.
        quarantined: the number of quarantined layers, which are skipped.
        gone: the number of layers of folders without documents, which are deleted.
        kept: the number of stale layers that are kept, because a person wrote them or, without a
            model, a model did: ``kept_of_models`` of them.
        kept_names: the names of their documents and folders, the first 1,000; "" is the dataset.
        reasons: the counts of ``artifacts``, ``quarantined`` and ``gone`` by reason.
        cost: the estimated cost of ``artifacts``, including notes that were made earlier.
        conditional_cost: the estimated cost of ``conditional``.
        model: the signature of the model.
        warnings: what the store cannot record, and folders without documents whose layers a person
            wrote, which are kept.
    """

    dataset_id: str
    model: str
    artifacts: int = 0
    conditional: int = 0
    quarantined: int = 0
    gone: int = 0
    kept: int = 0
    kept_of_models: int = 0
    kept_names: tuple[str, ...] = ()
    reasons: Mapping[PlanReason, int] = attrs.field(factory=dict)
    cost: Cost = Cost()
    conditional_cost: Cost = Cost()
    warnings: tuple[str, ...] = ()
    walk: Callable[[], Iterator[PlannedLayer]] = attrs.field(
        eq=False, repr=False, metadata=NOT_PLAIN
    )
    scope: object = attrs.field(default=None, eq=False, repr=False, metadata=NOT_PLAIN)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do, except for quarantined layers."""
        return not (self.artifacts or self.conditional or self.gone)

    def __len__(self) -> int:
        """How many artifacts there were to iterate when the plan was made."""
        return self.artifacts + self.conditional + self.quarantined + self.gone

    def __iter__(self) -> Iterator[PlannedLayer]:
        """Each artifact that is stale now."""
        return self.walk()


@attrs.frozen(kw_only=True, slots=True)
class LayerFailure(Failure):
    """A layer that could not be made, and its error; ``layer`` None: none of its document's or
    folder's could."""

    layer: Layer | None = None


@attrs.frozen(kw_only=True, slots=True)
class LayerReport:
    """The report of `apply`.

    Attributes:
        made: the number of layers written; ``unchanged`` of them have the same text as before.
        removed: the number of deleted layers of folders without documents.
        quarantined: the layers quarantined in this run, and why.
        failed: other failures, which the next plan tries again.
        usage: the usage of this run by model.
        skipped: the number of layers that did not fit the rest of a limit on tokens or cost.
        stopped: what ended it early or left out layers; None if all were tried. If the provider
            failed every call, "provider", even if ``max_calls`` left no room for more.
        least: the lowest sufficient limit, if nothing was made because no examined layer fits the
            limit ``stopped``. Else None.
        warnings: what the store cannot record.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("calls",)

    made: int = 0
    unchanged: int = 0
    removed: int = 0
    quarantined: tuple[QuarantinedLayer, ...] = ()
    failed: tuple[LayerFailure, ...] = ()
    usage: tuple[ModelUsage, ...] = ()
    skipped: int = 0
    stopped: Stop | None = None
    least: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """The number of model calls, including failed ones."""
        return sum(each.calls for each in self.usage)

    def require(self) -> None:
        """Raise an error if the plan was not completed.

        Raises:
            BudgetExceededError: a limit ended the run or left out layers.
            TriptychError: the provider ended it; this is the error of the last failed layer.
        """
        if self.stopped is None:
            return
        if self.stopped != "provider":
            least = "" if self.least is None else f"; the least that would do is {self.least}"
            raise BudgetExceededError(
                f"{self.stopped} ended the build after {self.made} layers{least}: completed layers "
                "are stored, and the next plan continues"
            )
        raise self.failed[-1].error
