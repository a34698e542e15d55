"""Makes the modules that several folders of tests share importable, and the examples.

No test is held to a clock: on a busy machine an example may take any time.

A run opens thousands of stores and starts hundreds of processes. So temporary files lie in memory
where there is room (TMPDIR or ``--basetemp`` names another place): each new store waits for the
disk several times. What a power cut takes is tested by replaying what was synced, wherever that is.
And compiled modules are kept beside their sources (Git ignores them, ``make clean`` removes them)
even where the environment asks Python not to: else each process compiles all of them again.
"""

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from support.llama import llama_server
from support.postgres import PostgresServer, running_server

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

MEMORY = Path("/dev/shm")
ENOUGH = 1 << 30
"""Bytes; containers often have 64 MiB there, and a run leaves some tens."""


def _is_good(folder: Path) -> bool:
    """Whether files can be made there, and run: some mount it for data alone."""
    if not os.access(folder, os.W_OK):
        return False
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize >= ENOUGH and not disk.f_flag & os.ST_NOEXEC


# No test may find, or fill, the store of whoever runs it, or that of another test.
_HOME = tempfile.mkdtemp(prefix="triptych-tests-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
_NUMBERS = count()


SAMPLED = {
    "tests/backends/filesystem/test_files_processes.py": 2,
    "tests/backends/parsing/test_parsing_definitions.py": 2,
    "tests/backends/parsing/test_parsing_documents.py": 3,
    "tests/backends/parsing/test_parsing_pdf_layout.py": 2,
    "tests/backends/postgres/test_postgres_search.py": 2,
    "tests/backends/providers/test_provider_answers.py": 4,
    "tests/backends/providers/test_provider_chat.py": 3,
    "tests/backends/providers/test_provider_deadlines.py": 2,
    "tests/backends/providers/test_provider_embed.py": 2,
    "tests/backends/providers/test_provider_rerank.py": 2,
    "tests/backends/sqlite/test_index_helper.py": 2,
    "tests/chunking/test_edits.py": 2,
    "tests/cli/test_cli_imports.py": 3,
    "tests/cli/test_cli_roots.py": 2,
    "tests/cli/test_cli_upkeep.py": 2,
    "tests/cli/test_option_values.py": 2,
    "tests/cli/test_terminal.py": 8,
    "tests/client/test_kit_over_http.py": 2,
    "tests/context/test_context.py": 2,
    "tests/contract/test_defaults.py": 3,
    "tests/contract/test_filesystem.py": 4,
    "tests/contract/test_json_example.py": 6,
    "tests/contract/test_kit_catches.py": 9,
    "tests/contract/test_postgres.py": 16,
    "tests/contract/test_qdrant.py": 20,
    "tests/contract/test_service.py": 4,
    "tests/contract/test_shards.py": 120,
    "tests/diagnostics/test_doctor.py": 3,
    "tests/factory/test_stored_model.py": 4,
    "tests/layers/test_code_layers.py": 2,
    "tests/layers/test_layer_builder.py": 3,
    "tests/mcp_server/test_mcp_stdio.py": 2,
    "tests/replication/test_copy.py": 2,
    "tests/search/test_past.py": 2,
    "tests/server/test_serve.py": 2,
    "tests/service/test_async.py": 2,
    "tests/service/test_bad_input.py": 2,
    "tests/service/test_faults.py": 2,
    "tests/service/test_two_fillers.py": 3,
    "tests/sync/test_sync_patterns.py": 2,
    "tests/sync/test_sync_swapped_links.py": 3,
    "tests/text/test_hostile_text.py": 3,
    "tests/text/test_text_analyzer.py": 2,
}
"""Modules of which the suite runs one test in so many, and ``make crash`` all."""

AT_LENGTH = {
    "tests/bench/test_peers.py::test_a_replacement_costs_one_fsync",
    "tests/bench/test_peers.py::test_a_run_measures_triptych_and_a_peer",
    "tests/contract/test_filesystem.py::TestFilesystem::"
    "test_processes_that_put_and_delete_leave_documents_whole_or_gone[dataset]",
    "tests/contract/test_sqlite.py::TestSqlite::"
    "test_processes_that_put_and_delete_leave_documents_whole_or_gone[document]",
    "tests/search/cache/test_cache_model.py::test_two_processes_never_see_an_old_answer[files]",
    "tests/service/test_pending_kills.py::"
    "test_a_killed_put_loses_only_what_is_in_flight[files://./kb]",
    "tests/typing/test_typing.py::test_a_type_checker_tells_good_calls_from_bad_ones[mypy]",
    "tests/bench/test_peers.py::test_ratios_are_printed",
    "tests/contract/test_postgres.py::TestPostgresService::test_every_moment_answers_as_it_did",
    "tests/contract/test_service.py::TestSqlite::test_every_moment_answers_as_it_did",
    "tests/parsing/test_one_route.py::test_every_route_makes_the_same_documents",
    "tests/service/test_faults.py::test_whatever_fails_nothing_told_is_lost[files-kill]",
    "tests/service/test_pending_kills.py::test_an_interrupted_put_goes_on_where_it_was",
    "tests/service/test_two_fillers.py::test_two_processes_embed_each_text_once[files://./kb-tasks5]",
    "tests/text/test_text_analyzer.py::test_numbering_looks_up_more_runs_than_it_keeps",
}
"""Tests that take seconds and repeat, on another store, what the suite has: ``make crash``."""


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the tests of others leave out, and why: nothing is skipped in silence."""
    if config.getoption("markexpr") != "doors":
        return
    from support.doors import exclusions, unlisted

    terminalreporter.section("left out, and why: tests/doors.yaml")
    for line in exclusions():
        terminalreporter.write_line(line)
    for each in unlisted([report.nodeid for report in terminalreporter.stats.get("skipped", ())]):
        terminalreporter.write_line(f"skipped, and not in tests/doors.yaml: {each}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of the tests of others that skipped one which the list does not have."""
    if session.config.getoption("markexpr") == "doors" and not session.exitstatus:
        from support.doors import unlisted

        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        skipped = [report.nodeid for report in reporter.stats.get("skipped", ())]
        if unlisted(skipped):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is left out of the suite's sample ``slow``; a test is in it, or not, for good."""
    for item in items:
        share = SAMPLED.get(item.nodeid.partition("::")[0], 1)
        if crc32(item.nodeid.encode()) % share or item.nodeid in AT_LENGTH:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    home = f"{_HOME}/{next(_NUMBERS)}"
    monkeypatch.setenv("XDG_DATA_HOME", f"{home}/data")
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{home}/config")


@pytest.fixture(scope="module")
def llama_chat() -> Iterator[str]:
    """The base URL of a language model's server: see `support.llama`. Mark its tests ``llm``."""
    with llama_server() as url:
        yield url


@pytest.fixture(scope="module")
def llama_embed() -> Iterator[str]:
    """The base URL of an embedder's server: see `support.llama`. Mark its tests ``llm``."""
    with llama_server("mean", context=512) as url:
        yield url


@pytest.fixture(scope="module")
def llama_rerank() -> Iterator[str]:
    """The base URL of a reranker's server: see `support.llama`. Mark its tests ``llm``."""
    with llama_server("rank", context=512) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this process of the run; each test takes a schema of its own."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a store of this test's own on PostgreSQL, which does not exist yet."""
    schema = f"test_{next(_NUMBERS)}"
    yield postgres_server.schema_url(schema)
    with postgres_server.connect() as driver:
        driver.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


os.environ |= {"XDG_DATA_HOME": f"{_HOME}/data", "XDG_CONFIG_HOME": f"{_HOME}/config"}

if "TMPDIR" not in os.environ and _is_good(MEMORY):
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # asked for again, by pytest as well

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

# The long profile is for `make crash`: `support.examples` says what it makes longer.
settings.register_profile("triptych", deadline=None)
settings.register_profile("long", deadline=None)
settings.load_profile("triptych")
