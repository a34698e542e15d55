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

_GROUPS = ("documents", "chunks", "search")
for _group in _GROUPS:
    pytest.register_assert_rewrite(f"{__name__}.{_group}")

from triptych.testing.chunks import ChunkTests  # noqa: E402  # after the rewriting is set up
from triptych.testing.documents import DocumentTests
from triptych.testing.search import SearchTests  # noqa: E402
from triptych.testing.harness import Child, Contents, Harness  # noqa: E402

class BackendConformance(DocumentTests, ChunkTests, SearchTests):
    """x"""
