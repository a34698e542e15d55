"""All conformance tests in one class."""

from __future__ import annotations

from triptych_testing.capabilities import CapabilityTests
from triptych_testing.changes import ChangeTests
from triptych_testing.chunks import ChunkTests
from triptych_testing.deletes import DeleteTests
from triptych_testing.documents import DocumentTests
from triptych_testing.expiry import ExpiryTests
from triptych_testing.filters import CollectionTests, FilterTests
from triptych_testing.history import HistoryTests
from triptych_testing.layers import LayerPageTests, LayerTests
from triptych_testing.management import ManagementTests
from triptych_testing.races import ConcurrencyTests, RaceTests
from triptych_testing.reopen import CrashTests, FailingTests, ReopeningTests
from triptych_testing.replication import ReplicationTests
from triptych_testing.search import SearchTests
from triptych_testing.settings import SettingsTests
from triptych_testing.sparse import SparseTests
from triptych_testing.stateful import StatefulTests
from triptych_testing.vectors import VectorTests


class BackendConformance(
    CapabilityTests,
    DocumentTests,
    HistoryTests,
    ChunkTests,
    VectorTests,
    SparseTests,
    SearchTests,
    FilterTests,
    CollectionTests,
    ManagementTests,
    ExpiryTests,
    LayerTests,
    LayerPageTests,
    SettingsTests,
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
