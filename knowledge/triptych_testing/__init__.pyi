"""The names of `triptych_testing`, each with the module that defines it."""

from triptych_testing.capabilities import lacking as lacking
from triptych_testing.conformance import BackendConformance as BackendConformance
from triptych_testing.fakes import (
    CoveringEmbedder as CoveringEmbedder,
    Failing as Failing,
    FakeEmbedder as FakeEmbedder,
    FakeLLM as FakeLLM,
    FakeSparseEncoder as FakeSparseEncoder,
    ScriptedLLM as ScriptedLLM,
    failing_store as failing_store,
    fenced_text as fenced_text,
)
from triptych_testing.harness import (
    GUARANTEES as GUARANTEES,
    Contents as Contents,
    Harness as Harness,
    examined as examined,
    failures as failures,
    guarantees_of as guarantees_of,
)
from triptych_testing.oracle import (
    assert_same_ranking as assert_same_ranking,
    entries as entries,
)
from triptych_testing.search import assert_backends_rank_alike as assert_backends_rank_alike
from triptych_testing.service import ServiceTests as ServiceTests
from triptych_testing.stateful import run_stateful as run_stateful
from triptych_testing.work import Child as Child
