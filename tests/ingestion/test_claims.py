"""Claims of texts: one filler each, none for longer than it lives."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from triptych.deadlines import deadline
from triptych.errors import CancelledError
from triptych.ingestion import claims
from triptych.ingestion.claims import CLAIMS, LEASE, Pace, TextClaims
from triptych_backends.memory import MemoryStore


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.close()


def held(store: MemoryStore) -> list[str]:
    found = json.loads(store.get_setting(CLAIMS) or "{}")
    return sorted(text for claim in found.values() for text in claim["texts"])


def rewritten(store: MemoryStore, **changes: object) -> None:
    """Change every claim that is there."""
    text = store.get_setting(CLAIMS)
    assert text is not None
    found = {holder: {**claim, **changes} for holder, claim in json.loads(text).items()}
    assert store.set_setting(CLAIMS, json.dumps(found), expected=text)


def test_a_text_has_one_claim_until_it_is_released(store: MemoryStore) -> None:
    with TextClaims(store, "d", "s") as one, TextClaims(store, "d", "s") as other:
        assert one.claim(["a", "b"]) == {"a", "b"}
        assert one.claim(["a", "c"]) == {"a", "c"}
        assert other.claim(["b", "c", "e"]) == {"e"}
        assert other.claim(["b"]) == set()
        one.release(["b", "c"])
        assert other.claim(["b"]) == set(), "seen at the next claim"
        assert one.claim(["f"]) == {"f"}
        assert other.claim(["a", "b", "c"]) == {"b", "c"}
        one.close()
        assert held(store) == ["b", "c", "e"]
        assert other.claim(["a"]) == {"a"}
    assert store.get_setting(CLAIMS) is None


def test_claims_are_of_one_dataset_and_space(store: MemoryStore) -> None:
    with (
        TextClaims(store, "d", "s") as one,
        TextClaims(store, "e", "s") as dataset,
        TextClaims(store, "d", "t") as space,
    ):
        for each in (one, dataset, space):
            assert each.claim(["a"]) == {"a"}
    assert dict(store.list_settings()) == {}


@pytest.mark.parametrize(
    "until",
    [time.time() - 1, time.time() + 10 * LEASE, "soon", None],
    ids=["past", "later", "text", "none"],
)
def test_a_claim_that_ran_out_or_has_no_time_is_void(store: MemoryStore, until: object) -> None:
    with TextClaims(store, "d", "s") as killed:
        assert killed.claim(["a"])
        rewritten(store, until=until)
        with TextClaims(store, "d", "s") as other:
            assert other.claim(["a"]) == {"a"}
            assert held(store) == ["a"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"x": 1}', '{"x": {"texts": 1}}'])
def test_what_is_not_a_claim_is_replaced(store: MemoryStore, text: str) -> None:
    store.set_setting(CLAIMS, text, expected=None)
    with TextClaims(store, "d", "s") as one:
        assert one.claim(["a"]) == {"a"}
        assert held(store) == ["a"]


def test_claims_are_renewed_while_the_embedder_is_asked(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_RENEW", 0.01)
    with TextClaims(store, "d", "s") as one:
        assert one.claim(["a"])

        def until() -> float:
            (claim,) = json.loads(store.get_setting(CLAIMS) or "").values()
            return float(claim["until"])

        first = until()
        with one.asking():
            end = time.monotonic() + 30
            while until() == first:
                assert time.monotonic() < end
                time.sleep(0.005)
        last = until()
        time.sleep(0.1)
        assert until() == last, "nothing is asked: the claim runs out"


def test_of_threads_that_claim_the_same_texts_each_text_goes_to_one(store: MemoryStore) -> None:
    texts = [f"t{number}" for number in range(50)]
    fillers = [TextClaims(store, "d", "s") for _ in range(4)]
    got: list[str] = []
    lock = threading.Lock()

    def run(filler: TextClaims) -> None:
        for text in texts:
            ours = filler.claim([text])
            with lock:
                got.extend(ours)

    threads = [threading.Thread(target=run, args=(filler,)) for filler in fillers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(texts)
    for filler in fillers:
        filler.close()
    assert store.get_setting(CLAIMS) is None


def test_a_claim_honours_the_deadline_and_closing_does_not(store: MemoryStore) -> None:
    one = TextClaims(store, "d", "s")
    assert one.claim(["a"])
    with deadline() as scope:
        scope.cancel()
        with pytest.raises(CancelledError):
            one.claim(["b"])
        one.close()
    assert store.get_setting(CLAIMS) is None


def test_a_closed_store_does_not_keep_claims_from_closing() -> None:
    store = MemoryStore()
    one = TextClaims(store, "d", "s")
    assert one.claim(["a"])
    store.close()
    one.close()


def test_cheap_calls_are_known_from_the_last(store: MemoryStore) -> None:
    pace = Pace()
    assert not pace.is_cheap(1)
    pace.took(0.001, 1)
    assert pace.is_cheap(1)
    assert not pace.is_cheap(64)
    pace.took(0.3, 1)
    assert not pace.is_cheap(1)
