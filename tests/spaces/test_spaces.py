"""Changing the embedder of a dataset while it serves, through a Service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from triptych.access import Access
from triptych.contracts import Store
from triptych.errors import ConflictError, NotAvailableError, NotFoundError, ProviderError
from triptych.records import EmbedKind, Layer, Mode, Query, Result
from triptych.records.spaces import dense
from triptych.service import Service, ServiceOptions
from triptych.spaces import (
    drop_space,
    fill_space,
    list_spaces,
    space_service,
    swap_back,
    swap_space,
)
from triptych.spaces.filling import space_repo
from triptych.testing.fakes import FakeEmbedder
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore

TEXTS = {
    "tea.md": "# Tea\n\nTea needs hot water.\n",
    "cups.md": "# Cups\n\nFour cups, and a kettle.\n",
    "pots/clay.md": "# Pots\n\nA pot of clay.\n",
}
QUERY = "hot water"


class CountingEmbedder(FakeEmbedder):
    """Notes the texts of documents, and does something before it answers."""

    def __init__(self, signature: str, dimension: int) -> None:
        super().__init__(signature, dimension)
        self.documents: list[str] = []
        self.before: Callable[[], None] = lambda: None

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        self.before()
        if kind == "document":
            self.documents += texts
        return super().embed(texts, kind=kind)


@attrs.frozen
class Pair:
    """A store, the embedder it was filled with, and the next one."""

    store: Store
    old: CountingEmbedder
    new: CountingEmbedder

    def service(self, **options: object) -> Service:
        return Service(
            self.store,
            options=ServiceOptions(
                embedder=self.old,
                next_embedder=self.new,
                scratch=MemoryStore,
                **options,  # type: ignore[arg-type]  # of any kind
            ),
        )


@pytest.fixture(params=["memory", "sqlite"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    store: Store = (
        MemoryStore() if request.param == "memory" else SqliteStore.open(tmp_path / "kb.db")
    )
    found = Pair(store, CountingEmbedder("old/1", 16), CountingEmbedder("new/1", 12))
    with_old = Service(store, options=ServiceOptions(embedder=found.old))
    with_old.put_documents("d", TEXTS)
    yield found
    store.close()


def shown(result: Result) -> list[tuple[str, float]]:
    return [(hit.doc_name, round(hit.score, 5)) for hit in result.hits]


def once(change: Callable[[], object]) -> Callable[[], None]:
    """``change`` at the first call, nothing at any other."""
    left = [change]

    def run() -> None:
        if left:
            left.pop()()

    return run


def fresh(embedder: FakeEmbedder, texts: dict[str, str], mode: Mode) -> list[tuple[str, float]]:
    """What a store that was filled with this embedder alone finds."""
    with Service(MemoryStore(), options=ServiceOptions(embedder=embedder)) as kb:
        kb.put_documents("d", texts)
        return shown(kb.search(QUERY, dataset_id="d", mode=mode))


def test_swap_and_way_back_are_followed_by_every_service_at_once(pair: Pair) -> None:
    kb, other = pair.service(), pair.service()
    plain = Service(pair.store, options=ServiceOptions(embedder=pair.old))
    before = {mode: shown(kb.search(QUERY, dataset_id="d", mode=mode)) for mode in Mode}
    report = fill_space(kb, "d")
    assert (report.documents, report.embedded, report.lacking) == (3, 3, 0)
    assert {m: shown(other.search(QUERY, dataset_id="d", mode=m)) for m in Mode} == before
    made = len(pair.new.documents)
    swapped = swap_space(kb, "d")
    assert (swapped.swapped, swapped.before, swapped.embedded, swapped.pending) == (
        True,
        "old/1",
        0,
        0,
    )
    for service in (kb, other):
        for mode in Mode:
            result = service.search(QUERY, dataset_id="d", mode=mode)
            assert shown(result) == fresh(pair.new, TEXTS, mode)
            assert result.warnings == ()
            assert all(hit.stale is None for hit in result.hits)
        assert service.search_documents(QUERY, dataset_id="d", mode="vector").hits
    assert len(pair.new.documents) == made + 2 * 3 * 3, "only the fresh stores were filled"
    warned = plain.search(QUERY, dataset_id="d")
    assert shown(warned) == shown(plain.search(QUERY, dataset_id="d", mode="bm25"))
    assert any("another model" in warning for warning in warned.warnings)
    again = swap_space(kb, "d")
    assert (again.swapped, again.embed_sig) == (False, "new/1")
    old = len(pair.old.documents)
    assert swap_back(other, "d").swapped
    assert {m: shown(kb.search(QUERY, dataset_id="d", mode=m)) for m in Mode} == before
    assert len(pair.old.documents) == old
    assert [(each.embed_sig, each.serves, each.lacking) for each in list_spaces(kb, "d")] == [
        ("old/1", True, 0),
        ("new/1", False, 0),
    ]


def test_writes_go_to_the_space_that_serves(pair: Pair) -> None:
    kb = pair.service()
    fill_space(kb, "d")
    kb.put_document("d", "more.md", "# More\n\nMore water.\n")
    assert len(pair.new.documents) == 3
    assert [each.lacking for each in list_spaces(kb, "d")] == [0, 1]
    swapped = swap_space(kb, "d")
    assert swapped.embedded == 1
    old = len(pair.old.documents)
    kb.put_document("d", "tea.md", "# Tea\n\nTea needs hotter water.\n")
    report = kb.put_documents("d", {"last.md": "# Last\n\nThe last cup.\n", **TEXTS})
    assert (report.embedded, report.failed) == (2, ())
    assert len(pair.old.documents) == old
    assert kb.stats("d")[0].pending == 0
    assert not kb.rebuild(dataset_id="d").rebuilt, "a rebuild swaps nothing"
    assert kb.chunks.config("d").embed_sig == "new/1"  # type: ignore[union-attr]
    every = {**TEXTS, "more.md": "# More\n\nMore water.\n", "last.md": "# Last\n\nThe last cup.\n"}
    found = kb.search(QUERY, dataset_id="d", mode="vector")
    assert shown(found) == fresh(pair.new, every, Mode.VECTOR)
    back = swap_back(kb, "d")
    # One text is new, and the entry of the other went with the text while that was not there.
    assert back.embedded == 2
    found = kb.search(QUERY, dataset_id="d", mode="vector")
    assert shown(found) == fresh(pair.old, every, Mode.VECTOR)
    assert kb.health(probe=False).ok
    assert kb.doctor().findings == ()


def test_layers_are_filled_and_swapped(pair: Pair) -> None:
    kb = pair.service()
    kb.put_document_layer("d", "tea.md", "L0", "About tea.")
    kb.put_folder_layer("d", "pots/", "L0", "About pots.")
    kb.put_dataset_layer("d", "L1", "About all.")
    report = fill_space(kb, "d")
    assert (report.embedded, report.lacking, report.failed) == (6, 0, ())
    swap_space(kb, "d")
    found = kb.search("About tea.", dataset_id="d", layer="L0", mode="vector")
    assert found.hits[0].doc_name == "tea.md"
    assert found.hits[0].score == pytest.approx(1, abs=1e-5)
    assert {each.stale for each in kb.layers("d")} == {None}
    made = kb.put_document_layer("d", "cups.md", Layer.ABSTRACT, "About cups.")
    assert made.sig.embed_sig == "new/1"
    swap_back(kb, "d")
    assert "embedder" not in {each.stale for each in kb.layers("d")}
    found = kb.search("About cups.", dataset_id="d", layer="L0", mode="vector")
    assert found.hits[0].score == pytest.approx(1, abs=1e-5)


def test_fill_goes_on_where_it_was_cut_off(pair: Pair) -> None:
    kb = pair.service()
    kb.put_documents("d", {f"{number:03}.md": f"Text number {number}." for number in range(200)})
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise KeyboardInterrupt

    pair.new.before = fail
    with pytest.raises(KeyboardInterrupt):
        fill_space(kb, "d")
    pair.new.before = lambda: None
    made = len(pair.new.documents)
    assert 0 < made < 203
    kept = list_spaces(kb, "d")[1]
    assert kept.vectors == made
    report = fill_space(kb, "d")
    assert report.lacking == 0
    assert sorted(pair.new.documents) == sorted(set(pair.new.documents))
    assert len(pair.new.documents) == 203


def test_several_that_fill_at_once_leave_every_vector(pair: Pair) -> None:
    kb = pair.service()
    kb.put_documents("d", {f"{number:03}.md": f"Text number {number}." for number in range(300)})
    errors: list[BaseException] = []
    pair.new.before = lambda: time.sleep(0.1)

    def run() -> None:
        try:
            fill_space(pair.service(), "d")
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list_spaces(kb, "d")[1].lacking == 0
    assert len(set(pair.new.documents)) == 303


def test_incomplete_space_is_refused_without_a_word(pair: Pair) -> None:
    kb = pair.service()
    pair.new.before = lambda: _fail(pair.new)
    report = fill_space(kb, "d")
    assert report.lacking == 3
    assert {each.name for each in report.failed} == set(TEXTS)
    with pytest.raises(ConflictError, match="3 documents of the dataset 'd' lack vectors"):
        swap_space(kb, "d", incomplete=True)
    pair.new.before = lambda: None
    kb.put_document("d", "first.md", "# First\n\nFirst water.\n")
    with Service(
        pair.store, options=ServiceOptions(embedder=pair.old, next_embedder=pair.new)
    ) as some:
        repo = space_repo(some)
        (chunk,) = kb.chunks.iter_chunks("d", "tea.md")
        row = pair.new.embed(["x"], kind="query")[0]
        entry = {chunk.sig.input_sig: row}
        repo.put_vectors("d", dense("new/1"), ["tea.md"], entry, serves=False)
        pair.new.before = lambda: _fail(pair.new)
        with pytest.raises(ConflictError, match="3 documents"):
            swap_space(some, "d")
        swapped = swap_space(some, "d", incomplete=True)
        assert swapped.pending == 3
        pair.new.before = lambda: None
        found = some.search(QUERY, dataset_id="d", mode="bm25")
        assert found.hits
        assert any("lack vectors" in w for w in some.search(QUERY, dataset_id="d").warnings)
        assert some.embed_pending("d").embedded == 3
        assert some.stats("d")[0].pending == 0


def _fail(embedder: FakeEmbedder) -> None:
    raise ProviderError(f"{embedder.signature} is away")


def test_search_between_two_spaces_is_asked_again(pair: Pair) -> None:
    """The dataset is swapped after the search has read its configuration."""
    kb, other = pair.service(), pair.service()
    fill_space(kb, "d")
    for serving, wanted, change in (
        (pair.old, pair.new, swap_space),
        (pair.new, pair.old, swap_back),
        (pair.old, pair.new, swap_space),
    ):
        serving.before = once(lambda change=change: change(other, "d"))  # type: ignore[misc]
        found = kb.search(QUERY, dataset_id="d", mode="vector")
        serving.before = lambda: None
        assert kb.chunks.config("d").embed_sig == wanted.signature  # type: ignore[union-attr]
        assert shown(found) == fresh(wanted, TEXTS, Mode.VECTOR)
        many = kb.search_many([Query(text=QUERY, dataset_id="d", mode=Mode.VECTOR)] * 2)
        assert [shown(each) for each in many] == [shown(found)] * 2


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("back", [False, True])
def test_put_between_two_spaces_ends_in_the_one_that_serves(
    pair: Pair, bulk: bool, back: bool
) -> None:
    kb, other = pair.service(), pair.service()
    fill_space(kb, "d")
    serving, wanted, change = pair.old, pair.new, swap_space
    if back:
        change(other, "d")
        serving, wanted, change = pair.new, pair.old, swap_back
    serving.before = once(lambda: change(other, "d"))
    texts = {f"{number}.md": f"# New\n\nText {number}.\n" for number in range(3 if bulk else 1)}
    if bulk:
        report = kb.put_documents("d", texts)
        assert (report.added, report.failed, report.pending) == (3, (), 0)
    else:
        kb.put_document("d", "0.md", texts["0.md"])
    assert kb.chunks.config("d").embed_sig == wanted.signature  # type: ignore[union-attr]
    assert kb.stats("d")[0].pending == 0
    found = kb.search(QUERY, dataset_id="d", mode="vector", top_k=50)
    assert shown(found) == fresh(wanted, {**TEXTS, **texts}, Mode.VECTOR)
    assert kb.doctor().findings == ()


def test_swap_is_not_refused_for_what_others_put_meanwhile(pair: Pair) -> None:
    """Each time that it embeds what is new, there is one more document."""
    kb, other = pair.service(), pair.service()
    texts = dict(TEXTS)

    def another() -> None:
        if len(texts) < 9:
            name = f"{len(texts)}.md"
            texts[name] = f"# New\n\nText {name}.\n"
            other.put_document("d", name, texts[name])

    pair.new.before = another
    swapped = swap_space(kb, "d")
    assert (swapped.swapped, swapped.pending, len(texts)) == (True, 0, 9)
    found = kb.search(QUERY, dataset_id="d", mode="vector", top_k=50)
    assert shown(found) == fresh(pair.new, texts, Mode.VECTOR)


def test_datasets_of_both_embedders_are_searched_without_mixing_them(pair: Pair) -> None:
    kb = pair.service()
    kb.put_documents("e", {"e.md": "# Tea\n\nTea needs hot water.\n"})
    fill_space(kb)
    swap_space(kb, "d")
    first, second = kb.search_many(
        [Query(text=QUERY, dataset_id=name, mode=Mode.VECTOR) for name in "de"]
    )
    assert shown(first) == fresh(pair.new, TEXTS, Mode.VECTOR)
    assert [name for name, _ in shown(second)] == ["e.md"]
    assert shown(second) == shown(kb.search(QUERY, dataset_id="e", mode="vector"))
    both = kb.search(Query(text=QUERY, scope="all"))  # type: ignore[arg-type]  # converted
    assert {hit.dataset_id for hit in both.hits} == {"d", "e"}
    assert all(hit.stale is None for hit in both.hits)
    assert any("another model" in each for each in both.warnings)


def test_space_is_evaluated_in_memory_without_embedding_a_document(pair: Pair) -> None:
    kb = pair.service()
    fill_space(kb, "d")
    made = len(pair.new.documents)
    with space_service(kb, "d") as (shown_service, missing):
        assert missing == 0
        found = shown_service.search(QUERY, dataset_id="d", mode="vector")
        assert len(pair.new.documents) == made
        assert all(hit.stale is None for hit in found.hits)
        assert found.warnings == ()
        scores = shown(found)
    assert scores == fresh(pair.new, TEXTS, Mode.VECTOR)
    assert kb.chunks.config("d").embed_sig == "old/1"  # type: ignore[union-attr]


def test_spaces_are_dropped_and_names_that_are_wrong_are_refused(pair: Pair) -> None:
    kb = pair.service()
    with pytest.raises(NotFoundError):
        fill_space(kb, "none")
    with pytest.raises(NotFoundError, match="keeps no vectors to go back to"):
        swap_back(Service(pair.store, options=ServiceOptions(embedder=pair.new)), "d")
    fill_space(kb, "d")
    with pytest.raises(ConflictError, match="serves the dataset"):
        drop_space(kb, "d", "old/1")
    assert drop_space(kb, "d", "new/1")
    assert not drop_space(kb, "d", "new/1")
    with pytest.raises(NotAvailableError, match="next_embedder"):
        fill_space(Service(pair.store, options=ServiceOptions(embedder=pair.old)), "d")


def test_cached_answers_of_one_space_are_not_given_in_the_other(pair: Pair) -> None:
    kb = pair.service(semantic_cache=True)
    fill_space(kb, "d")
    first = shown(kb.search(QUERY, dataset_id="d"))
    swap_space(kb, "d")
    second = shown(kb.search(QUERY, dataset_id="d"))
    assert second == fresh(pair.new, TEXTS, Mode.HYBRID)
    swap_back(kb, "d")
    assert shown(kb.search(QUERY, dataset_id="d")) == first


def test_restricted_service_follows_and_changes_no_space(pair: Pair) -> None:
    kb = pair.service()
    fill_space(kb, "d")
    seen = kb.restricted(Access(dataset_ids=["d"], where={"$name": {"$ne": "cups.md"}}))
    swap_space(kb, "d")
    found = seen.search(QUERY, dataset_id="d", mode="vector")
    assert [hit.doc_name for hit in found.hits] == [
        name for name, _ in fresh(pair.new, TEXTS, Mode.VECTOR) if name != "cups.md"
    ]
    with pytest.raises(NotAvailableError):
        swap_back(seen, "d")
    with pytest.raises(NotAvailableError):
        fill_space(seen, "d")
