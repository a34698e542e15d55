"""Building the layers of a dataset, as an operation of a server: a `LayerBuilder` over its Service.

It is beside the table of operations, whose rows are methods of a Service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from triptych.access.service import RestrictedService
from triptych.errors import AccessDeniedError
from triptych.layers import ExtractiveSummarizer, LayerBuilder, LayerPlan, LayerReport
from triptych.service import Service
from triptych.service.operations import Effect
from triptych_adapters.wire.arguments import object_schema
from triptych_adapters.wire.operations import ARGUMENTS, Operation
from triptych_adapters.wire.routes import Route


@attrs.frozen(kw_only=True, slots=True)
class LayerBuild:
    """What building a dataset's layers came to.

    Attributes:
        model: the signature of what wrote them.
        kept: stale layers that stay, since another hand wrote them; ``kept_names`` are some.
        report: what was made, and what was not.
    """

    dataset_id: str
    model: str
    kept: int
    kept_names: tuple[str, ...]
    report: LayerReport

    @classmethod
    def of(cls, plan: LayerPlan, report: LayerReport) -> LayerBuild:
        """What ``report`` says of applying ``plan``."""
        return cls(
            dataset_id=plan.dataset_id,
            model=plan.model,
            kept=plan.kept,
            kept_names=plan.kept_names,
            report=report,
        )


@attrs.frozen(kw_only=True, slots=True)
class _BuildLayers(Operation):
    def run(self, service: Service, /, pipeline: str = "", **arguments: Any) -> LayerBuild:
        """Make what is stale, with the model of ``service``."""
        return _build(service, **arguments)


def check_may_build(service: Service) -> None:
    """Refuse whoever does not see whole datasets, or may not write.

    Raises:
        AccessDeniedError: it is so.
    """
    if isinstance(service, RestrictedService) and (
        service.access.tree is not None or not service.access.can_write
    ):
        raise AccessDeniedError(
            "layers sum up all documents of a dataset: ask for an access that may write, without a "
            "filter"
        )


def _build(
    service: Service,
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
    summary="Make the layers that are missing or stale: documents, then folders, then the dataset.",
    parameters=object_schema(
        "dataset_id",
        dataset_id=ARGUMENTS["dataset_id"],
        names={
            **ARGUMENTS["names"],
            "description": "Documents and folders to look at, with the folders around them. "
            "Leave it out for all.",
        },
        max_calls={**_COUNT, "description": "Maximum number of calls of the model."},
        max_tokens={**_COUNT, "description": "Maximum number of tokens, in and out."},
        extractive={
            **_FLAG,
            "description": "Whether to take sentences of the documents themselves, in place of "
            "the server's model.",
        },
        retry_quarantined={
            **_FLAG,
            "description": "Whether to try again what broke the model before.",
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
