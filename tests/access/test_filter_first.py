"""An access's filter is applied before what its caller asks: no work depends on what is hidden.

Two stores differ only in documents that are not the caller's: in one they pass what the caller
asks, in the other they do not. The work of each call is counted in both, and is the same. Work is
what the parts themselves count: conditions that are evaluated, instructions of SQLite, rows that a
plan of PostgreSQL looked at, points that Qdrant sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

import triptych
from support.foreign_tables import ForeignTables, foreign_tables, vector_of
from support.postgres import PostgresServer
from triptych.access import Access
from triptych.contracts import Store
from triptych.records import Condition, Layer, NewDocument, Subject
from triptych.search import Pipeline
from triptych.service import Service, ServiceOptions
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_backends.sqlite.connection import Connections
from triptych_factory import open_tables
from triptych_testing.fakes import FakeEmbedder, FakeSparseEncoder, ScriptedLLM

pytest.importorskip("psycopg")
import psycopg

HIDDEN = 25
TRIES = 30
"""What threads do side by side may take a step more: the least of both is what the call takes."""

OURS = 4
LONG = "a text of more than sixteen bytes"
ACCESS = Access(where={"team": "ours"})
ASKED = {"salary", "only red", "note", "tags", "$heading", "$name", "$expires_at"}

WHERES: list[dict[str, Any]] = [
    {"salary": {"$gte": 5}},
    {"salary": 9},
    {"salary": "9"},
    {"only red": 1},
    {"$not": {"salary": {"$lt": 5}}},
    {"note": {"$contains": "secret"}},
    {"note": {"$gt": f"{LONG}: r"}},
    {"tags": {"$contains": "red"}},
    {"heading": "Red"},
    {"doc_prefix": "red/"},
    {"$name": {"$contains": "red"}},
    {"$or": [{"salary": {"$exists": False}}, {"note": f"{LONG}: secret"}]},
    {"$and": [{"heading": "Red"}, {"$or": [{"salary": 9}, {"heading": "Blue"}]}],},
]  # fmt: skip

Call = Callable[[Service, dict[str, Any]], Any]
CALLS: dict[str, Call] = {
    "search": lambda s, w: s.search("tea", dataset_id="kb", where=w),
    "bm25": lambda s, w: s.search("tea", dataset_id="kb", where=w, mode="bm25"),
    "vector": lambda s, w: s.search("tea", dataset_id="kb", where=w, mode="vector"),
    "fresh": lambda s, w: s.search("tea", dataset_id="kb", where=w, fresh_only=True),
    "everywhere": lambda s, w: s.search("tea", scope="all", where=w),
    "listing": lambda s, w: s.search("", dataset_id="kb", where=w),
    "list": lambda s, w: s.list_documents("kb", where=w),
    "prefix": lambda s, w: s.list_documents("kb", where=w, prefix="red/"),
    "only prefix": lambda s, w: s.list_documents("kb", prefix="red/"),
    "sorted": lambda s, w: s.list_documents("kb", where=w, sort="-salary", limit=2),
    "count": lambda s, w: s.count_documents("kb", where=w),
    "documents": lambda s, w: s.search_documents("tea", dataset_id="kb", where=w),
    "many": lambda s, w: s.search_many(["tea", "pot"], dataset_id="kb", where=w),
    "context": lambda s, w: s.context("tea", 300, dataset_id="kb", where=w, counter=len),
    "ask": lambda s, w: s.ask("tea", dataset_id="kb", where=w, llm=ScriptedLLM("It is [1].")),
    "pipeline": lambda s, w: s.pipeline("saved").search("tea", where=w),
    "suggestion": lambda s, w: missed(s),
    "near words": lambda s, w: s.search("pott bluee", dataset_id="kb"),
}
EVERY = ("search", "listing", "list", "documents", "abstracts")
"""The calls that are made with each filter: the others evaluate it as these do."""

LAYERS: dict[str, Call] = {
    "abstracts": lambda s, w: s.search("tea", dataset_id="kb", where=w, layer="L0"),
    "sparse": lambda s, w: s.search("tea", dataset_id="kb", where=w, mode="sparse"),
}


def missed(service: Service) -> None:
    with pytest.raises(triptych.NotFoundError):
        service.get_document("kb", "red/h1.m")
    with pytest.raises(triptych.NotFoundError):
        service.search("tea", dataset_id="kv")


def metadata_of(number: int, *, passes: bool) -> dict[str, Any]:
    """What a hidden document has: of one size whether it passes what is asked or not."""
    word = "secret" if passes else "public"
    return {
        "team": "them",
        "salary": 9 if passes else 1,
        "note": f"{LONG}: {word}",
        "tags": ["red" if passes else "sea", f"t{number}"],
        "only red" if passes else "only sea": 1,
    }


def hidden(passes: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    word = "Red" if passes else "Sea"
    for number in range(HIDDEN):
        name = f"{word.lower()}/h{number}.md"
        yield name, f"# {word}\n\nTea in a pot.", metadata_of(number, passes=passes)


def ours() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number in range(OURS):
        metadata = {**metadata_of(number, passes=number % 2 == 0), "team": "ours"}
        metadata = {key: value for key, value in metadata.items() if not key.startswith("only")}
        yield f"ours{number}.md", f"# {'Red' if number else 'Blue'}\n\nTea {number}.", metadata


def filled(store: Store, passes: bool) -> Service:
    saved = Pipeline(name="saved", datasets=("kb",))
    service = Service(
        store,
        options=ServiceOptions(
            embedder=FakeEmbedder(),
            sparse_encoder=FakeSparseEncoder(),
            scratch=MemoryStore,
            pipelines=[saved],
        ),
    )
    documents = [*hidden(passes), *ours()]
    service.put_documents(
        "kb",
        [NewDocument(name=name, content=text, metadata=held) for name, text, held in documents],
    )
    for name, _, metadata in documents:
        if metadata["tags"][1] in ("t0", "t1", "t2"):
            service.put_document_layer("kb", name, Layer.ABSTRACT, "Of tea.")
    return service


class Work:
    """What was done while it counted."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.judged: set[str] = set()
        self.lock = Lock()

    def add(self, kind: str, count: int) -> None:
        """Note work: lanes do theirs side by side, and ``+=`` of two threads may lose one's."""
        with self.lock:
            self.counts[kind] += count

    def judge(self, condition: Condition, subject: Subject) -> None:
        """Note a condition that the caller asked, and on which document it is evaluated.

        That a document has one of some names is what a store asks of documents that it has found.
        """
        if condition.field in ASKED and (condition.field, condition.operator) != ("$name", "in"):
            self.add("conditions", 1)
            self.judged.add(subject.name)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts what is evaluated in this process and in its databases."""
    found = Work()
    admits, connect = Condition.admits, Connections.connect
    execute = psycopg.Cursor.execute

    def judged(self: Condition, subject: Subject) -> bool:
        found.judge(self, subject)
        return admits(self, subject)

    def connected(self: Connections) -> Any:
        driver = connect(self)

        def step() -> int:
            found.add("instructions", 1)
            return 0

        driver.set_progress_handler(step, 1)
        return driver

    def executed(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        text = query.as_string(self) if hasattr(query, "as_string") else query
        text = text.decode() if isinstance(text, bytes) else text
        if text.lstrip().startswith(("SELECT", "WITH")):
            explained = execute(self, "EXPLAIN (ANALYZE, FORMAT JSON) " + text, params)
            found.add("rows", looked_at(explained.fetchall()[0][0][0]["Plan"]))
        return execute(self, query, params, **more)

    monkeypatch.setattr(Condition, "admits", judged)
    monkeypatch.setattr(Connections, "connect", connected)
    monkeypatch.setattr(psycopg.Cursor, "execute", executed)
    return found


def looked_at(plan: dict[str, Any]) -> int:
    """The rows that a plan read, those included that it left out."""
    loops = plan["Actual Loops"]
    own = plan["Actual Rows"] + sum(
        plan.get(f"Rows Removed by {why}", 0) for why in ("Filter", "Index Recheck", "Join Filter")
    )
    return round(own * loops) + sum(looked_at(each) for each in plan.get("Plans", ()))


def works_alike(pair: tuple[Service, Service], calls: dict[str, Call], work: Work) -> None:
    """Assert that each call takes the same work over both stores, and judges nothing hidden."""
    names = {name for name, _, _ in ours()}
    for name, call in calls.items():
        for where in WHERES if name in EVERY else WHERES[:1]:
            for service in pair:
                call(service, where)  # what is read once, such as an index
            tries: list[list[dict[str, int]]] = []
            while not tries or (not alike(tries) and len(tries) < TRIES):
                tries.append([])
                for service in pair:
                    work.counts.clear()
                    work.judged.clear()
                    call(service, where)
                    tries[-1].append(dict(work.counts))
                    assert work.judged <= names, (name, where)
            assert alike(tries), (name, where, tries)


def alike(tries: list[list[dict[str, int]]]) -> bool:
    """Whether the least that each store took is the same: each kind of work, over all tries."""
    first, second = (least([taken[side] for taken in tries]) for side in (0, 1))
    return first == second


def least(taken: list[dict[str, int]]) -> dict[str, int]:
    return {kind: min(each.get(kind, 0) for each in taken) for kind in set().union(*taken)}


STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda path: MemoryStore(),
    "sqlite": lambda path: SqliteStore.open(path / "kb.db", background_index=False),
    "files": lambda path: FilesStore.open(path / "kb"),
}


@pytest.mark.parametrize("kind", STORES)
def test_no_work_depends_on_what_is_hidden(kind: str, tmp_path: Path, work: Work) -> None:
    with ExitStack() as stack:
        pair = []
        for passes in (True, False):
            folder = tmp_path / str(passes)
            folder.mkdir()
            whole = stack.enter_context(filled(STORES[kind](folder), passes))
            pair.append(whole.restricted(ACCESS))
        works_alike((pair[0], pair[1]), CALLS | LAYERS, work)


def test_no_work_of_postgresql_depends_on_what_is_hidden(
    postgres_server: PostgresServer, work: Work
) -> None:
    from triptych_postgres import PostgresStore

    with ExitStack() as stack:
        pair = []
        for passes in (True, False):
            schema = f"first_{passes}".lower()
            url = postgres_server.schema_url(schema)
            whole = stack.enter_context(filled(PostgresStore.open(url), passes))
            with postgres_server.connect() as driver:
                driver.execute(f"ANALYZE {schema}.document, {schema}.document_meta")
            stack.callback(drop, postgres_server, schema)
            pair.append(whole.restricted(ACCESS))
        works_alike((pair[0], pair[1]), CALLS | LAYERS, work)


def drop(server: PostgresServer, schema: str) -> None:
    with server.connect() as driver:
        driver.execute(f"DROP SCHEMA {schema} CASCADE")


def test_no_work_over_qdrant_depends_on_what_is_hidden(tmp_path: Path, work: Work) -> None:
    pytest.importorskip("qdrant_client")
    from support.qdrant_local import LocalMode
    from triptych_qdrant import QdrantStore

    with ExitStack() as stack:
        pair = []
        for passes in (True, False):
            folder = tmp_path / str(passes)
            folder.mkdir()
            truth = SqliteStore.open(folder / "kb.db", background_index=False)
            whole = stack.enter_context(filled(QdrantStore(truth, LocalMode()), passes))
            pair.append(whole.restricted(ACCESS))
        works_alike((pair[0], pair[1]), CALLS | LAYERS, work)


def table(tables: ForeignTables, passes: bool) -> None:
    """A table whose every asked column has an index, which would find the hidden rows at once."""
    tables.execute(
        "CREATE TABLE kb (title text PRIMARY KEY, body text, near vector, team text, salary int, "
        "note text, tags text[])",
        "CREATE INDEX ON kb (salary)",
        'CREATE INDEX ON kb (note COLLATE "C")',
        "CREATE INDEX ON kb (team)",
    )
    rows = [
        (
            name,
            text,
            vector_of(text),
            *(metadata[key] for key in ("team", "salary", "note", "tags")),
        )
        for name, text, metadata in [*hidden(passes), *ours()]
    ]
    tables.insert("kb", "title, body, near, team, salary, note, tags", rows)
    tables.execute("ANALYZE kb")


SPEC = {
    "name": "kb",
    "table": "kb",
    "id": "title",
    "columns": [{"text": "body", "vector": "near"}],
    "metadata": ["team", "salary", "note", "tags"],
}
IN_PLACE = {name: call for name, call in CALLS.items() if name not in ("pipeline", "documents")}


def test_no_work_over_tables_depends_on_what_is_hidden(
    postgres_server: PostgresServer, work: Work
) -> None:
    from triptych_models import HashEmbedder

    with ExitStack() as stack:
        pair = []
        for passes in (True, False):
            tables = stack.enter_context(foreign_tables(postgres_server))
            table(tables, passes)
            made = open_tables(tables.url, [SPEC], embedder=HashEmbedder())
            pair.append(stack.enter_context(made).restricted(ACCESS))
        works_alike((pair[0], pair[1]), IN_PLACE, work)


def test_no_work_over_collections_depends_on_what_is_hidden(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("qdrant_client")
    from support.edge_points import LocalPoints
    from triptych_models import HashEmbedder

    embedder = HashEmbedder()
    with ExitStack() as stack:
        pair = []
        for passes in (True, False):
            points = LocalPoints()
            points.make("kb", {"near": (embedder.dimension, "Cosine")})
            points.put(
                "kb",
                [
                    (at, {"near": embedder.embed([text], kind="document")[0].tolist()},
                     {"body": text, "title": name, **metadata})
                    for at, (name, text, metadata) in enumerate([*hidden(passes), *ours()])
                ],
            )  # fmt: skip
            for kind in ("query_points", "scroll", "count"):
                counted(points.client, kind, work, monkeypatch)
            made = open_tables(points.client, [SPEC], embedder=embedder)
            pair.append(stack.enter_context(made).restricted(ACCESS))
        works_alike((pair[0], pair[1]), IN_PLACE, work)


def counted(client: Any, kind: str, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the points that the client sends; fail if it is asked for what a caller asks."""
    ask = getattr(client, kind)

    def asked(*args: Any, **kwargs: Any) -> Any:
        given = repr((args, kwargs))
        assert not [field for field in ("salary", "note") if f"key='{field}'" in given], given
        found = ask(*args, **kwargs)
        if kind != "count":
            sent = found.points if kind == "query_points" else found[0]
            work.add(kind, len(sent))
        return found

    monkeypatch.setattr(client, kind, asked)
