"""Which target of the Makefile runs a test: each test has one, by what it shows and what it needs.

``make test`` has the units, the kit of stores on memory and SQLite, that of a Service on memory,
and on every other store the tests that show a guarantee. A Service is proved once; that it answers
alike on other stores is shown by the recorded calls. A test is in another target for one of the
reasons below and for no other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from triptych_testing import guarantees_of

STORES = {
    "defaults": ("tests/contract/test_defaults.py::TestServiceOnDefaults",),
    "files": (
        "tests/contract/test_filesystem.py",
        "tests/contract/test_service.py::TestFilesystem",
        "tests/backends/filesystem/",
    ),
    "http": ("tests/client/test_kit_over_http.py",),
    "json": ("tests/contract/test_json_example.py",),
    "postgres": ("tests/contract/test_postgres.py", "tests/backends/postgres/"),
    "qdrant": ("tests/contract/test_qdrant.py", "tests/backends/qdrant/"),
    "sqlite": ("tests/contract/test_service.py::TestSqlite",),
    "tables": ("tests/backends/tables/", "tests/backends/collections/"),
}
"""Stores, and how the ids begin of the tests that `make test-stores` alone has in full."""

_SERVERS = {"postgres_server": "postgres"}
"""Fixtures that start a server: whoever asks for one is a test of its store."""

TARGETS = {
    "test": "units, memory, SQLite, and each guarantee on each store",
    **{f"stores-{name}": f"everything else about {name}" for name in STORES},
    "processes": "what starts processes, or kills them",
    "crash": "long draws, and hundreds of kills",
    "doors": "tests by others, which the target installs",
    "llm": "a real language model, which the target installs",
}


def has_none_of(path: str, target: str) -> bool:
    """Whether a file of tests need not be read for ``target``: none of its tests is there."""
    if target == "test":
        # What shows a guarantee is in the kit, which runs in tests/contract.
        folders = (each for beginnings in STORES.values() for each in beginnings)
        return path.startswith(tuple(each for each in folders if each.endswith("/")))
    name = target.removeprefix("stores-")
    if name == target or name in _SERVERS.values():  # anywhere
        return False
    return not path.startswith(tuple(each.partition("::")[0] for each in STORES[name]))


def store_of(item: pytest.Item) -> str | None:
    """The store whose target has a test, unless the test shows a guarantee."""
    for name, beginnings in STORES.items():
        if item.nodeid.startswith(beginnings):
            return name
    needed = getattr(item, "fixturenames", ())
    return next((_SERVERS[each] for each in needed if each in _SERVERS), None)


def guarantees(item: pytest.Item) -> tuple[int, ...]:
    """The guarantees that a test of the kit shows."""
    return guarantees_of(getattr(item, "function", target_of))


def target_of(item: pytest.Item) -> str:
    """The target that runs a test: the first reason that holds."""
    return next(_reasons(item))


def runs_in(item: pytest.Item, target: str) -> bool:
    """Whether ``target`` runs a test. What draws examples runs again at length in ``crash``."""
    at_length = target == "crash" and item.get_closest_marker("property") is not None
    return at_length or target_of(item) == target


def _reasons(item: pytest.Item) -> Iterator[str]:
    marks = {mark.name for mark in item.iter_markers()}
    yield from (name for name in ("llm", "doors") if name in marks)
    if "slow" in marks:
        yield "crash"
    if guarantees(item):
        yield "test"
    if name := store_of(item):
        yield f"stores-{name}"
    yield "processes" if "process" in marks else "test"
