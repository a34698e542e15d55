"""Scopes of rebuilds: what can be named, and that joining them forgets nothing."""

from __future__ import annotations

import pickle
from functools import reduce
from itertools import permutations
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych import RebuildScope, ValidationError
from triptych.events import join_scopes

pytestmark = pytest.mark.property

MOST = RebuildScope.MAX_DOC_NAMES

# Runs of neighbouring numbers, so that some overlap, and some together are one too many.
names = st.builds(
    lambda start, length: tuple(str(number) for number in range(start, start + length)),
    st.integers(0, 300),
    st.one_of(st.integers(0, 3), st.integers(MOST // 2 - 2, MOST)),
)
scopes = st.one_of(
    st.none(),
    st.just(RebuildScope()),
    st.builds(lambda d, n: RebuildScope(dataset_id=d, doc_names=n), st.sampled_from("de"), names),
    st.builds(lambda n: RebuildScope(dataset_id="d", doc_names=n), names),
)


def covers(scope: RebuildScope | None, dataset_id: str, name: str) -> bool:
    return scope is not None and (
        not scope.dataset_id
        or (scope.dataset_id == dataset_id and (not scope.doc_names or name in scope.doc_names))
    )


@given(scopes, scopes, scopes)
def test_joining_is_associative_commutative_and_idempotent(
    a: RebuildScope | None, b: RebuildScope | None, c: RebuildScope | None
) -> None:
    assert join_scopes(a, a) == a
    assert len({join_scopes(*pair) for pair in permutations((a, b))}) == 1
    assert len({reduce(join_scopes, order) for order in permutations((a, b, c))}) == 1
    assert join_scopes(a, join_scopes(b, c)) == join_scopes(join_scopes(a, b), c)


@given(st.lists(scopes, max_size=4), st.sampled_from("de"), st.integers(0, 600))
def test_a_join_covers_what_its_parts_cover_and_no_more_than_it_has_to(
    parts: list[RebuildScope | None], dataset_id: str, number: int
) -> None:
    joined = reduce(join_scopes, parts, None)
    some = any(covers(part, dataset_id, str(number)) for part in parts)
    if some:
        assert covers(joined, dataset_id, str(number))
    told = [part for part in parts if part is not None]
    named = {name for part in told for name in part.doc_names}
    if (
        len({part.dataset_id for part in told}) == 1
        and all(part.doc_names for part in told)
        and len(named) <= MOST
    ):
        assert joined is not None
        assert set(joined.doc_names) == named


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_the_same_documents_are_the_same_scope_in_whatever_order_they_are_named(
    named: list[str],
) -> None:
    scope = RebuildScope(dataset_id="d", doc_names=named)
    assert scope == RebuildScope(dataset_id="d", doc_names=iter(reversed(named)))
    assert scope.doc_names == tuple(sorted(set(named)))
    assert scope.doc_name == (named[0] if len(set(named)) == 1 else "")
    assert pickle.loads(pickle.dumps(scope)) == scope
    assert attrs.evolve(scope, dataset_id="e").doc_names == scope.doc_names


def test_one_document_is_named_in_either_way() -> None:
    one = RebuildScope(dataset_id="d", doc_name="a")
    assert one == RebuildScope(dataset_id="d", doc_names=["a"])
    assert (one.doc_name, one.doc_names) == ("a", ("a",))


def test_a_line_of_a_log_stays_short() -> None:
    many = RebuildScope(dataset_id="d", doc_names=map(str, range(MOST)))
    assert str(many) == "256 documents of dataset 'd'"
    assert str(RebuildScope(dataset_id="d", doc_name="a")) == "'a' of dataset 'd'"
    assert str(RebuildScope(dataset_id="d")) == "dataset 'd'"
    assert str(RebuildScope()) == "every dataset"


@each_row(
    ("fields", "said"),
    [
        ({"doc_name": "a"}, "needs its dataset_id"),
        ({"doc_names": ["b", "a"]}, "'a' needs its dataset_id"),
        ({"dataset_id": "d", "doc_name": "a", "doc_names": ["a"]}, "not both"),
        ({"dataset_id": "d", "doc_names": map(str, range(MOST + 1))}, "at most 256 documents"),
        ({"dataset_id": "d", "doc_names": ["a", ""]}, "leave doc_names empty"),
        ({"dataset_id": "d", "doc_names": ["\udcff"]}, "lone surrogate"),
        ({"dataset_id": "d", "doc_names": ["a", 1]}, "not int"),
        ({"dataset_id": "d", "doc_names": "ab"}, "several names"),
        ({"dataset_id": "d", "doc_names": None}, "several names"),
        ({"dataset_id": 1}, "dataset_id must be a string"),
        ({"dataset_id": "d", "doc_name": None}, "doc_name must be a string"),
    ],
)
def test_an_invalid_scope_is_refused(fields: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RebuildScope(**fields)
