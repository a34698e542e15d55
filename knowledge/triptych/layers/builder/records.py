"""What a plan says and what came of it."""

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
"""Why an artifact is in a plan: it was never made; its document changed; the abstracts below it
changed; another prompt is wanted; another model is; it broke the model and nothing has changed
since; its folder has no documents any more, and it is removed."""

Stop = Literal["max_calls", "max_tokens", "max_cost", "provider"]
"""What ended an `apply` before its plan was done: a ceiling, or a provider that keeps failing."""


@attrs.frozen(kw_only=True, slots=True)
class LayerPrompts:
    """Instructions for the model, without the text, which it gets separately as data.

    Attributes:
        abstract, overview: of a document (L0, L1).
        children_abstract, children_overview: of a folder or dataset, from its children's L0.
        part: the notes on a part of an input that is too long to be read at once.
    """

    abstract: str = attrs.field(default=ABSTRACT_PROMPT, validator=is_prompt)
    overview: str = attrs.field(default=OVERVIEW_PROMPT, validator=is_prompt)
    children_abstract: str = attrs.field(default=CHILDREN_ABSTRACT_PROMPT, validator=is_prompt)
    children_overview: str = attrs.field(default=CHILDREN_OVERVIEW_PROMPT, validator=is_prompt)
    part: str = attrs.field(default=PART_PROMPT, validator=is_prompt)

    def of(self, layer: Layer, *, folder: bool) -> str:
        """The prompt of a layer of a document, or of a folder or dataset."""
        if layer is Layer.ABSTRACT:
            return self.children_abstract if folder else self.abstract
        return self.children_overview if folder else self.overview


@attrs.frozen(kw_only=True, slots=True)
class Cost(Summed):
    """An estimate: calls of the model, and tokens in and out.

    ``part_calls`` of the calls note the parts of long inputs. They are the most that is likely:
    notes that are shorter than asked for are not noted again, and parts noted before cost nothing.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    part_calls: int = 0


@attrs.frozen(kw_only=True, slots=True)
class PlannedLayer:
    """One artifact that is stale: a layer of a document, a folder ("name/") or the dataset ("").

    ``conditional``: a child's abstract is about to be made, and it depends on what that says
    whether this is made too. ``cost`` is zero where nothing will be asked: for what is gone, and
    for what is quarantined, unless it is to be tried again.
    """

    doc_name: str
    layer: Layer
    reason: PlanReason
    conditional: bool = False
    cost: Cost = Cost()


@attrs.frozen(kw_only=True, slots=True)
class LayerPlan:
    """What is stale in a dataset, counted; iterated, each artifact.

    A plan holds counts and no artifacts, whatever the dataset's size: iterating reads the store
    again, and so shows what is stale then. Documents come with the folders that they complete,
    inner folders first and the dataset last.

    Attributes:
        artifacts: how many will surely be made.
        conditional: how many more will be, if the abstracts of all their children change.
        quarantined: how many are left alone because they broke the model.
        gone: how many are removed, of folders without documents.
        kept: how many are stale but stay, because another hand wrote them: a person or, when
            there is no model, a model; ``kept_of_models`` of them.
        kept_names: the documents and folders they are of, the first 1,000; "" is the dataset.
        reasons: ``artifacts``, ``quarantined`` and ``gone`` by reason.
        cost: of ``artifacts``, estimated; parts of a long input that are noted already count.
        conditional_cost: of ``conditional``.
        model: what will make them.
        warnings: what the store cannot remember, and folders without documents that stay because
            a person wrote of them.
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
        """Whether there is nothing to do; what is quarantined may be there."""
        return not (self.artifacts or self.conditional or self.gone)

    def __len__(self) -> int:
        """How many artifacts there were to iterate when the plan was made."""
        return self.artifacts + self.conditional + self.quarantined + self.gone

    def __iter__(self) -> Iterator[PlannedLayer]:
        """Each artifact that is stale now."""
        return self.walk()


@attrs.frozen(kw_only=True, slots=True)
class LayerReport:
    """What `apply` did.

    Attributes:
        made: layers that were written; ``unchanged`` of them say what they said before.
        removed: layers of folders that have no documents any more.
        quarantined: what broke the model in this run, and how.
        failed: what could not be made for other reasons, and will be tried by the next plan.
        usage: what this run cost, by model.
        skipped: layers that did not fit under what was left of a ceiling of tokens or cost.
        stopped: what ended it early, or left some out; None when all was tried.
        least: where nothing was made because ``stopped`` is a ceiling under which nothing that
            was looked at fits: the least that would do. Else None.
        warnings: what the store cannot remember.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("calls",)

    made: int = 0
    unchanged: int = 0
    removed: int = 0
    quarantined: tuple[QuarantinedLayer, ...] = ()
    failed: tuple[Failure, ...] = ()
    usage: tuple[ModelUsage, ...] = ()
    skipped: int = 0
    stopped: Stop | None = None
    least: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """How often a model was asked, attempts that failed included."""
        return sum(each.calls for each in self.usage)

    def require(self) -> None:
        """Raise where the plan was not done to its end; nothing where all was tried.

        Raises:
            BudgetExceededError: a limit ended the run, or left some layers out.
            TriptychError: the provider ended it; this is the error of the last layer that failed.
        """
        if self.stopped is None:
            return
        if self.stopped != "provider":
            least = "" if self.least is None else f"; the least that would do is {self.least}"
            raise BudgetExceededError(
                f"{self.stopped} ended the build after {self.made} layers{least}: what was made "
                "is stored, and the next plan goes on"
            )
        raise self.failed[-1].error
