"""The conformance kit: what a backend must do, as tests that anyone can run on theirs.

A backend's whole test is one fixture::

    from triptych.testing import BackendConformance, Harness

    class TestMine(BackendConformance):
        @pytest.fixture
        def harness(self, tmp_path):
            return Harness(open=lambda: MyStore(tmp_path / "kb"), persistent=True)

The tests need pytest and Hypothesis, which Triptych itself does not install; the fakes do not.
Names are imported when they are first used: a process of the kit's own, or a program that uses a
fake model, needs few of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych.testing.conformance import BackendConformance as BackendConformance
    from triptych.testing.fakes import (
        CoveringEmbedder as CoveringEmbedder,
        Failing as Failing,
        FakeEmbedder as FakeEmbedder,
        FakeLLM as FakeLLM,
        FakeSparseEncoder as FakeSparseEncoder,
        ScriptedLLM as ScriptedLLM,
        failing_store as failing_store,
        fenced_text as fenced_text,
    )
    from triptych.testing.harness import Contents as Contents, Harness as Harness
    from triptych.testing.search import assert_backends_rank_alike as assert_backends_rank_alike
    from triptych.testing.service import ServiceTests as ServiceTests
    from triptych.testing.stateful import run_stateful as run_stateful
    from triptych.testing.work import Child as Child

_HOMES = {
    "conformance": "BackendConformance",
    "fakes": "CoveringEmbedder Failing FakeEmbedder FakeLLM FakeSparseEncoder ScriptedLLM "
    "failing_store fenced_text",
    "harness": "Contents Harness",
    "search": "assert_backends_rank_alike",
    "service": "ServiceTests",
    "stateful": "run_stateful",
    "work": "Child",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

# Within a run of pytest their assertions tell what they saw. It is imported before all else there.
if "pytest" in sys.modules:
    import pytest

    for _module in iter_modules(__path__):
        pytest.register_assert_rewrite(f"{__name__}.{_module.name}")

__all__ = [
    "BackendConformance",
    "Child",
    "Contents",
    "CoveringEmbedder",
    "Failing",
    "FakeEmbedder",
    "FakeLLM",
    "FakeSparseEncoder",
    "Harness",
    "ScriptedLLM",
    "ServiceTests",
    "assert_backends_rank_alike",
    "failing_store",
    "fenced_text",
    "run_stateful",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
