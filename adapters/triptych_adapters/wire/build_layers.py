"""The operation that builds the layers of a dataset on a server, with a `LayerBuilder`.

It is not in the table of operations, whose rows are methods of a Service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from triptych.errors import AccessDeniedError
from triptych.layers import ExtractiveSummarizer, LayerBuilder, LayerPlan, LayerReport
from triptych.records import DatasetStats
from triptych.service import KnowledgeBase
from triptych.service.operations import Effect
from triptych_adapters.wire.arguments import object_schema
from triptych_adapters.wire.operations import ARGUMENTS, Operation
from triptych_adapters.wire.routes import Route

MOST_COUNTED: Final = 5_000
"""Layers of a dataset up to which the stale ones are counted: that reads all of them."""


def stale_layers(service: KnowledgeBase, stats: Sequence[DatasetStats]) -> dict[str, int | None]:
    """Return how many layers of each dataset are stale; None if it has more than
    `MOST_COUNTED`."""
    found: dict[str, int | None] = {}
    for each in stats:
        layers = service.layers(each.dataset_id) if 0 < each.layers <= MOST_COUNTED else ()
        stale = sum(layer.stale is not None for layer in layers)
        found[each.dataset_id] = stale if each.layers <= MOST_COUNTED else None
    return found


@attrs.frozen(kw_only=True, slots=True)
class LayerBuild:
    """The report of building a dataset's layers.

    Attributes:
        model: the signature of the model.
        kept: the number of stale layers that were kept, because somebody else wrote them;
            ``kept_names`` are some of them.
        report: which layers were made and which were not.
    """

    dataset_id: str
    model: str
    kept: int
    kept_names: tuple[str, ...]
    report: LayerReport

    @classmethod
    def of(cls, plan: LayerPlan, report: LayerReport) -> LayerBuild:
        """Combine the ``plan`` and the ``report`` of applying it."""
        return cls(
            dataset_id=plan.dataset_id,
            model=plan.model,
            kept=plan.kept,
            kept_names=plan.kept_names,
            report=report,
        )


@attrs.frozen(kw_only=True, slots=True)
class _BuildLayers(Operation):
    def run(self, service: KnowledgeBase, /, pipeline: str = "", **arguments: Any) -> LayerBuild:
        """Build the stale layers with the model of ``service``."""
        return _build(service, **arguments)


def check_may_build(service: KnowledgeBase) -> None:
    """Refuse whoever does not see whole datasets, or may not write.

    Raises:
        AccessDeniedError: it is so.
    """
    access = service.access
    if access is not None and (access.tree is not None or not access.can_write):
        raise AccessDeniedError(
            "layers sum up all documents of a dataset: ask for an access that may write, without a "
            "filter"
        )


def _build(
    service: KnowledgeBase,
    dataset_id: str,
    *,
    names: Sequence[str] | None = None,
    max_calls: int | None = None,
    max_tokens: int | None = None,
    extractive: bool = False,
    retry_quarantined: bool = False,
    rewrite: bool = False,
) -> LayerBuild:
    check_may_build(service)
    builder = LayerBuilder(service, ExtractiveSummarizer() if extractive else None)
    plan = builder.plan(
        dataset_id, names=names, retry_quarantined=retry_quarantined, rewrite=rewrite
    )
    return LayerBuild.of(plan, builder.apply(plan, max_calls=max_calls, max_tokens=max_tokens))


_FLAG: Final = {"type": "boolean", "default": False}
_COUNT: Final = {"type": "integer", "minimum": 0}

BUILD_LAYERS: Final[Operation] = _BuildLayers(
    name="build_layers",
    effect=Effect.WRITES,
    long=True,
    creates=False,
    summary="Generate missing and stale layers: of documents, then folders, then the dataset.",
    parameters=object_schema(
        "dataset_id",
        dataset_id=ARGUMENTS["dataset_id"],
        names={
            **ARGUMENTS["names"],
            "description": "Documents and folders, with the folders that contain them. Omit it for "
            "all.",
        },
        max_calls={**_COUNT, "description": "Maximum number of calls of the model."},
        max_tokens={**_COUNT, "description": "Maximum number of tokens, in and out."},
        extractive={
            **_FLAG,
            "description": "Whether to use sentences of the documents instead of the server's "
            "model.",
        },
        retry_quarantined={
            **_FLAG,
            "description": "Whether to try quarantined documents again.",
        },
        rewrite={
            **_FLAG,
            "description": "Whether to replace stale layers that a person wrote.",
        },
    ),
    result=LayerBuild,
)


@attrs.frozen(slots=True)
class _BuildLayersRoute(Route):
    @property
    def called(self) -> Operation:
        """The operation itself."""
        return BUILD_LAYERS


BUILD_LAYERS_ROUTE: Final[Route] = _BuildLayersRoute(
    "build_layers", "POST", "/v1/datasets/{dataset_id}/build-layers"
)
