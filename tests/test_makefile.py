"""Every test has a target of the Makefile, and `make test` has each guarantee on each store."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.targets import STORES, TARGETS
from triptych_testing import GUARANTEES, BackendConformance, ServiceTests, guarantees_of

ROOT = Path(__file__).parents[1]

_LIST = """
import json, sys
import pytest

class Lister:
    def pytest_collection_finish(self, session):
        from support.targets import TARGETS, runs_in
        found = {each: [i.nodeid for i in session.items if runs_in(i, each)] for each in TARGETS}
        found["all"] = [item.nodeid for item in session.items]
        print("\\n" + json.dumps(found))

sys.exit(pytest.main(["--collect-only", "-qq", "-m", "", "-n", "0", *sys.argv[1:]], [Lister()]))
"""

KITS = {
    "memory": ("test_memory.py::TestMemory", "test_service.py::TestMemory"),
    "sqlite": ("test_sqlite.py::TestSqlite", "test_service.py::TestSqlite"),
    "files": ("test_filesystem.py::TestFilesystem", "test_service.py::TestFilesystem"),
    "json": ("test_json_example.py::TestJsonStore", "test_json_example.py::TestServiceOnJsonStore"),
    "postgres": ("test_postgres.py::TestPostgres", "test_postgres.py::TestPostgresService"),
    "qdrant": ("test_qdrant.py::TestQdrant", "test_qdrant.py::TestQdrantService"),
}
"""Where the kit runs on each store: its repositories, and the Service over them."""


def test_what_a_test_starts_can_be_interrupted_where_the_run_ignores_it() -> None:
    """As after `make test &` in a script."""
    code = (
        "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    arguments = ["-q", "-n", "1", "tests/cli/test_cli_upkeep.py", "-k", "an_interrupt_ends"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def listed() -> dict[str, list[str]]:
    """The ids of the tests in tests/contract and tests/client, by target."""
    done = subprocess.run(
        [sys.executable, "-c", _LIST, "tests/contract", "tests/client"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found: dict[str, list[str]] = json.loads(lines[-1])
    return found


def _shown_by(kit: type) -> dict[str, tuple[int, ...]]:
    tests = {name: guarantees_of(getattr(kit, name)) for name in dir(kit) if name[:5] == "test_"}
    return {name: numbers for name, numbers in tests.items() if numbers}


def test_each_guarantee_runs_on_each_store_in_make_test(listed: dict[str, list[str]]) -> None:
    by_kit = [_shown_by(kit) for kit in (BackendConformance, ServiceTests)]
    shown = {number for tests in by_kit for numbers in tests.values() for number in numbers}
    assert shown == set(GUARANTEES)
    runs = {id_.partition("[")[0] for id_ in listed["test"]}
    lacking = [
        f"{store}: {test}"
        for store, classes in KITS.items()
        for kit, tests in zip(classes, by_kit, strict=True)
        for test in tests
        if f"tests/contract/{kit}::{test}" not in runs
    ]
    assert lacking == []


def test_the_kit_runs_on_memory_and_on_sqlites_repositories_in_make_test(
    listed: dict[str, list[str]],
) -> None:
    kits = tuple(f"tests/contract/{each}" for each in (*KITS["memory"], KITS["sqlite"][0]))
    also = "tests/contract/test_kit_catches.py"
    wanted = {each for each in listed["all"] if each.startswith((*kits, also))}
    assert len(wanted) > 600
    assert wanted - set(listed["test"]) == set()


def test_the_targets_together_run_everything(listed: dict[str, list[str]]) -> None:
    run = {each for target in TARGETS for each in listed[target]}
    assert run == set(listed["all"])


def test_the_makefile_has_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"--target ([\w$().-]+)", makefile))
    stores = {each for each in TARGETS if each.startswith("stores-")}
    assert named == (set(TARGETS) - stores) | {"stores-$(STORE)"}
    listed = re.search(r"^STORES := (.*)$", makefile, re.MULTILINE)
    assert listed is not None
    assert listed[1].split() == sorted(STORES)
