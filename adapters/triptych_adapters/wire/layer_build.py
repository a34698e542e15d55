"""What building a dataset's layers on a server came to."""

from __future__ import annotations

import attrs

from triptych.layers import LayerPlan, LayerReport

__all__ = ["LayerBuild"]


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
