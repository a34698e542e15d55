"""The names of `triptych.testing`, each with the module that defines it."""

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
