"""Layers that stay true: a plan of what is stale and what it costs, and carrying it out."""

from triptych.layers.builder.builder import LayerBuilder
from triptych.layers.builder.records import (
    Cost,
    LayerPlan,
    LayerPrompts,
    LayerReport,
    PlannedLayer,
)

__all__ = [
    "Cost",
    "LayerBuilder",
    "LayerPlan",
    "LayerPrompts",
    "LayerReport",
    "PlannedLayer",
]
