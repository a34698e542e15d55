"""Layers: an extractive summariser, and filling a dataset with its abstracts and overviews."""

from triptych.layers.extractive import ExtractiveSummarizer
from triptych.layers.filling import FillReport, fill_layers
from triptych.layers.tokens import estimate_tokens

__all__ = ["ExtractiveSummarizer", "FillReport", "estimate_tokens", "fill_layers"]
