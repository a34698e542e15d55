"""Makes the modules that several folders of tests share importable, and the examples.

No test is held to a clock: on a busy machine an example may take any time.

A run opens thousands of stores and starts hundreds of processes. So temporary files lie in memory
where there is room (TMPDIR or ``--basetemp`` names another place): each new store waits for the
disk several times. What a power cut takes is tested by replaying what was synced, wherever that is.
And compiled modules are kept beside their sources (Git ignores them, ``make clean`` removes them)
even where the environment asks Python not to: else each process compiles all of them again.
"""

import atexit
import inspect
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import settings

from support.examples import examples
from support.llama import llama_server
from support.postgres import PostgresServer, running_server
from support.targets import TARGETS, has_none_of, runs_in

# The tests of providers and of the client run over either of the two packages: make test-httpx.
if os.environ.get("TRIPTYCH_TEST_OVER") == "httpx":
    sys.modules.update({"httpx2": None})  # an import of it fails

# Kernels that another target compiled: make sanitize.
if "TRIPTYCH_TEST_KERNELS" in os.environ:
    import triptych_backends.index

    triptych_backends.index.__path__.insert(0, os.environ["TRIPTYCH_TEST_KERNELS"])

# httpx waits five seconds for an answer unless told otherwise: a clock too.
inspect.signature(httpx.Client).parameters["timeout"].default.read = 120

# What a script starts in the background ignores SIGINT, and so would every child of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Typer reads these once, when a process draws its first help page: no test may depend on which.
for _variable in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TERMINAL_WIDTH"):
    os.environ.pop(_variable, None)

ROOT = Path(__file__).parents[1]
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--target",
        choices=TARGETS,
        help="run the tests of this target of the Makefile (support/targets.py); "
        "without it all that are named or found, but for the slow ones",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file of tests in vain."""
    target = config.getoption("target")
    if target is None or not collection_path.name.startswith("test_"):
        return None
    return has_none_of(collection_path.relative_to(ROOT).as_posix(), target) or None


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("target"):
        config.option.markexpr = ""  # the target alone decides


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")
    target = config.getoption("target")
    if target is None:
        return
    runs = [runs_in(item, target) for item in items]
    left_out = [item for item, is_in in zip(items, runs, strict=True) if not is_in]
    items[:] = [item for item, is_in in zip(items, runs, strict=True) if is_in]
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what the tests of others leave out, and why: nothing is skipped in silence."""
    if config.getoption("target") != "doors":
        return
    from support.doors import exclusions, unlisted

    terminalreporter.section("left out, and why: tests/doors.yaml")
    for line in exclusions():
        terminalreporter.write_line(line)
    for each in unlisted([report.nodeid for report in terminalreporter.stats.get("skipped", ())]):
        terminalreporter.write_line(f"skipped, and not in tests/doors.yaml: {each}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of the tests of others that skipped one which the list does not have."""
    if session.config.getoption("target") == "doors" and not session.exitstatus:
        from support.doors import unlisted

        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        skipped = [report.nodeid for report in reporter.stats.get("skipped", ())]
        if unlisted(skipped):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


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

# A run draws the same examples as the run before, so that a change made what differs. `make crash`
# draws others each time, by the long profile: `support.examples` says what it makes longer.
settings.register_profile("triptych", deadline=None, max_examples=examples(100), derandomize=True)
settings.register_profile("long", deadline=None)
settings.load_profile("triptych")
