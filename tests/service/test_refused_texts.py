"""A text that the embedder refuses costs one vector, is named, and is sent again on request."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triptych
from triptych import ProviderError, Service, deadlines
from triptych.errors import (
    CancelledError,
    DerivationError,
    ProviderSetupError,
    ProviderTimeoutError,
    RateLimitedError,
)
from triptych.records import SparseVector, reported
from triptych.vectors.refused import REFUSED_SETTINGS, RefusedTexts
from triptych.vectors.run import EmbeddingRun
from triptych_server.http.responses import public
from triptych_testing.builders import sparse_of


class Picky:
    """An embedder that fails on batches with a text that holds "bad", or as ``error`` says."""

    def __init__(self, signature: str = "picky/1") -> None:
        self.signature = signature
        self.dimension = 4
        self.calls: list[list[str]] = []
        self.error: Callable[[Sequence[str]], Exception | None] = lambda texts: next(
            (ValueError(f"NaN for {text!r}") for text in texts if "bad" in text), None
        )

    def embed(self, texts: Sequence[str], *, kind: str) -> Any:
        if kind == "document":
            self.calls.append(list(texts))
            if error := self.error(texts):
                raise error
        return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]

    @property
    def sent(self) -> set[str]:
        return {text for call in self.calls for text in call}


@pytest.fixture
def picky() -> Picky:
    return Picky()


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return "memory://" if request.param == "memory" else tmp_path / "kb.db"


@pytest.fixture
def kb(url: Any, picky: Picky) -> Iterator[Service]:
    with triptych.open(url, embedder=picky) as kb:
        yield kb


def notes(bad: Collection[int], count: int) -> dict[str, str]:
    return {f"{n:04}.md": f"bad text {n}." if n in bad else f"good text {n}." for n in range(count)}


random.seed(1)
SPREAD = {
    "5 of 100": set(random.sample(range(1000), 50)),
    "10 of 100": set(random.sample(range(1000), 100)),
    "pairs at the head of each batch": {n for n in range(1000) if n % 64 in (0, 1)},
    "a run of 30 in the middle": set(range(400, 430)),
    "a run of 30 at the head": set(range(30)),
    "the last": {999},
    "all": set(range(1000)),
}


@pytest.mark.parametrize("bad", SPREAD.values(), ids=SPREAD)
def test_every_good_text_has_its_vector_after_one_pass(
    kb: Service, picky: Picky, bad: set[int]
) -> None:
    report = kb.put_documents("d", notes(bad, 1000))
    assert (report.embedded, report.pending) == (1000 - len(bad), len(bad))
    assert {failure.name for failure in report.failed} == {f"{n:04}.md" for n in bad}
    for failure in report.failed:
        assert f"NaN for 'bad text {int(failure.name[:4])}.'" in str(failure.error)
    picky.calls.clear()
    again = kb.embed_pending("d")
    assert (again.embedded, again.pending, len(again.failed)) == (0, len(bad), len(bad))
    assert all("NaN for" in str(each.error) for each in again.failed)
    assert not picky.sent


def test_one_chunk_costs_one_vector(kb: Service, picky: Picky) -> None:
    filler = "Filler sentence with words. " * 25
    book = "\n\n".join(
        f"## Part {n}\n\n{'A bad' if n == 150 else 'A good'} topic. {filler}" for n in range(200)
    )
    report = reported(lambda: kb.put_documents("d", {"book.md": book}))
    stats = kb.stats("d")[0]
    assert (report.chunks, stats.vectors, stats.pending_chunks, stats.pending) == (200, 199, 1, 1)
    found = kb.search("topic", dataset_id="d", mode="vector")
    assert found.hits
    assert found.warnings == (
        "1 document lacks vectors: text without one is not found yet; `triptych embed` adds them",
    )


def test_what_is_refused_is_named(kb: Service) -> None:
    part = "## {}\n\nA {} topic. " + "Filler sentence with words. " * 25
    text = "\n\n".join(part.format(n, ["bad", "good"][n % 3 == 1]) for n in range(3))
    with pytest.raises(DerivationError):
        kb.put_documents("d", {"a.md": text})
    said = "the model refuses 2 chunks of 'a.md': the embedder 'picky/1' failed"
    (check,) = (each for each in kb.health().problems if each.name == "refused texts")
    assert said in check.detail
    assert check.remedy == "`triptych embed --dataset d --retry` sends them again"
    (said,) = kb.doctor().left_out
    assert "2 chunks of 'a.md', which the model refuses: the embedder 'picky/1'" in said
    assert "picky" not in public(check).detail
    assert "the model refuses 2 chunks of 'a.md': " in public(check).detail
    assert kb.stats("d")[0].pending_chunks == 2


def test_a_refused_text_is_sent_again_on_request(kb: Service, picky: Picky) -> None:
    kb.put_documents("d", notes({1}, 3))
    picky.error = lambda texts: None
    assert kb.embed_pending("d").embedded == 0
    report = kb.embed_pending("d", retry=True)
    assert (report.documents, report.embedded, report.pending, report.failed) == (1, 1, 0, ())
    assert [each.name for each in kb.health().problems] == []
    assert kb.embed_pending(retry=True).failed == ()


def test_a_refused_text_is_new_once_it_changes(kb: Service, picky: Picky) -> None:
    kb.put_documents("d", notes({1}, 3))
    kb.put_document("d", "0001.md", "a good one")
    assert kb.stats("d")[0].pending == 0
    assert "a good one" in picky.sent


def test_a_refused_text_is_new_to_another_model(tmp_path: Path, picky: Picky) -> None:
    with triptych.open(tmp_path / "kb.db", embedder=picky) as kb:
        kb.put_documents("d", notes({1}, 3))
    other = Picky("picky/2")
    other.error = lambda texts: None
    with triptych.open(tmp_path / "kb.db", embedder=other) as kb:
        assert kb.rebuild(dataset_id="d").failed == ()
        assert kb.stats("d")[0].pending == 0


@pytest.mark.parametrize("gone", ["delete_dataset", "purge"])
def test_what_is_remembered_goes_with_its_dataset_or_document(kb: Service, gone: str) -> None:
    kb.put_documents("d", notes({1}, 3))
    settings = kb.capabilities.settings
    assert settings is not None
    assert list(settings.list_settings(REFUSED_SETTINGS)) == [f"{REFUSED_SETTINGS}d"]
    if gone == "purge":
        kb.purge("d", "0001.md")
    else:
        kb.delete_dataset("d")
    assert not settings.list_settings(REFUSED_SETTINGS)


def test_what_is_remembered_is_bounded(kb: Service) -> None:
    kb.put_documents("d", notes((), 1))
    from triptych.records import dense, sparse

    settings = kb.capabilities.settings
    for n in range(9):
        RefusedTexts(settings, "d", sparse(f"s{n}")).add({"x": ValueError("no")})
    texts = RefusedTexts(settings, "d", dense("picky/1"))
    texts.add({f"{n}": ValueError(f"{n}" * 500 + "\0\ud800") for n in range(900)})
    texts.add({f"{n}": ValueError("\0\ud800") for n in range(900, 1500)})
    assert list(texts.words()) == [f"{n}" for n in range(500, 1500)]
    assert max(map(len, texts.words().values())) == 301
    assert texts.words()["1499"] == "\0\ud800"
    assert RefusedTexts(settings, "d", sparse("s8")).words() == {"x": "no"}
    assert RefusedTexts(settings, "d", sparse("s1")).words() == {}


def run_of(picky: Picky, texts: Sequence[str], **how: Any) -> EmbeddingRun[Any]:
    with EmbeddingRun(lambda some: list(picky.embed(some, kind="document")), **how) as run:
        run.add("a", {text: text for text in texts})
        run.work(60)
    return run


def test_an_embedder_that_is_out_is_asked_twice(picky: Picky) -> None:
    out = OSError("no route")
    picky.error = lambda texts: out
    run = run_of(picky, [f"text {n}" for n in range(1000)])
    assert run.error is out
    assert len(run.errors) == 1000
    assert [len(call) for call in picky.calls] == [64, 1]
    assert picky.calls[1] == ["text"]


@pytest.mark.parametrize("error", [RateLimitedError("slow down"), ProviderSetupError("bad key")])
def test_what_is_no_text_s_fault_ends_the_run_and_is_not_remembered(
    kb: Service, picky: Picky, error: ProviderError
) -> None:
    picky.error = lambda texts: error if any("bad" in text for text in texts) else None
    report = kb.put_documents("d", notes({100}, 500))
    assert report.embedded < 500
    assert all(type(error).__name__ in str(each.error) for each in report.failed)
    assert len(picky.calls) < 9
    picky.error = lambda texts: None
    assert kb.embed_pending("d").pending == 0


def test_texts_that_time_out_together_are_halved_and_alone_not_remembered(
    kb: Service, picky: Picky
) -> None:
    picky.error = lambda texts: (
        ProviderTimeoutError("slow") if len(texts) > 10 or "bad" in "".join(texts) else None
    )
    report = kb.put_documents("d", notes({70}, 300))
    assert (report.embedded, report.pending) == (299, 1)
    picky.error = lambda texts: None
    assert kb.embed_pending("d").embedded == 1


def test_an_embedder_that_goes_out_meanwhile_blames_no_text_for_good(
    kb: Service, picky: Picky
) -> None:
    refuses, calls = picky.error, picky.calls
    picky.error = lambda texts: refuses(texts) if len(calls) < 9 else OSError("gone")
    report = kb.put_documents("d", notes({1, 2, 3, 4, 5, 40}, 200))
    assert report.pending > 100
    assert len(calls) < 30
    picky.error = refuses
    done = kb.embed_pending("d")
    assert done.pending == 6
    assert kb.stats("d")[0].vectors == 194


def test_a_failure_that_passes_blames_no_text(kb: Service, picky: Picky) -> None:
    picky.error = lambda texts: OSError("reset") if len(picky.calls) == 1 else None
    kb.put_document("d", "a.md", "A zebra has stripes.")
    assert kb.stats("d")[0].pending == 0


def test_the_known_good_text_is_the_shortest_that_was_answered(picky: Picky) -> None:
    texts = [f"good text {n}" for n in range(16)] + ["good"] + ["x bad", "some more"]
    run_of(picky, texts)
    picky.calls.clear()
    with EmbeddingRun(lambda some: list(picky.embed(some, kind="document"))) as run:
        run.add("a", {text: text for text in texts if "bad" not in text})
        run.work(60)
        run.add("a", {"bad": "bad"})
        run.work(60)
    assert picky.calls[1:] == [["bad"], ["good"], ["bad"], ["good"]]


def test_isolating_honours_the_deadline(picky: Picky) -> None:
    with deadlines.deadline(None) as scope:

        def cancelling(texts: Sequence[str]) -> Exception | None:
            if len(picky.calls) == 3:
                scope.cancel()
            return ValueError("bad") if len(texts) > 1 or "bad" in texts[0] else None

        picky.error = cancelling
        with pytest.raises(CancelledError):
            run_of(picky, [f"bad {n}" for n in range(64)])
    assert len(picky.calls) == 3


def test_a_refused_text_of_a_sparse_encoder_is_isolated_too(tmp_path: Path) -> None:
    class PickyEncoder:
        signature = "picky-sparse/1"
        vocabulary_size = None
        calls = 0

        def encode(self, texts: Sequence[str], *, kind: str) -> list[SparseVector]:
            self.calls += 1
            if any("bad" in text for text in texts):
                raise ValueError("no")
            return [sparse_of(text) for text in texts]

    encoder = PickyEncoder()
    with triptych.open(tmp_path / "kb.db", embedder=None, sparse_encoder=encoder) as kb:
        kb.put_documents("d", notes({3, 40}, 100))
        assert kb.stats("d")[0].further_pending == 2
        (check,) = (each for each in kb.health().problems if each.name == "refused texts")
        assert "the model refuses 1 chunk of '0003.md', 1 chunk of '0040.md': " in check.detail
        before = encoder.calls
        kb.embed_pending("d")
        assert encoder.calls == before
