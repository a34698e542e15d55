"""Copies and backups with a store on a PostgreSQL server at either end."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

import triptych
from copies.test_kills import check_copy
from support.postgres import PostgresServer
from support.rich_stores import POSTGRES, change, contents, fill, open_kind
from triptych import Service
from triptych.contracts import Store
from triptych.copies import StoreStates, copy_store
from triptych.errors import ConflictError
from triptych.records import NameState
from triptych_backends.sqlite import open_backup, write_backup
from triptych_testing import assert_same_ranking, entries, examined
from triptych_testing.builders import fill_at_once, keyword_query, put
from triptych_testing.fakes import FakeEmbedder

SCHEMAS = ("source", "target", "first", "second")


@pytest.fixture(autouse=True)
def server(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PostgresServer]:
    """The server that stores of the kind "postgres" are on; their schemas go afterwards."""
    monkeypatch.setenv(POSTGRES, postgres_server.url)
    yield postgres_server
    with postgres_server.connect() as driver:
        for schema in SCHEMAS:
            driver.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def opened(held: ExitStack, kind: str, folder: Path, name: str) -> Store:
    store = open_kind(kind, folder, name)
    held.callback(store.close)
    return store


@pytest.mark.parametrize(
    "kinds",
    [
        ("sqlite", "postgres", "files", "memory"),
        pytest.param(("memory", "files", "postgres", "sqlite"), marks=pytest.mark.slow),
        pytest.param(("postgres", "postgres"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def test_a_round_of_copies_ends_with_what_it_began_with(
    kinds: tuple[str, ...], tmp_path: Path, held: ExitStack
) -> None:
    """Versions, histories, vectors and layers too: their digests are compared."""
    chance = random.Random(5)
    names = ("first", "second", "third", "fourth")
    stores = [opened(held, kind, tmp_path, name) for kind, name in zip(kinds, names, strict=False)]
    fill(stores[0], chance, 40)
    fill_at_once(stores[0], "many", {f"{at:03}.md": f"text {at}\n\nmore" for at in range(9)})
    before = contents(stores[0])
    for source, target in pairwise(stores):
        copy_store(source, target)
        assert contents(target) == before
        assert [str(each) for each in examined(target, ["d", "e/f", "many"])] == []
    for _ in range(6):
        change(stores[0], chance)
    copy_store(stores[0], stores[-1], replace=True)
    assert contents(stores[-1]) == contents(stores[0])


def test_a_server_is_backed_up_and_restored(tmp_path: Path, held: ExitStack) -> None:
    there = opened(held, "postgres", tmp_path, "source")
    fill(there, random.Random(6), 40)
    write_backup(there, tmp_path / "backup.db")
    restored = opened(held, "postgres", tmp_path, "target")
    with open_backup(tmp_path / "backup.db") as backup:
        copy_store(backup, restored)
    assert contents(restored) == contents(there)


@pytest.mark.parametrize(
    ("kind", "to"),
    [pytest.param("postgres", "files", marks=pytest.mark.slow), ("sqlite", "postgres")],
)
def test_a_copy_that_is_killed_goes_on(kind: str, to: str, tmp_path: Path) -> None:
    check_copy(tmp_path, kind, to, 3, kills=1)


def test_a_copy_calls_no_model_and_is_searched_at_once(tmp_path: Path, held: ExitStack) -> None:
    here, there = (opened(held, kind, tmp_path, "target") for kind in ("sqlite", "postgres"))
    embedder = FakeEmbedder()
    with triptych.open(tmp_path / "target.db", embedder=embedder) as kb:
        for at in range(8):
            kb.put_document("d", f"{at}.md", f"a kettle {'of tea ' * at}")
    calls = embedder.calls
    copy_store(here, there)
    assert embedder.calls == calls
    query = keyword_query("kettle tea", "d")
    assert_same_ranking(here.chunks.search(query), entries(there.chunks.search(query)))


def states_of(store: Store, names: list[str]) -> list[NameState]:
    """The states of these names in dataset "d"."""
    return [state for state in StoreStates(store).states("d") if state.name in names]


@pytest.mark.parametrize("kind", ["postgres", "sqlite", "files"])
def test_one_state_that_is_refused_stops_no_earlier_one(
    kind: str, tmp_path: Path, held: ExitStack
) -> None:
    """Many states are one write; those before the refused one are stored all the same."""
    source = opened(held, "memory", tmp_path, "source")
    target = opened(held, kind, tmp_path, "target")
    for name in "abcd":
        put(source, "d", name, f"text of {name}")
    states = states_of(source, [*"abcd"])
    put(target, "d", "c", "another text")
    assert [state.name for state in states] == [*"abcd"]
    later = [attrs.evolve(states[0], layers=()), *states[1:]]
    with pytest.raises(ConflictError):
        target.load_states("d", later)  # type: ignore[attr-defined]
    found = {info.name: info.version for info in target.documents.list("d")}
    assert sorted(found) == ["a", "b", "c"]
    document = target.documents.get("d", "c")
    assert document is not None
    assert document.content == "another text"


def test_copy_on_a_server_repeats_a_purge(tmp_path: Path, held: ExitStack) -> None:
    source = opened(held, "sqlite", tmp_path, "source")
    fill_at_once(source, "d", {"a": "one", "b": "two"})
    target = opened(held, "postgres", tmp_path, "target")
    assert not copy_store(source, target).erased
    assert Service(source).purge("d", "a")
    assert copy_store(source, target, replace=True).erased
    assert contents(target) == contents(source)
