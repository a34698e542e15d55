"""Layers: building them with a language model or without, and keeping them true."""

from triptych.layers.builder.builder import LayerBuilder
from triptych.layers.builder.records import Cost, LayerPlan, LayerPrompts, LayerReport, PlannedLayer
from triptych.layers.extractive import ExtractiveSummarizer
from triptych.layers.generation import generate_dataset_context, generate_document_context
from triptych.layers.prompts import (
    ABSTRACT_PROMPT,
    DATASET_ABSTRACT_PROMPT,
    DATASET_OVERVIEW_PROMPT,
    DEFAULT_PROMPT_INPUT_LIMIT,
    OVERVIEW_PROMPT,
)
from triptych.text.tokens import estimate_tokens

__all__ = [
    "ABSTRACT_PROMPT",
    "DATASET_ABSTRACT_PROMPT",
    "DATASET_OVERVIEW_PROMPT",
    "DEFAULT_PROMPT_INPUT_LIMIT",
    "OVERVIEW_PROMPT",
    "Cost",
    "ExtractiveSummarizer",
    "LayerBuilder",
    "LayerPlan",
    "LayerPrompts",
    "LayerReport",
    "PlannedLayer",
    "estimate_tokens",
    "generate_dataset_context",
    "generate_document_context",
]
