"""Compiled kernels give what NumPy gives, bit for bit, and read nothing outside their arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.rows import each_row
from triptych.runtime import SEARCHES
from triptych.text import get_analyzer
from triptych_backends.index import bm25, kernels, quantization, vector_search
from triptych_backends.index.quantization import (
    Probe,
    scan_rows,
    score,
    shortlist,
    shortlist_among,
)
from triptych_backends.index.segment import (
    DamagedError,
    PostingsLists,
    Segment,
    SegmentReader,
    SharedVocabulary,
    Signs,
    SortedVocabulary,
    row_sums,
)

compiled = kernels.compiled
pytestmark = pytest.mark.skipif(compiled is None, reason=kernels.in_use)

SIZES = [0, 1, 2, 63, 64, 65, 511, 513, 1_500, 20_000]
LEVELS = ["plain", "avx2", "avx512"]


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each kind of processor that something is compiled for, and that this one is."""
    used = compiled.use(request.param)
    if used != request.param:
        pytest.skip(f"this processor has only {used}")
    yield used
    compiled.use("")


def in_numpy(call, *args, **kwargs):
    """What a call gives without the kernels."""
    kernels.compiled = None
    try:
        return call(*args, **kwargs)
    finally:
        kernels.compiled = compiled


def segment(lists: list[tuple[np.ndarray, np.ndarray]], lengths: np.ndarray) -> Segment:
    """Units of which nothing is known but which words they have how often."""
    count = len(lengths)
    narrow = lists[0][1].dtype if lists else np.uint8
    nothing = PostingsLists(
        SharedVocabulary({}, np.empty(0, np.int32)),
        np.zeros(1, np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.uint8),
    )
    text = PostingsLists(
        nothing.vocabulary,
        np.cumsum([0, *(len(ids) for ids, _ in lists)]),
        np.concatenate([np.empty(0, np.int32), *(ids for ids, _ in lists)]).astype(np.int32),
        np.concatenate([np.empty(0, narrow), *(counts for _, counts in lists)]).astype(narrow),
    )
    units = np.arange(count, dtype=np.int32)
    return Segment(
        starts=np.arange(count + 1, dtype=np.int32),
        owners=units.astype(np.int64),
        owner_order=units,
        name_blob=np.empty(0, np.uint8),
        name_offsets=np.zeros(count + 1, np.int64),
        keys=units.astype(np.int64),
        indexes=units,
        lengths=lengths,
        text=text,
        headings=nothing,
        row_units=np.empty(0, np.int32),
        row_keys=np.empty(0, np.int64),
        codes=np.empty((0, 0), np.int8),
        scales=np.empty(0, np.float32),
    )


@pytest.mark.property
@settings(deadline=None, max_examples=examples(400))
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from(SIZES),
    shares=st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.3, 0.9, 1.0]), max_size=7),
    width=st.sampled_from([np.uint8, np.uint16, np.uint32]),
    dead=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    allowed=st.sampled_from([None, 0.0, 0.01, 0.5, 1.0]),
    limit=st.sampled_from([1, 2, 10, 50, 1_000]),
    spread=st.sampled_from([1, 3, 200]),
    shortest=st.sampled_from([0, 100]),
    barred=st.booleans(),
)
def test_bm25_is_that_of_numpy(
    seed, count, shares, width, dead, allowed, limit, spread, shortest, barred
) -> None:
    generator = np.random.default_rng(seed)

    def drawn(share: float) -> np.ndarray:
        return np.flatnonzero(generator.random(count) < share).astype(np.int32)

    lists = []
    for share in shares:
        ids = drawn(share)
        most = min(int(np.iinfo(width).max), 4 * spread)
        lists.append((ids, generator.integers(1, most + 1, len(ids)).astype(width)))
    lengths = generator.integers(shortest, shortest + spread + 1, count).astype(np.uint32)
    view = SegmentReader(segment(lists, lengths), drawn(dead))
    terms = {str(number): number for number in range(len(lists))}
    weights = bm25.weigh(
        bm25.Statistics(
            max(count, 1),
            max(int(lengths.sum()), 1),
            {term: len(lists[number][0]) for term, number in terms.items()},
        ),
        dict.fromkeys(terms, 1),
        {term: (term,) for term in terms},
    )
    only = None if allowed is None else drawn(allowed)

    def top(bar: float) -> tuple[np.ndarray, np.ndarray]:
        units, scores = bm25.top(view, terms, weights, limit, allowed=only, bar=bar)
        return units[scores >= bar], scores[scores >= bar]

    bar = 0.0
    if barred:
        _, scores = in_numpy(top, 0.0)
        bar = float(generator.choice(scores)) if len(scores) else 1.0
    units, scores = in_numpy(top, bar)
    found, theirs = top(bar)
    assert found.tolist() == units.tolist()
    assert theirs.tobytes() == scores.tobytes()


@pytest.mark.property
@settings(deadline=None, max_examples=examples(150))
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.sampled_from([*SIZES[1:-1], 5_000]),
    width=st.sampled_from([1, 7, 8, 63, 64, 65, 130, 384, 1_100]),
    dead=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    depth=st.sampled_from([1, 16, 40, 200, 100_000]),
    limit=st.sampled_from([1, 50, 400]),
    alike=st.booleans(),
)
def test_the_shortlist_is_that_of_numpy(level, seed, rows, width, dead, depth, limit, alike):
    generator = np.random.default_rng(seed)
    codes = generator.integers(-127, 128, (rows, width)).astype(np.int8)
    spreads = generator.random(rows).astype(np.float32)
    bits = generator.integers(0, 2**64, (-(-width // 64), rows), np.uint64)
    if alike:
        codes[:], spreads[:], bits[:] = codes[0], spreads[0], bits[:, :1]
    signs = Signs(
        words=bits,
        centre=generator.normal(size=width).astype(np.float32),
        spreads=spreads,
        depth=np.array([depth]),
    )
    scales = generator.random(rows).astype(np.float32)
    gone = np.flatnonzero(generator.random(rows) < dead)
    probe = Probe.of(generator.normal(size=width).astype(np.float32))
    expected, scores = in_numpy(shortlist, signs, codes, scales, probe, limit, gone)
    found, theirs = shortlist(signs, codes, scales, probe, limit, gone)
    assert found.tolist() == expected.tolist()
    assert found.dtype == expected.dtype
    assert theirs.tobytes() == scores.tobytes()
    arguments = signs, codes, scales, probe, limit, generator.random(rows) < 1 - dead
    among, expected_among = shortlist_among(*arguments), in_numpy(shortlist_among, *arguments)
    assert (among is None) == (expected_among is None)
    if among is not None and expected_among is not None:
        assert among[0].tolist() == expected_among[0].tolist()
        assert among[1].tobytes() == expected_among[1].tobytes()


@pytest.mark.property
@settings(deadline=None, max_examples=examples(150))
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from([*SIZES[:-1], 5_000, 40_000]),
    width=st.sampled_from([1, 7, 64, 130, 1_100]),
    dead=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    among=st.booleans(),
    limit=st.sampled_from([1, 10, 400, 10_000]),
    margin=st.sampled_from([0.0, 1e-3, 0.1, float("inf")]),
    alike=st.booleans(),
)
def test_a_scan_is_that_of_numpy(level, seed, count, width, dead, among, limit, margin, alike):
    generator = np.random.default_rng(seed)
    codes = generator.integers(-128, 128, (count, width), np.int8)
    scales = generator.random(count).astype(np.float32)
    if alike:
        codes[:], scales[:] = 3, 0.5
    some = np.flatnonzero(generator.random(count) < 0.5) if among else None
    gone = np.flatnonzero(generator.random(count if some is None else len(some)) < dead)
    asked = codes, scales, Probe.of(generator.normal(size=width).astype(np.float32)), limit, margin
    found, scores = scan_rows(*asked, rows=some, dead=gone)
    expected, expected_scores = in_numpy(scan_rows, *asked, rows=some, dead=gone)
    assert found.tolist() == expected.tolist()
    assert scores.tobytes() == expected_scores.tobytes()
    living = np.delete(score(*asked[:3], some), gone)
    best = np.sort(living)[-limit:]
    assert np.sort(scores)[-limit:].tobytes() == best.tobytes()


@pytest.mark.parametrize("width", [0, 1, 15, 64, 384, 1_023, 1_025, 1_536, 4_096])
@pytest.mark.parametrize("rows", [0, 1, 511, 513])
def test_dot_products_are_those_of_whole_numbers(level, rows, width) -> None:
    generator = np.random.default_rng(rows + width)
    for codes in (
        generator.integers(-128, 128, (rows, width)).astype(np.int8),
        np.full((rows, width), -128, np.int8),
        generator.integers(126, 128, (rows, width)).astype(np.int8),
    ):
        query = generator.integers(-128, -125, width).astype(np.int16)
        probe = Probe(query.astype(np.float32), 1.0, query, np.float32(1))
        expected = (codes.astype(np.int64) @ query.astype(np.int64)).astype(np.float32)
        some = np.flatnonzero(generator.random(rows) < 0.5)
        asked = codes, np.ones(rows, np.float32), probe, 1, float("inf")
        for call in (scan_rows, partial(in_numpy, scan_rows)):
            assert call(*asked)[1].tobytes() == expected.tobytes()
            assert call(*asked, rows=some)[1].tobytes() == expected[some].tobytes()


def search(**changed) -> int:
    """How many units a small search finds: two words in five units."""
    given = {
        "terms": {"a": 2.0, "not here": 1.5, "b": 1.0},
        "numbers": {"a": 0, "not asked for": 7, "b": 1},
        "ids": np.array([0, 2, 4, 1, 2], np.int32),
        "counts": np.ones(5, np.uint8),
        "lengths": np.full(5, 3, np.uint32),
        "offsets": np.array([0, 3, 5], np.int64),
        "counting": np.empty(0, np.bool_),
        "units": np.empty(3, np.int64),
        "scores": np.empty(3),
    }
    terms, numbers, *arrays = {**given, **changed}.values()
    return compiled.bm25(tuple(arrays), terms, numbers, 0.1, 0.3, 0.0, 3)


@each_row(
    ("changed", "error"),
    [
        ({"ids": np.array([0, 2, 5, 1, 2], np.int32)}, ValueError),
        ({"ids": np.array([0, 2, 2**31 - 1, 1, 2], np.int32)}, ValueError),
        ({"ids": np.array([-1, 2, 4, 1, 2], np.int32)}, ValueError),
        ({"offsets": np.array([0, 3, 6], np.int64)}, ValueError),
        ({"offsets": np.array([-1, 3, 5], np.int64)}, ValueError),
        ({"offsets": np.array([4, 3, 5], np.int64)}, ValueError),
        ({"offsets": np.empty(0, np.int64)}, ValueError),
        ({"counts": np.ones(4, np.uint8)}, ValueError),
        ({"counts": np.ones(5, np.uint64)}, ValueError),
        ({"numbers": {"a": 0, "b": 2}}, ValueError),
        ({"numbers": {"a": -1, "b": 1}}, ValueError),
        ({"numbers": {"a": 2**63}}, OverflowError),
        ({"numbers": {"a": "0"}}, TypeError),
        ({"numbers": ["a"]}, TypeError),
        ({"terms": {"a": "2.0"}}, TypeError),
        ({"counting": np.ones(4, np.bool_)}, ValueError),
        ({"scores": np.empty(2)}, ValueError),
        ({"ids": np.zeros(5, np.int64)}, TypeError),
        ({"ids": np.zeros(21, np.uint8)[1:].view(np.int32)}, TypeError),
        ({"lengths": np.zeros(10, np.uint32)[::2]}, ValueError),
        ({"units": np.frombuffer(bytes(24), np.int64)}, ValueError),
        ({"lengths": None}, TypeError),
    ],
)
def test_what_a_damaged_index_may_hold_is_refused(changed, error) -> None:
    assert search() == 3
    with pytest.raises((error, BufferError)):
        search(**changed)


@pytest.mark.property
@settings(deadline=None, max_examples=examples(300))
@given(st.lists(st.integers(-3, 9), min_size=5, max_size=5), st.integers(1, 6))
def test_postings_in_any_order_end_a_search_or_an_error_does(ids, limit) -> None:
    units = np.empty(limit, np.int64)
    count = 0
    with suppress(ValueError):
        count = search(ids=np.array(ids, np.int32), units=units, scores=np.empty(limit))
    assert set(units[:count].tolist()) <= set(range(5))


WORDS = st.lists(st.text("ab\0\U0010ffffé", max_size=11) | st.text(max_size=4), max_size=30)


@pytest.mark.property
@settings(deadline=None, max_examples=examples(300))
@given(
    held=WORDS, others=WORDS, alike=st.sampled_from(["", "seven by", "eight by", "\U0010ffff" * 2])
)
def test_words_are_found_as_in_numpy(held, others, alike) -> None:
    held, asked = [alike + word for word in held], [alike + word for word in others + held]
    asked = [*asked, *others, "", "\udc80", alike + "\ud800"]
    vocabulary = SortedVocabulary.of(sorted({word for word in held if is_encodable(word)}))
    expected = {word: at for at, word in enumerate(vocabulary.words()) if word in asked}
    assert vocabulary.find(asked) == in_numpy(vocabulary.find, asked) == expected


def is_encodable(word: str) -> bool:
    return word.encode(errors="replace").decode() == word


@each_row(
    ("name", "value", "error"),
    [
        ("offsets", np.array([0, 1], np.int64), ValueError),
        ("offsets", np.array([0, 1, 4], np.int64), ValueError),
        ("offsets", np.array([-1, 1, 3], np.int64), ValueError),
        ("offsets", np.array([3, 1, 3], np.int64), ValueError),
        ("offsets", np.array([0, 2**63 - 1, 3], np.int64), ValueError),
        ("offsets", np.empty(0, np.int64), ValueError),
        ("prefixes", np.empty(0, np.uint64), ValueError),
        ("prefixes", np.zeros(2, np.int32), TypeError),
        ("words", ["a", 5], TypeError),
        ("words", ("a",), TypeError),
    ],
)
def test_words_of_a_damaged_vocabulary_are_refused(name, value, error) -> None:
    sound = SortedVocabulary.of(["a", "bc"])
    given = {
        "blob": sound.blob,
        "offsets": sound.offsets,
        "prefixes": sound.prefixes,
        "words": ["bc", "a", "", "ab"],
    }

    def found(words, *arrays: np.ndarray) -> dict[str, int]:
        return compiled.find(arrays, words)

    assert found(given.pop("words"), *given.values()) == {"a": 0, "bc": 1}
    changed = {"words": ["bc", "a"], **given, name: value}
    with pytest.raises(error):
        found(changed.pop("words"), *changed.values())


@pytest.mark.property
@settings(deadline=None, max_examples=examples(300))
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.sampled_from(SIZES),
    shares=st.lists(st.sampled_from([0.001, 0.1, 0.9, 1.0]), max_size=9),
    width=st.sampled_from([np.uint8, np.uint16, np.uint32]),
    asked=st.integers(0, 40),
)
def test_how_often_units_hold_words_is_that_of_numpy(seed, count, shares, width, asked) -> None:
    generator = np.random.default_rng(seed)
    lists = []
    for share in shares:
        ids = np.flatnonzero(generator.random(count) < share).astype(np.int32)
        if len(ids):
            lists.append((ids, generator.integers(1, 250, len(ids)).astype(width)))
    text = segment(lists, np.ones(count, np.uint32)).text
    units = generator.permutation(count)[:asked]
    words = generator.permutation(len(lists)).tolist()
    columns = [int(generator.integers(len(words))) for _ in words]  # several may share one
    arguments = (text, words, columns, units, len(words))
    expected = in_numpy(bm25.held_counts, *arguments)
    assert bm25.held_counts(*arguments).tobytes() == expected.tobytes()
    table = np.zeros((count, len(words)))
    for word, column in zip(words, columns, strict=True):
        table[lists[word][0], column] += lists[word][1]
    assert expected.tolist() == table[units].tolist()


@each_row(
    ("changed", "error"),
    [
        ({"offsets": np.array([0, 3, 6], np.int64)}, ValueError),
        ({"offsets": np.array([-1, 3, 5], np.int64)}, ValueError),
        ({"offsets": np.array([4, 3, 5], np.int64)}, ValueError),
        ({"offsets": np.empty(0, np.int64)}, ValueError),
        ({"numbers": np.array([0, 2], np.int64)}, ValueError),
        ({"numbers": np.array([-1, 1], np.int64)}, ValueError),
        ({"columns": np.array([0, 2], np.int64)}, ValueError),
        ({"columns": np.array([-1, 0], np.int64)}, ValueError),
        ({"columns": np.zeros(1, np.int64)}, ValueError),
        ({"counts": np.ones(4, np.uint8)}, ValueError),
        ({"counts": np.ones(5, np.uint64)}, ValueError),
        ({"out": np.zeros((3, 1))}, ValueError),
        ({"units": np.zeros(3, np.int64)}, TypeError),
        ({"out": np.frombuffer(bytes(48)).reshape(3, 2)}, ValueError),
    ],
)
def test_words_that_an_index_does_not_hold_are_refused(changed, error) -> None:
    arrays = {
        "ids": np.array([0, 2, 4, 1, 2], np.int32),
        "counts": np.ones(5, np.uint8),
        "offsets": np.array([0, 3, 5], np.int64),
        "numbers": np.array([0, 1], np.int64),
        "columns": np.array([0, 1], np.int64),
        "units": np.array([2, 2**31 - 1, -1], np.int32),
        "out": np.zeros((3, 2)),
    }
    compiled.holds(tuple(arrays.values()), 2)
    assert arrays["out"].tolist() == [[1, 1], [0, 0], [0, 0]]
    with pytest.raises((error, BufferError)):
        compiled.holds(tuple({**arrays, **changed}.values()), 2)


@each_row(
    ("name", "value", "error"),
    [
        ("dead", np.array([3], np.int32), IndexError),
        ("dead", np.array([-1], np.int32), IndexError),
        ("query", np.full(8, -(2**15), np.int16), None),
        ("query", np.full(8, 2**15 - 1, np.int16), None),
        ("words", np.zeros(4, np.uint64), ValueError),
        ("codes", np.zeros((3, 9), np.int8), ValueError),
        ("scales", np.ones(2, np.float32), ValueError),
        ("scratch", np.zeros(8, np.float32), ValueError),
        ("spreads", np.empty(0, np.float32), ValueError),
        ("centre", np.zeros(7, np.float32), ValueError),
        ("vector", np.zeros(9, np.float32), ValueError),
        ("query", np.empty(0, np.int16), ValueError),
    ],
)
def test_rows_of_other_sizes_are_refused(name, value, error) -> None:
    arrays = {
        "words": np.zeros((1, 3), np.uint64),
        "centre": np.zeros(8, np.float32),
        "spreads": np.ones(3, np.float32),
        "dead": np.empty(0, np.int32),
        "codes": np.full((3, 8), -128, np.int8),
        "vector": np.ones(8, np.float32),
        "query": np.zeros(8, np.int16),
        "scales": np.ones(3, np.float32),
        "scratch": np.zeros(9, np.float32),
    }
    numbers = (1.0, 50, quantization.STRIDE)
    every = np.arange(3, dtype=np.int32).tobytes()
    assert compiled.shortlist(tuple(arrays.values()), *numbers)[0] == every
    changed = {**arrays, name: value}
    if error is None:
        assert compiled.shortlist(tuple(changed.values()), *numbers)[0] == every
        return
    with pytest.raises(error):
        compiled.shortlist(tuple(changed.values()), *numbers)


@each_row(
    ("name", "value", "error"),
    [
        ("query", np.full(9, 0, np.int16), ValueError),
        ("query", np.full(8, 2**14, np.int16), None),
        ("scales", np.ones(4, np.float32), ValueError),
        ("rows", np.array([3], np.int32), IndexError),
        ("rows", np.array([-1], np.int32), IndexError),
        ("rows", np.array([2**31 - 1, 0, -(2**31)], np.int32), IndexError),
        ("rows", np.zeros(3, np.int64), TypeError),
        ("codes", np.zeros(23, np.int8), ValueError),
        ("rows", np.zeros(4, np.int32), ValueError),
        ("rows", np.zeros(2, np.int32), IndexError),
        ("dead", np.array([3], np.int32), IndexError),
        ("dead", np.array([-1], np.int32), IndexError),
        ("scratch", np.zeros(8, np.float32), ValueError),
    ],
)
def test_scans_of_rows_that_are_not_there_are_refused(name, value, error) -> None:
    arrays = {
        "codes": np.full((3, 8), -128, np.int8),
        "query": np.zeros(8, np.int16),
        "scales": np.ones(3, np.float32),
        "rows": np.array([2, 1, 0], np.int32),
        "dead": np.array([2], np.int32),
        "scratch": np.zeros(9, np.float32),
    }
    living = np.array([0, 1], np.int32).tobytes()
    assert compiled.scan(tuple(arrays.values()), 1.0, 1, 0.0)[0] == living
    changed = {**arrays, name: value}
    if error is None:
        assert compiled.scan(tuple(changed.values()), 1.0, 1, 0.0)[0] == living
        return
    with pytest.raises(error):
        compiled.scan(tuple(changed.values()), 1.0, 1, 0.0)


def scans(generator, sizes, alike: bool):
    """Scans of segments of so many rows, about half of which were found."""
    for count in sizes:
        scales = (0.001 + generator.random(count) ** 4 / 50).astype(np.float32)
        places = np.flatnonzero(generator.random(count) < 0.5).astype(np.int32)
        scores = generator.normal(size=len(places)).astype(np.float32)
        if alike:
            scales[:], scores[:] = 0.01, 0.5
        part = SimpleNamespace(view=SimpleNamespace(segment=SimpleNamespace(scales=scales)))
        yield part, vector_search.Approximate(scores, places)


@pytest.mark.property
@settings(deadline=None, max_examples=examples(200))
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.sampled_from([*SIZES[:-1], 9_000]), max_size=5),
    length=st.sampled_from([0.0, 1e-9, 1.0, 30.0, 1e6]),
    coarse=st.sampled_from([1, 300]),
    limit=st.sampled_from([1, 10, 400, 5_000]),
    most=st.sampled_from([1, 50, 4_096]),
    alike=st.booleans(),
)
def test_the_rows_near_the_best_are_those_of_numpy(
    level, seed, sizes, length, coarse, limit, most, alike
):
    generator = np.random.default_rng(seed)
    direction = generator.normal(size=64)
    probe = Probe.of((direction * (length / np.linalg.norm(direction))).astype(np.float32))
    probe = probe._replace(scale=probe.scale * np.float32(coarse))
    asked = list(scans(generator, sizes, alike)), probe, limit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_search, "MOST", most)
        found, expected = vector_search._near(*asked), in_numpy(vector_search._near, *asked)
    assert len(found) == len(sizes)
    for (part, rows), (same, others) in zip(found, expected, strict=True):
        assert part is same
        assert rows.dtype == others.dtype == np.int32
        assert rows.tolist() == others.tolist()


@each_row(
    ("name", "value", "error"),
    [
        ("scores", np.zeros(2, np.float32), ValueError),
        ("scores", np.zeros(3, np.float64), TypeError),
        ("places", np.array([0, 1, 4], np.int32), IndexError),
        ("places", np.array([-1, 1, 3], np.int32), IndexError),
        ("places", np.zeros(3, np.int64), TypeError),
        ("scales", np.empty(0, np.float32), IndexError),
        ("limit", 0, ValueError),
        ("limit", 2**63, OverflowError),
        ("segment", [], TypeError),
        ("segment", (), IndexError),
        ("segment", (None, None, None), TypeError),
    ],
)
def test_scores_of_rows_that_are_not_there_are_refused(name, value, error) -> None:
    arrays = {
        "scores": np.array([1, 0.5, 1], np.float32),
        "places": np.array([0, 2, 3], np.int32),
        "scales": np.full(4, 0.001, np.float32),
    }
    sound = tuple(arrays.values())
    bits = [np.array([0, 3], np.int32).tobytes()]
    assert compiled.near([sound, sound], 1.0, 0.0, 7.0, 2) == 2 * bits
    assert compiled.near([], 1.0, 0.0, 7.0, 2) == []
    # What the query's own rounding adds: 7 * 2 * scale / 12**0.5, here about half.
    assert compiled.near([sound], 0.0, 0.123, 7.0, 2) == bits
    assert compiled.near([sound], 0.0, 0.124, 7.0, 2) == [arrays["places"].tobytes()]
    limit = value if name == "limit" else 2
    segment = value if name == "segment" else tuple({**arrays, name: value}.values())[:3]
    with pytest.raises(error):
        compiled.near([sound, segment], 1.0, 0.0, 7.0, limit)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 64, 384, 1_025])
@pytest.mark.parametrize("rows", [1, 2, 70])
def test_exact_scores_are_those_of_numpy_and_of_their_order(level, rows, width) -> None:
    generator = np.random.default_rng(rows + width)
    vectors = generator.normal(size=(rows, width)).astype(np.float32)
    vectors[0] = -0.0
    vectors[rows // 2 :: 5] = np.nan
    query = generator.normal(size=width).astype(np.float32)
    keys = generator.integers(-(2**40), 2**40, rows)
    words = vectors.view(np.uint32)
    here = evolve(
        segment([], np.empty(0, np.uint32)),
        row_keys=keys,
        vectors=np.column_stack((words, row_sums(words, keys))),
    )
    some = np.flatnonzero(generator.random(rows) < 0.7).astype(np.int32)
    scores, missing = vector_search._scores_in_file(here, some, query)
    expected, theirs = in_numpy(vector_search._scores_in_file, here, some, query)
    assert scores.tobytes() == expected.tobytes()
    assert missing == theirs == np.isnan(vectors[some, 0]).sum()
    for row, found in zip(some.tolist(), scores.tolist(), strict=True):
        lanes, wanted = [0.0] * 8, 0.0
        for at in range(width):
            lanes[at % 8] += float(vectors[row, at]) * float(query[at])
        for lane in lanes:
            wanted += lane
        assert repr(found) == repr(wanted)
    for _ in range(20):
        damaged = here.vectors.copy()
        damaged[generator.integers(rows), generator.integers(width + 1)] ^= np.uint32(
            1 << int(generator.integers(32))
        )
        every = np.arange(rows, dtype=np.int32)
        for call in (
            vector_search._scores_in_file,
            partial(in_numpy, vector_search._scores_in_file),
        ):
            with pytest.raises(DamagedError):
                call(evolve(here, vectors=damaged), every, query)


@each_row(
    ("name", "value", "error"),
    [
        ("vectors", np.zeros((3, 8), np.uint32), ValueError),
        ("vectors", np.zeros(26, np.uint32), ValueError),
        ("vectors", np.zeros((3, 9), np.uint8), TypeError),
        ("keys", np.zeros(2, np.int64), ValueError),
        ("rows", np.array([3], np.int32), IndexError),
        ("rows", np.array([-1], np.int32), IndexError),
        ("rows", np.zeros(1, np.int64), TypeError),
        ("query", np.zeros(7, np.float32), ValueError),
        ("query", np.empty(0, np.float32), ValueError),
        ("scores", np.zeros(2), ValueError),
        ("scores", np.frombuffer(bytes(8)), ValueError),
    ],
)
def test_exact_vectors_that_are_not_there_are_refused(name, value, error) -> None:
    arrays = {
        "vectors": np.zeros((3, 9), np.uint32),
        "keys": np.zeros(3, np.int64),
        "rows": np.array([2], np.int32),
        "query": np.ones(8, np.float32),
        "scores": np.ones(1),
    }
    assert compiled.exact(tuple(arrays.values())) == 0
    assert arrays["scores"].tolist() == [0.0]
    with pytest.raises((error, BufferError)):
        compiled.exact(tuple({**arrays, name: value}.values()))


def test_products_that_leave_32_bits_are_refused() -> None:
    codes, query = np.full((1, 600), -128, np.int8), np.full(600, -(2**15), np.int16)
    one, none, room = np.ones(1, np.float32), np.empty(0, np.int32), np.empty(3, np.float32)
    with pytest.raises(ValueError, match="length"):
        compiled.scan((codes, query, one, none, none, room), 1.0, 1, 0.0)
    narrow = codes[:, :511].copy(), query[:511]
    _, scores = compiled.scan((*narrow, one, none, none, room), 1.0, 1, 0.0)
    assert np.frombuffer(scores, np.float32).tolist() == [128 * 2**15 * 511]


def test_another_thread_searches_while_a_kernel_runs_over_many_rows() -> None:
    searched = threading.Event()

    def search() -> None:
        with SEARCHES.taken():
            searched.set()

    def kernel() -> bool:
        other = threading.Thread(target=search)
        other.start()
        found = searched.wait(timeout=0.2 if short else 5)
        if not short:
            other.join()
        return found

    for short in (True, False):
        searched.clear()
        with SEARCHES.taken():
            assert kernels.run(kernel, kernels.LONG + (not short)) is not short
        searched.wait(timeout=60)


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.lists(st.text(st.sampled_from("abcXYZ09_.'+# ,\n\t\0\x7fé")) | st.text()), max_size=4
    ),
    st.integers(0, 3_000),
)
def test_runs_have_the_numbers_that_numpy_gives_them(batches: list[list[str]], many: int) -> None:
    # Of all lengths about that of a key, and so many that the table grows under them.
    words = [f"{number:x}".rjust(1 + number % 19, "q") for number in range(many)]
    ours, theirs = {}, {}
    analyzer = get_analyzer()
    fast, plain = analyzer.numbering(ours, compiled.runs), analyzer.numbering(theirs)
    for texts in [*batches, [" ".join(words)], *batches, [",".join(words), "a" * 16, "a" * 17]]:
        for one, other in zip(fast.encode_all(texts), plain.encode_all(texts), strict=True):
            np.testing.assert_array_equal(one, other)
    assert list(ours.items()) == list(theirs.items())


def runs_of(data: bytes, kept: bytes, keys: np.ndarray, values: np.ndarray, room: int):
    found = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32)
    arrays = np.frombuffer(data, np.uint8), np.frombuffer(kept, np.uint8), keys, values
    count = compiled.runs((*arrays, *found))
    return [each[:count].tolist() for each in found]


def test_runs_end_with_their_text_and_a_full_table_ends_the_search() -> None:
    full = np.ones((4, 2), np.uint64), np.full(4, 7, np.int32)
    assert runs_of(b"ab c", b"\1" * 256, *full, 3) == [[0], [4], [-1]]
    assert runs_of(b"", b"\1" * 256, *full, 1) == [[], [], []]
    assert runs_of(b"abc", b"\0" * 256, *full, 2) == [[], [], []]


@pytest.mark.parametrize("wrong", ["kept", "slots", "keys", "room"])
def test_runs_refuse_arrays_that_do_not_fit(wrong: str) -> None:
    slots = 3 if wrong == "slots" else 4
    keys = np.zeros((slots + (wrong == "keys"), 2), np.uint64)
    kept = b"\1" * (255 if wrong == "kept" else 256)
    with pytest.raises(ValueError, match="differ in length"):
        runs_of(b"abcd", kept, keys, np.zeros(slots, np.int32), 2 if wrong == "room" else 3)
