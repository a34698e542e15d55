"""The operations of a knowledge base, for whoever observes this process."""

from triptych.telemetry.operations import (
    Observation,
    Observer,
    Operation,
    Value,
    add,
    is_observed,
    note,
    note_usage,
    observe,
    operation,
    stage,
)

__all__ = [
    "Observation",
    "Observer",
    "Operation",
    "Value",
    "add",
    "is_observed",
    "note",
    "note_usage",
    "observe",
    "operation",
    "stage",
]
