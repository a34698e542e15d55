"""Every operation has one route; what a route's path is made of comes back from it."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given, strategies as st

from support.rows import each_row
from triptych.service import Effect
from triptych_adapters.wire import OPERATIONS, ROUTES, Route


def test_each_operation_has_one_route_and_no_two_are_alike() -> None:
    assert set(ROUTES) == set(OPERATIONS)
    assert len({(route.method, route.path) for route in ROUTES.values()}) == len(ROUTES)


@each_row("route", ROUTES.values(), ids=lambda route: route.operation)
def test_a_route_names_arguments_of_its_operation(route: Route) -> None:
    parameters = route.called.parameters["properties"]
    assert set(route.in_path) <= set(parameters)
    required = set(route.called.parameters["required"])
    assert set(route.in_path) <= required
    if route.method == "GET":
        assert route.called.effect is Effect.READS


@pytest.mark.property
@given(st.text(min_size=1), st.text(min_size=1))
def test_arguments_come_back_from_a_url(dataset: str, name: str) -> None:
    url = ROUTES["get_document"].url({"dataset_id": dataset, "name": name})
    assert "." not in url
    start, _, rest = url.removeprefix("/v1/datasets/").partition("/documents/")
    assert "/" not in start
    assert "/" not in rest
    assert (unquote(start), unquote(rest)) == (dataset, name)
