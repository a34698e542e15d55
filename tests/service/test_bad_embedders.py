"""An embedder may fail in any way: the error is named, and no document is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triptych
from support.rows import each_row
from triptych import DerivationError, ModelMismatchError, ProviderError, Service, ValidationError
from triptych.errors import RateLimitedError
from triptych_testing.fakes import FakeEmbedder

Answer = Callable[[Sequence[str]], Any]


def good(texts: Sequence[str]) -> Any:
    return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]


class Moody:
    """An embedder of four dimensions that gives whatever ``answer`` makes of the texts."""

    def __init__(self, answer: Answer = good, signature: Any = "moody/1", dimension: Any = 4):
        self.answer = answer
        self.signature = signature
        self.dimension = dimension

    def embed(self, texts: Sequence[str], *, kind: str) -> Any:
        return self.answer(texts)


def raising(error: BaseException) -> Answer:
    def answer(texts: Sequence[str]) -> Any:
        raise error

    return answer


WRONG: dict[str, Answer] = {
    "too wide": lambda texts: np.ones((len(texts), 5)),
    "too few rows": lambda texts: good(texts)[:-1],
    "no rows": lambda texts: np.empty((0, 4)),
    "one row for all": lambda texts: np.ones(4),
    "nothing": lambda texts: None,
    "text": lambda texts: [["1", "0", "0", "0"]] * len(texts),
    "objects": lambda texts: [[object()] * 4] * len(texts),
    "ragged": lambda texts: [[1.0, 0.0], [1.0]] * len(texts),
    "complex": lambda texts: np.full((len(texts), 4), 1j),
    "not a number": lambda texts: np.full((len(texts), 4), np.nan),
    "infinite": lambda texts: np.full((len(texts), 4), np.inf),
    "beyond float32": lambda texts: np.full((len(texts), 4), 1e300),
    "zero": lambda texts: np.zeros((len(texts), 4)),
    "KeyError": raising(KeyError("token")),
    "OSError": raising(OSError("connection reset")),
    "StopIteration": raising(StopIteration()),
    "MemoryError": raising(MemoryError()),
    "AssertionError": raising(AssertionError()),
    "RateLimitedError": raising(RateLimitedError("slow down", retry_after=3.0)),
}


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return "memory://" if request.param == "memory" else tmp_path / "kb.db"


@pytest.fixture
def moody() -> Moody:
    return Moody()


@pytest.fixture
def kb(url: Any, moody: Moody) -> Iterator[Service]:
    with triptych.open(url, embedder=moody) as kb:
        kb.put_document("d", "old", "A zebra has stripes.")
        yield kb


@pytest.mark.parametrize("how", WRONG)
def test_a_failing_embedder_is_named_and_loses_nothing(kb: Service, moody: Moody, how: str) -> None:
    moody.answer = WRONG[how]
    with pytest.raises(DerivationError, match="'new' is stored as version 1") as caught:
        kb.put_document("d", "new", "A giraffe is tall.")
    assert isinstance(caught.value.__cause__, ProviderError)
    report = kb.put_documents("d", {"more": "An owl flies.", "old": "A zebra has stripes."})
    assert [failure.name for failure in report.failed] == ["more"]
    assert isinstance(report.failed[0].error, DerivationError)
    with pytest.raises(DerivationError, match="nothing was stored"):
        kb.put_document_layer("d", "old", "L0", "Stripes.")
    for search in (
        lambda: kb.search("zebra", dataset_id="d", mode="vector"),
        lambda: kb.search_many(["zebra"], dataset_id="d", mode="vector"),
        lambda: kb.search_documents("zebra", dataset_id="d", mode="vector"),
    ):
        with pytest.raises(ProviderError):
            search()
    found = kb.search("zebra", dataset_id="d")
    assert [hit.doc_name for hit in found.hits] == ["old"]
    pending, lane = found.warnings
    assert "2 documents lack vectors" in pending
    assert "the vector lane did not run" in lane
    assert kb.search_many(["zebra"], dataset_id="d") == [found]

    moody.answer = good
    assert kb.rebuild(dataset_id="d").failed == ()
    assert kb.stats("d")[0].stale == 0
    assert kb.search("giraffe", dataset_id="d").hits[0].doc_name == "new"
    assert kb.search("giraffe", dataset_id="d").warnings == ()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_passes_through_and_the_next_call_repairs(
    kb: Service, moody: Moody, interrupt: type[BaseException]
) -> None:
    moody.answer = raising(interrupt())
    for call in (
        lambda: kb.put_document("d", "new", "A giraffe is tall."),
        lambda: kb.put_documents("d", {"more": "An owl flies."}),
        lambda: kb.put_document_layer("d", "old", "L0", "Stripes."),
        lambda: kb.search("zebra", dataset_id="d"),
        lambda: kb.search_many(["zebra"], dataset_id="d"),
        lambda: kb.rebuild(dataset_id="d"),
    ):
        with pytest.raises(interrupt):
            call()
    moody.answer = good
    kb.rebuild(dataset_id="d")
    assert kb.stats("d")[0].stale == 0
    assert kb.search("giraffe", dataset_id="d").hits[0].doc_name == "new"


def test_one_bad_query_does_not_spoil_the_others(kb: Service, moody: Moody) -> None:
    def answer(texts: Sequence[str]) -> Any:
        return raising(OSError("no"))(texts) if "poison" in " ".join(texts) else good(texts)

    moody.answer = answer
    clean, warned = kb.search_many(["zebra", "zebra poison"], dataset_id="d")
    assert clean.warnings == ()
    assert "the vector lane did not run" in warned.warnings[0]
    assert clean.hits[0].doc_name == warned.hits[0].doc_name == "old"


@pytest.mark.parametrize(
    "embedder",
    [
        3,
        object(),
        Moody,
        Moody(signature=3),
        Moody(signature=None),
        Moody(signature=""),
        Moody(signature="\ud800"),
        Moody(dimension="4"),
        Moody(dimension=0),
        Moody(dimension=True),
    ],
    ids=lambda embedder: type(embedder).__name__,
)
def test_what_cannot_embed_is_refused_before_a_store_is_made(tmp_path: Path, embedder: Any) -> None:
    with pytest.raises(ValidationError):
        triptych.open(tmp_path / "kb.db", embedder=embedder)
    assert list(tmp_path.iterdir()) == []


def test_another_width_under_the_same_signature_is_a_mismatch(kb: Service, moody: Moody) -> None:
    moody.dimension = 5
    moody.answer = lambda texts: np.ones((len(texts), 5))
    with pytest.raises(DerivationError) as caught:
        kb.put_document("d", "new", "A giraffe is tall.")
    assert isinstance(caught.value.__cause__, ModelMismatchError)
    with pytest.raises(DerivationError) as caught:
        kb.put_documents("d", {"more": "An owl flies.", "other": "A fox runs."})
    assert {failure.name for failure in caught.value.report.failed} == {"more", "other"}
    with pytest.raises(ModelMismatchError):
        kb.put_document_layer("d", "old", "L0", "Stripes.")

    moody.dimension, moody.answer = 4, good
    assert [hit.doc_name for hit in kb.search("zebra", dataset_id="d").hits] == ["old"]
    kb.rebuild(dataset_id="d")
    assert kb.stats("d")[0].stale == 0


@pytest.mark.parametrize("how", ["too wide", "KeyError", "RateLimitedError"])
def test_a_bulk_put_that_fails_whole_for_one_cause_raises_it(
    kb: Service, moody: Moody, how: str
) -> None:
    moody.answer = WRONG[how]
    texts = {f"{at}.md": f"Text {at} of many. " * (at % 7 + 1) for at in range(300)}
    with pytest.raises(DerivationError, match=r"'0\.md' is stored as version 1") as caught:
        kb.dataset("d").put_many(texts)
    assert len(caught.value.report.failed) == 300
    assert len(caught.value.__notes__) == 11
    # Nothing is stored by halves: each is found by keyword, and what lacks a vector says so.
    assert kb.count_documents("d") == 301
    assert len(kb.search("text many", dataset_id="d", mode="bm25", top_k=500).hits) == 300
    assert kb.stats("d")[0].pending == 300

    moody.answer = good
    assert kb.embed_pending("d").documents == 300
    assert kb.dataset("d").put_many(texts).unchanged == 300


def test_a_bulk_put_with_several_causes_or_a_success_returns_its_report(
    kb: Service, moody: Moody
) -> None:
    def answer(texts: Sequence[str]) -> Any:
        raise OSError(texts[0][:1])

    moody.answer = answer
    with pytest.raises(DerivationError):
        kb.put_documents("d", {"a": "A zebu."})
    assert len(kb.put_documents("d", {"bad/": "x", "b": "An owl."}).failed) == 2
    assert kb.put_documents("d", {"old": "A zebra has stripes.", "c": "A fox."}).unchanged == 1
    assert len(kb.put_documents("d", {"bad/": "x"}).failed) == 1
    assert kb.put_documents("d", {"e": "A goat."}, embed="later").pending == 1


def _embeds(embed: Any) -> Any:
    return type("Own", (), {"signature": "own/1", "dimension": 4, "embed": embed})()


@pytest.mark.parametrize(
    "embed",
    [
        lambda self, texts: texts,
        lambda self, texts, *, is_query=False: texts,
        lambda self, *, kind: kind,
        lambda self, texts, more, *, kind: texts,
        lambda self, texts, kind, /: texts,
    ],
)
def test_an_embed_that_takes_other_arguments_is_refused_with_the_right_ones(
    tmp_path: Path, embed: Any
) -> None:
    with pytest.raises(ValidationError, match=r"Own is called as embed\(texts, \*, kind\)"):
        triptych.open(tmp_path / "kb.db", embedder=_embeds(embed))
    assert list(tmp_path.iterdir()) == []


@each_row(
    "embed",
    [
        lambda self, texts, kind: texts,
        lambda self, texts, *, kind="document", batch=3: texts,
        lambda *given, **named: given,
        max,  # in C, without a signature
    ],
)
def test_an_embed_that_takes_the_call_in_any_way_passes(embed: Any) -> None:
    triptych.open("memory://", embedder=_embeds(embed)).close()


@each_row("told", [("a", 1), (0.5, 0.5), 5, (float("nan"), 1), (0.6, 0.2), (0.1, 0.2, 0.3)])
def test_a_range_of_cosines_that_cannot_be_meant_is_refused(told: object) -> None:
    embedder = type("Ranged", (FakeEmbedder,), {"cosine_range": told})()
    with pytest.raises(ValidationError, match="two cosines such as"):
        triptych.open("memory://", embedder=embedder)
