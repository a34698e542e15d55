"""All conformance tests in one class."""

from __future__ import annotations

from triptych.testing.answers import AnswerTests
from triptych.testing.capabilities import CapabilityTests
from triptych.testing.changes import ChangeTests
from triptych.testing.chunks import ChunkTests
from triptych.testing.deletes import DeleteTests
from triptych.testing.documents import DocumentTests
from triptych.testing.expiry import ExpiryTests
from triptych.testing.filters import CollectionTests, FilterTests
from triptych.testing.history import HistoryTests
from triptych.testing.layers import JournalTests, LayerTests
from triptych.testing.management import ManagementTests
from triptych.testing.races import ConcurrencyTests, RaceTests
from triptych.testing.reopen import CrashTests, FailingTests, ReopeningTests
from triptych.testing.replication import ReplicationTests
from triptych.testing.search import SearchTests
from triptych.testing.settings import SettingsTests
from triptych.testing.spaces import SpaceTests
from triptych.testing.sparse import SparseTests
from triptych.testing.stateful import StatefulTests
from triptych.testing.vectors import VectorTests


class BackendConformance(
    CapabilityTests,
    DocumentTests,
    HistoryTests,
    ChunkTests,
    VectorTests,
    SparseTests,
    SpaceTests,
    SearchTests,
    FilterTests,
    CollectionTests,
    ManagementTests,
    ExpiryTests,
    LayerTests,
    JournalTests,
    SettingsTests,
    AnswerTests,
    ChangeTests,
    ReplicationTests,
    DeleteTests,
    ConcurrencyTests,
    RaceTests,
    ReopeningTests,
    FailingTests,
    CrashTests,
    StatefulTests,
):
    """All conformance tests. Subclass it and define a fixture named ``harness``."""
