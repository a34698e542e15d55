"""Layers: building them with a language model or without, and keeping them true."""

from triptych.layers.builder import (
    Cost,
    LayerBuilder,
    LayerPlan,
    LayerPrompts,
    LayerReport,
    PlannedLayer,
)
from triptych.layers.extractive import ExtractiveSummarizer
from triptych.records import Prices
from triptych.text.tokens import estimate_tokens

__all__ = [
    "Cost",
    "ExtractiveSummarizer",
    "LayerBuilder",
    "LayerPlan",
    "LayerPrompts",
    "LayerReport",
    "PlannedLayer",
    "Prices",
    "estimate_tokens",
]
