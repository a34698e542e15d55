"""The conformance kit: what a backend must do, as tests that anyone can run on theirs.

A backend's whole test is one fixture::

    from triptych.testing import BackendConformance, Harness

    class TestMine(BackendConformance):
        @pytest.fixture
        def harness(self, tmp_path):
            return Harness(open=lambda: MyStore(tmp_path / "kb"), persistent=True)

Needs pytest and Hypothesis, which Triptych itself does not install.
"""

import pytest

_ASSERTING = (
    "chunks",
    "concurrency",
    "crash",
    "deletes",
    "documents",
    "failing",
    "filters",
    "history",
    "journal",
    "layers",
    "making",
    "operations",
    "ranking",
    "reopening",
    "search",
    "service",
    "stateful",
)
for _module in _ASSERTING:
    pytest.register_assert_rewrite(f"{__name__}.{_module}")

from triptych.testing.conformance import BackendConformance  # noqa: E402  # rewriting comes first
from triptych.testing.fakes import (  # noqa: E402  # as above
    CoveringEmbedder,
    Failing,
    FakeEmbedder,
    FakeLLM,
    ScriptedLLM,
    failing_store,
    fenced_text,
)
from triptych.testing.harness import Child, Contents, Harness, Store  # noqa: E402  # as above
from triptych.testing.ranking import assert_backends_rank_alike  # noqa: E402  # as above
from triptych.testing.service import ServiceTests  # noqa: E402  # as above
from triptych.testing.stateful import run_stateful  # noqa: E402  # as above

__all__ = [
    "BackendConformance",
    "Child",
    "Contents",
    "CoveringEmbedder",
    "Failing",
    "FakeEmbedder",
    "FakeLLM",
    "Harness",
    "ScriptedLLM",
    "ServiceTests",
    "Store",
    "assert_backends_rank_alike",
    "failing_store",
    "fenced_text",
    "run_stateful",
]
