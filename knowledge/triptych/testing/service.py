"""Guarantees of the `Service` over a backend.

Place for the tests of what no repository can promise alone: validation (2), deletes that go on
past a failure (6), derivation that fails (7), reading one's writes (8), puts that cost
nothing (10). They take the same harness.
"""

from __future__ import annotations

from triptych.testing.harness import HarnessTests

__all__ = ["ServiceTests"]


class ServiceTests(HarnessTests):
    """What a Service wired over the store under test must do."""
