"""Layers without a model, in one call."""

from __future__ import annotations

from collections.abc import Collection

from triptych import ProgressCallback
from triptych.layers import ExtractiveSummarizer, LayerBuilder, LayerReport
from triptych.service import Service


def build_layers(
    service: Service,
    dataset_id: str,
    *,
    summarizer: ExtractiveSummarizer | None = None,
    names: Collection[str] | None = None,
    progress: ProgressCallback | None = None,
) -> LayerReport:
    """Plan and build the layers that are missing or stale."""
    builder = LayerBuilder(service, summarizer or ExtractiveSummarizer())
    return builder.apply(builder.plan(dataset_id, names=names), progress=progress)
