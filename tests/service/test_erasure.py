"""What was purged is in no file of any store, and the receipt says what was removed from where."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from support.postgres import PostgresServer
from triptych import ServiceOptions
from triptych.access import Access
from triptych.copies import copy_store
from triptych.errors import PendingReviewError
from triptych.proposals import Proposals
from triptych.question_log import QuestionLog
from triptych.records import PurgeReceipt
from triptych.records.serialization import to_json
from triptych.search import SemanticCache
from triptych.service import Service
from triptych_backends.sqlite import SqliteStore, write_backup
from triptych_models import HashEmbedder

NAME, HEADING, WORD, OLD, META, ASKED = NEEDLES = (
    "zqname", "zqheading", "zqwordling", "zqolder", "zqmetadata", "zqrequest",
)  # fmt: skip
PATH = f"patients/north/{NAME}.md"
KINDS = ("memory", "sqlite", "files", "postgres", "qdrant")
Holders = Callable[[], list[str]]


class Place:
    """Where a store is, how it is opened, and which of its files hold one of the needles."""

    def __init__(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
        self.kind = kind
        self.folder = folder / "store"
        self.folder.mkdir()
        self._server: PostgresServer | None = None
        self._url = {"memory": "memory://", "files": f"files://{self.folder / 'kb'}"}.get(
            kind, str(self.folder / "kb.db")
        )
        if kind == "postgres":
            self._server = request.getfixturevalue("postgres_server")
            self._url = request.getfixturevalue("postgres_url")

    @contextmanager
    def opened(self) -> Iterator[Service]:
        if self.kind != "qdrant":
            with triptych.open(
                self._url, embedder="hash", semantic_cache=True, question_log=True
            ) as kb:
                yield kb
            return
        edge = pytest.importorskip("support.qdrant_edge", reason="the extra dev has qdrant-edge")
        from triptych_qdrant import QdrantStore

        truth = SqliteStore.open(self.folder / "kb.db", background_index=False)
        options = ServiceOptions(
            embedder=HashEmbedder(),
            semantic_cache=SemanticCache(),
            observer=QuestionLog(truth.capabilities.settings),
        )
        store = QdrantStore(truth, edge.EdgeCollections(self.folder / "qdrant"))
        with store, Service(store, options=options) as kb:
            yield kb

    def holders(self) -> list[str]:
        found = [] if self._server is None else self._server.holders(*NEEDLES)
        for path in self.folder.rglob("*"):
            # A server removes a collection's folder; the engine in this process only leaves it.
            if not any(part.startswith("dropped-") for part in path.parts):
                held = str(path.relative_to(self.folder)).encode()
                held = (held + (path.read_bytes() if path.is_file() else b"")).lower()
                found += [f"{path.name}: {each}" for each in NEEDLES if each.encode() in held]
        return found


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path, request)


def fill(kb: Service) -> None:
    """A document in every place that keeps something of it, and others beside it."""
    kb.put_documents("d", {f"patients/north/{n}.md": f"# Other\n\nKettle {n}." for n in range(5)})
    kb.put_documents("e", {"kettle.md": "# Kettle\n\nIt sings."})
    kb.put_document("d", PATH, f"# Before\n\nIt was {OLD} then.\n", {"by": META})
    kb.put_document("d", PATH, f"# {HEADING}\n\nThe {WORD} sat there.\n", {"by": META})
    for layer in ("L0", "L1"):
        kb.put_document_layer("d", PATH, layer, f"About a {WORD}.")
    kb.put_folder_layer("d", "patients/north/", "L0", f"Others, and a {WORD}.")
    kb.put_folder_layer("d", "patients/", "L1", f"Many, and a {WORD}.")
    kb.put_dataset_layer("d", "L0", f"All, and a {WORD}.")
    for dataset_id in ("d", "e"):
        kb.search("what sat there", dataset_id=dataset_id)
        kb.search("zebra crossing", mode="bm25", dataset_id=dataset_id)
    hits = kb.search(WORD, mode="bm25", dataset_id="d").hits
    assert QuestionLog(kb.capabilities.settings).note("a weak one", ["d"], "weak", hits) is None
    kept = kb.capabilities.settings
    assert kept is not None
    assert kept.set_setting("http.idempotency.body.1", f"{ASKED} {WORD}", expected=None)
    assert kept.set_setting("http.idempotency.state.1", "{}", expected=None)
    Proposals.of(kb).set_reviewed("d", True)
    agent = kb.restricted(Access(can_write=True, agent=True))
    for did in ("stood up", "left"):
        with pytest.raises(PendingReviewError):
            agent.put_document("d", PATH, f"The {WORD} {did}.", {"by": META})
    assert kb.cache_stats().entries == 2  # all that was answered is kept


def readable(kb: Service) -> str:
    """All that can be read of a store, but for what is named by itself."""
    assert kb.capabilities.settings is not None
    shown: list[Any] = [dict(kb.capabilities.settings.list_settings()), to_json(kb.changes())]
    for dataset_id in kb.list_datasets():
        names = [each.name for each in kb.list_documents(dataset_id)]
        shown += [kb.get_document(dataset_id, name) for name in names]
        shown += [kb.history(dataset_id, name) for name in names]
        shown += [kb.layers(dataset_id), *kb.store.chunks.iter_chunks(dataset_id)]
    return repr(shown).lower()


def others(kb: Service) -> list[Any]:
    """All of the documents that are not purged, with what is derived from them."""
    names = [each.name for each in kb.list_documents("d") if NAME not in each.name]
    assert len(names) == 5
    return [
        (kb.get_document("d", name), kb.history("d", name), kb.layer("d", name, "L0"))
        for name in names
    ] + [
        (each.doc_name, each.content, None if each.vector is None else each.vector.tobytes())
        for each in kb.store.chunks.iter_chunks("d", vectors=True)
        if NAME not in each.doc_name
    ]


def counts(receipt: PurgeReceipt) -> dict[str, int]:
    held = attrs.asdict(receipt).items()
    return {name: n for name, n in held if type(n) is int and n and name != "terms"}


def test_a_purge_leaves_nothing_of_a_document_and_the_receipt_says_what_went(
    place: Place, tmp_path: Path
) -> None:
    with place.opened() as kb:
        fill(kb)
        with SqliteStore.open(tmp_path / "copy.db") as copy:
            copy_store(kb.store, copy)
        write_backup(kb.store, tmp_path / "backup.db")
        before = others(kb)
        assert place.kind == "memory" or place.holders()
        receipt = kb.purge("d", PATH)
        assert receipt.existed
        assert counts(receipt) == {
            "documents": 1, "versions": 1, "chunks": 1, "vectors": 1, "layers": 5, "answers": 2,
            "questions": 1, "requests": 1,
        }  # fmt: skip
        assert (receipt.terms is not None) is (place.kind == "postgres")
        assert place.holders() == []
        assert not [each for each in NEEDLES if each in readable(kb)]
        assert others(kb) == before
        assert kb.search("kettle", dataset_id="e").hits
        assert kb.doctor().clean
    assert place.holders() == []
    # These are beyond it.
    beyond = " ".join(receipt.beyond)
    assert all(each in beyond for each in ("copies", "backups", "memory", "providers"))
    assert WORD.encode() in b"".join(path.read_bytes() for path in tmp_path.glob("copy.db*"))
    assert (tmp_path / "backup.db").exists()


def test_a_purge_of_a_dataset_leaves_nothing_of_it(place: Place) -> None:
    with place.opened() as kb:
        fill(kb)
        receipt = kb.purge("d")
        assert counts(receipt) == {
            "documents": 6, "versions": 1, "chunks": 6, "vectors": 6, "layers": 5, "answers": 2,
            "questions": 2, "requests": 1,
        }  # fmt: skip
        assert place.holders() == []
        assert not [each for each in NEEDLES if each in readable(kb)]
        assert kb.search("kettle", dataset_id="e").hits
    assert place.holders() == []


def test_what_is_edited_and_deleted_stays_until_a_purge(place: Place) -> None:
    with place.opened() as kb:
        fill(kb)
        kb.put_document("d", PATH, "Nothing.", {})
        assert WORD in kb.get_document("d", PATH, kb.history("d", PATH)[1].version).content
        kb.delete_document("d", PATH)
        assert place.kind == "memory" or place.holders()
        receipt = kb.purge("d", PATH)
        assert (receipt.existed, receipt.layers) == (False, 3)  # the layers that are stale now
        assert place.holders() == []


def test_a_purge_of_nothing_changes_nothing(place: Place) -> None:
    with place.opened() as kb:
        fill(kb)
        before = others(kb), kb.layers("d"), kb.cache_stats().entries
        assert before[2] == 2
        for name in ("patients/north/none.md", "none.md"):
            receipt = kb.purge("d", name)
            assert not receipt
            assert set(counts(receipt)) <= {"requests", "answers"}
        assert not kb.purge("none")
        # Results of searches may hold what was deleted before: each purge erases them.
        assert (others(kb), kb.layers("d"), kb.cache_stats().entries) == (*before[:2], 0)


def test_a_caller_with_a_filter_learns_nothing_of_others_by_a_receipt(place: Place) -> None:
    with place.opened() as kb:
        fill(kb)
        mine = kb.restricted(Access(dataset_ids=["d"], can_write=True, where={"by": META}))
        assert counts(mine.purge("d", PATH)) == {
            "documents": 1, "versions": 1, "chunks": 1, "vectors": 1, "layers": 2,
        }  # fmt: skip
        assert mine.purge("d", PATH).terms is None
        assert place.holders() == []
        before = others(kb)
        assert not mine.purge("d", "patients/north/1.md")
        assert others(kb) == before


def test_golden_questions_keep_their_text_and_the_receipt_says_so(place: Place) -> None:
    with place.opened() as kb:
        fill(kb)
        settings = kb.capabilities.settings
        assert settings is not None
        kept = [("Who is she?", {PATH: 2}), (f"Is {PATH} right?", {}), ("Another.", {"x.md": 0})]
        queries = [{"id": q, "question": q, "relevance": grades} for q, grades in kept]
        text = json.dumps({"queries": queries})
        assert settings.set_setting("golden/d", text, expected=None)
        receipt = kb.purge("d", PATH)
        assert receipt.beyond[0].startswith("the text of 2 golden questions about it")
        assert any("golden questions about it" in each for each in kb.purge("d", PATH).beyond[1:])
        left = json.loads(settings.get_setting("golden/d") or "")["queries"]
        assert [each["question"] for each in left] == [q for q, _ in kept]
        assert [each["relevance"] for each in left] == [{}, {}, {"x.md": 0}]


def test_a_purge_beside_other_writers_of_a_program_waits_its_turn(tmp_path: Path) -> None:
    names = [f"{at}.md" for at in range(8)]

    def write(kb: Service, number: int) -> None:
        for turn in range(12):
            kb.put_document("d", names[turn % 8], f"The kettle {number} {turn}.")
            kb.purge("d", names[(turn + 5) % 8])

    with triptych.open(tmp_path / "kb.db") as kb, ThreadPoolExecutor(3) as threads:
        kb.put_documents("d", dict.fromkeys(names, "The kettle."))
        for each in [threads.submit(write, kb, number) for number in range(3)]:
            each.result()
