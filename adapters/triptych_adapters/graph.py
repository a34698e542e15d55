"""A knowledge base as a node of a graph of agents: a plain callable from state to state.

It takes a mapping and returns a dict of what it adds, which is what LangGraph and its like call
a node; none of them is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from triptych import deadlines
from triptych.errors import CancelledError, TriptychError, ValidationError
from triptych.formats import format_xml, hit_json
from triptych.records import (
    Hit,
    Layer,
    Mode,
    Query,
    Result,
    check_identifier,
    check_text,
    to_layer,
    to_mode,
)
from triptych.service import Service

__all__ = ["Node", "knowledge_node"]

Node = Callable[[Mapping[str, Any]], dict[str, Any]]
"""From a graph's state to what a node adds to it."""


def knowledge_node(
    service: Service,
    *,
    query_key: str = "query",
    dataset_key: str = "dataset_id",
    dataset_ids: str | Sequence[str] | None = None,
    top_k: int = 5,
    mode: Mode | str | None = None,
    layer: Layer | str = Layer.DETAIL,
    threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    fresh_only: bool = False,
) -> Node:
    """A node that searches for ``state[query_key]`` and adds what it found.

    Which datasets it searches: those of ``state[dataset_key]`` (an id or several; absent, None
    or "": not given), else those of ``dataset_ids``, else all there are when it runs. With
    ``dataset_ids`` the state may choose among these and no others. Each dataset is searched by
    itself, for up to ``top_k`` hits; the other arguments are those of `Query`.

    The node never changes the state. It returns, as values that JSON can hold:

    - ``hits``: all hits, each a dict as ``triptych search --json`` prints it. Scores of different
      datasets cannot be compared, since each has statistics of its own, so the best hits of all
      datasets come first, then the second ones, and so on; equal ranks come in the order of the
      datasets. In vector mode they can (cosines in one space), and the hits come by score. For
      one ranking by pooled statistics use ``service.search(query, scope="all")``.
    - ``by_dataset``: for each dataset that was searched its hits, best first.
    - ``results``: the hits as XML for a prompt (`triptych.format_xml`), "" when there are none: no
      document can pass its words off as another's.
    - ``warnings``: what went wrong, each with the dataset's name. One that fails contributes
      nothing and stops no other.

    Raises:
        ValidationError: an argument cannot be meant. The node itself raises it for a query that
            is missing, no string or blank, or a dataset that it may not search.
        CancelledError: raised by the node when a deadline passed.
    """
    check_text(query_key, "query_key")
    check_text(dataset_key, "dataset_key")
    mode = None if mode is None else to_mode(mode)
    layer = to_layer(layer)
    allowed = None if dataset_ids is None else _ids(dataset_ids, "dataset_ids")
    if allowed == ():
        raise ValidationError("dataset_ids names no dataset: name some, or leave it out for all")

    def knowledge(state: Mapping[str, Any]) -> dict[str, Any]:
        text = _text(state, query_key)
        chosen = _chosen(state.get(dataset_key), dataset_key, allowed)
        searched = tuple(service.list_datasets()) if chosen is None else chosen
        queries = {
            dataset_id: Query(
                text=text,
                dataset_id=dataset_id,
                mode=mode,
                layer=layer,
                top_k=top_k,
                threshold=threshold,
                where=where or {},
                fresh_only=fresh_only,
            )
            for dataset_id in searched
        }
        results, warnings = _search(service, queries)
        merged = _merged(results, by_score=mode is Mode.VECTOR)
        return {
            "hits": [hit_json(hit) for hit in merged],
            "by_dataset": {
                dataset_id: [hit_json(hit) for hit in result.hits]
                for dataset_id, result in results.items()
            },
            "results": format_xml(merged) if merged else "",
            "warnings": warnings,
        }

    return knowledge


def _ids(value: Any, what: str) -> tuple[str, ...]:
    """One id or several, in order."""
    if not isinstance(value, str) and not isinstance(value, Iterable):
        raise ValidationError(f"{what} is a dataset's id or several, not {value!r:.60}")
    several = [value] if isinstance(value, str) else list(value)
    return tuple(check_identifier(each, f"an id of {what}") for each in several)


def _chosen(
    value: Any, dataset_key: str, allowed: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The datasets to search, None for all."""
    if value is None or value == "":
        return allowed
    chosen = _ids(value, f"state[{dataset_key!r}]")
    refused = [] if allowed is None else [each for each in chosen if each not in allowed]
    if refused:
        raise ValidationError(
            f"state[{dataset_key!r}] names {', '.join(map(repr, refused))}, which this node may "
            f"not search: it has {', '.join(map(repr, allowed or ()))}"
        )
    return chosen


def _text(state: Mapping[str, Any], query_key: str) -> str:
    if not isinstance(state, Mapping):
        raise ValidationError(
            f"the state is a {type(state).__name__}, and a mapping is needed: declare the graph's "
            "state as a TypedDict, or call the node with a dict"
        )
    if query_key not in state:
        raise ValidationError(
            f"the state has no {query_key!r} to search for: set it in a node before this one, or "
            "give knowledge_node the query_key that it has"
        )
    text = check_text(state[query_key], f"state[{query_key!r}]")
    if not text.strip():
        raise ValidationError(f"state[{query_key!r}] is blank: give it at least one word")
    return text


def _search(service: Service, queries: Mapping[str, Query]) -> tuple[dict[str, Result], list[str]]:
    """Each dataset's result, and the warnings; what fails is only in these."""
    results: dict[str, Result] = {}
    warnings: list[str] = []
    try:
        # One batch for the embedder. Where one dataset fails they are asked one by one.
        results = dict(zip(queries, service.search_many(queries.values()), strict=True))
    except (CancelledError, ValidationError):
        raise
    except TriptychError:
        for dataset_id, query in queries.items():
            deadlines.check("the search of several datasets")
            try:
                results[dataset_id] = service.search(query)
            except CancelledError:
                raise
            except TriptychError as error:
                warnings.append(
                    f"the dataset {dataset_id!r} was not searched: {type(error).__name__}: {error}"
                )
    for dataset_id, result in results.items():
        warnings += [f"the dataset {dataset_id!r}: {warning}" for warning in result.warnings]
    return results, warnings


def _merged(results: Mapping[str, Result], *, by_score: bool) -> list[Hit]:
    """All hits by rank in their dataset, or by score; ties in the order of the datasets."""
    placed = [
        (-hit.score if by_score else 0.0, rank, place, hit)
        for place, result in enumerate(results.values())
        for rank, hit in enumerate(result.hits)
    ]
    return [hit for *_, hit in sorted(placed, key=lambda entry: entry[:3])]
