"""A knowledge base as a node of an agent graph, such as in LangGraph.

A node is a callable that takes the state, a mapping, and returns a dict of additions. No framework
is imported.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from triptych import deadlines
from triptych.errors import CancelledError, TriptychError, ValidationError
from triptych.records import (
    Hit,
    Layer,
    Mode,
    Query,
    Result,
    Scope,
    check_identifier,
    check_text,
    to_scope,
)
from triptych.records.serialization import to_json
from triptych.search import validate
from triptych.search.result_formats import format_xml
from triptych.service import KnowledgeBase
from triptych_adapters import check_service

Node = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes a graph's state; returns the node's additions."""

_ADDED: Final = ("hits", "by_dataset", "results", "warnings")


@attrs.frozen(kw_only=True, slots=True)
class NodeDataset:
    """A dataset for a node, with its options.

    Attributes:
        dataset_id: the id of the dataset.
        top_k: the maximum number of its hits; None for the node's.
        state_key: an additional key of the state for this dataset's hits; None for none.
    """

    dataset_id: str
    top_k: int | None = None
    state_key: str | None = None


def knowledge_node(
    service: KnowledgeBase | None,
    *,
    query_key: str = "query",
    dataset_key: str = "dataset_id",
    dataset_ids: str | Iterable[str | NodeDataset] | None = None,
    scope: Scope | str = Scope.SINGLE,
    top_k: int = 5,
    mode: Mode | str | None = None,
    layer: Layer | str = Layer.DETAIL,
    threshold: float | None = None,
    where: Mapping[str, Any] | None = None,
    fresh_only: bool = False,
) -> Node:
    """Return a node that searches for ``state[query_key]`` and adds the results.

    It searches the datasets in ``state[dataset_key]`` (an id or several; absent, None or "" means
    none), else ``dataset_ids``, else all existing datasets. With ``dataset_ids`` the state may only
    choose among these. Each dataset is searched separately, for up to its own ``top_k`` hits
    (`NodeDataset`) or the node's; the other arguments are those of `Query`. With ``scope="all"``,
    or if no dataset is named, one search over all of them returns ``top_k`` hits, ranked with
    pooled statistics.

    The node does not modify the state. It returns plain data for JSON:

    - ``hits``: all hits, each a dict as in ``triptych search --json``. Scores of different datasets
      are not comparable, because each has its own statistics, so the best hits of all datasets are
      first, then the second ones, and so on, in the order of the datasets. In vector mode (cosines
      in one space) hits are sorted by score, with ``scope="all"`` as in the search.
    - ``by_dataset``: the hits of each searched dataset, best first. With ``scope="all"``: of each
      dataset with hits.
    - ``results``: the hits as XML for a prompt (`triptych.format_xml`), "" without hits. No
      document can imitate another one in it.
    - ``warnings``: the problems, each with the dataset's name. A dataset that fails has no hits and
      does not stop the others.
    - every ``state_key`` of ``dataset_ids``: that dataset's hits; [] if it was not searched.

    A node without a Service (None) or without a dataset (``dataset_ids=[]``) has no hits.

    Raises:
        ValidationError: an argument is invalid. The node itself raises it for a missing, blank or
            non-string query, or a dataset that it may not search.
        CancelledError: raised by the node if a deadline passed.
    """
    if service is not None:
        check_service(service, "knowledge_node", "search", "search_many", "list_datasets")
    datasets = None if dataset_ids is None else _datasets(dataset_ids)
    pooled = to_scope(scope) is Scope.ALL
    if pooled and datasets is not None:
        raise ValidationError('scope="all" searches every dataset: leave dataset_ids out')
    for key, what in ((query_key, "query_key"), (dataset_key, "dataset_key")):
        if not check_text(key, what):
            raise ValidationError(f"{what} is empty: name a key of the state")
    query = Query(
        text="any",
        scope=Scope.ALL,
        mode=mode,
        layer=layer,
        top_k=top_k,
        threshold=threshold,
        where=copy.deepcopy(dict(where or {})),  # the caller's may change
        fresh_only=fresh_only,
    )
    prototype, _ = validate(query, getattr(service, "lanes", None))
    own = {each.dataset_id: each for each in datasets or ()}
    _check_own(own.values(), prototype, {*_ADDED, query_key, dataset_key})
    limits = {each.dataset_id: each.top_k for each in own.values() if each.top_k is not None}

    def knowledge(state: Mapping[str, Any]) -> dict[str, Any]:
        if service is None:
            return _added({}, [], ["this node has no knowledge base: nothing was searched"], own)
        text = _text(state, query_key)
        allowed = None if datasets is None else tuple(own)
        chosen = _chosen(state.get(dataset_key), dataset_key, allowed)
        if chosen is None and pooled:
            merged, warnings = _search_all(service, attrs.evolve(prototype, text=text))
            return _added(_by_dataset(merged), merged, warnings, own)
        of_one = attrs.evolve(prototype, text=text, scope=Scope.SINGLE)
        queries = {
            dataset_id: attrs.evolve(
                of_one, dataset_id=dataset_id, top_k=limits.get(dataset_id, top_k)
            )
            for dataset_id in (service.list_datasets() if chosen is None else chosen)
        }
        results, warnings = _search(service, queries)
        merged = _merged(results, by_score=prototype.mode is Mode.VECTOR)
        hits = {dataset_id: result.hits for dataset_id, result in results.items()}
        return _added(hits, merged, warnings, own)

    return knowledge


_CONFIG_KEYS: Final = (
    *("query_key", "dataset_key", "datasets", "scope"),
    *("top_k", "mode", "layer", "threshold", "where", "fresh_only"),
)


def knowledge_node_from_config(service: KnowledgeBase | None, config: Mapping[str, Any]) -> Node:
    """Create the `knowledge_node` described by a mapping, such as an entry in a graph's file.

    Its keys are the arguments of `knowledge_node`, and ``datasets``: a list of ids, or of mappings
    with ``dataset_id`` and optionally ``top_k`` and ``state_key``. Missing or null values have the
    defaults of that function.

    Raises:
        ValidationError: a key is unknown, or a value is invalid; the message names the key.
    """
    given = _known(config, "the configuration of a knowledge node", _CONFIG_KEYS)
    datasets = given.pop("datasets", None)
    if datasets is not None:
        if isinstance(datasets, str | Mapping) or not isinstance(datasets, Sequence):
            raise ValidationError(f"datasets must be a list, not {datasets!r:.60}")
        given["dataset_ids"] = [_entry(entry, at) for at, entry in enumerate(datasets)]
    return knowledge_node(service, **given)


def _entry(entry: object, at: int) -> str | NodeDataset:
    """One entry of ``datasets``."""
    if isinstance(entry, str):
        return entry
    what = f"datasets[{at}]"
    given = _known(entry, what, tuple(each.name for each in attrs.fields(NodeDataset)))
    if "dataset_id" not in given:
        raise ValidationError(f"{what} has no dataset_id: name the dataset")
    return NodeDataset(**given)


def _known(given: object, what: str, keys: Sequence[str]) -> dict[str, Any]:
    """What is given in a map of these keys; null is not given."""
    if not isinstance(given, Mapping):
        raise ValidationError(f"{what} must be a map, not {given!r:.60}")
    for key in given:
        if key not in keys:
            raise ValidationError(f"{what} has no key {key!r:.60}; its keys are {', '.join(keys)}")
    return {key: value for key, value in given.items() if value is not None}


def _datasets(value: Any) -> tuple[NodeDataset, ...]:
    """The node's datasets, each once, in order."""
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, Iterable):
        raise ValidationError(f"dataset_ids is a dataset's id or several, not {value!r:.60}")
    found: dict[str, NodeDataset] = {}
    for each in value:
        its = each if isinstance(each, NodeDataset) else NodeDataset(dataset_id=each)
        check_identifier(its.dataset_id, "an id of dataset_ids")
        if found.setdefault(its.dataset_id, its) != its:
            raise ValidationError(
                f"dataset_ids names {its.dataset_id!r} twice, with other settings: name it once"
            )
    return tuple(found.values())


def _check_own(datasets: Iterable[NodeDataset], prototype: Query, taken: set[str]) -> None:
    """Refuse a ``top_k`` that no query has, and a ``state_key`` that is in use."""
    for each in datasets:
        if each.top_k is not None:
            try:
                validate(attrs.evolve(prototype, top_k=each.top_k))
            except ValidationError as error:
                raise ValidationError(f"the dataset {each.dataset_id!r}: {error}") from None
        if each.state_key is not None:
            what = f"the state_key of the dataset {each.dataset_id!r}"
            if not check_text(each.state_key, what):
                raise ValidationError(f"{what} is empty: name a key of the state")
            if each.state_key in taken:
                raise ValidationError(
                    f"{what}, {each.state_key!r}, is in use by the node: choose another"
                )
            taken.add(each.state_key)


def _added(
    found: Mapping[str, Sequence[Hit]],
    merged: Sequence[Hit],
    warnings: list[str],
    own: Mapping[str, NodeDataset],
) -> dict[str, Any]:
    """What the node adds to the state."""
    plain = to_json(found)
    added = {
        "hits": to_json(merged),
        "by_dataset": plain,
        "results": format_xml(merged) if merged else "",
        "warnings": warnings,
    }
    keys = {each.state_key: each.dataset_id for each in own.values() if each.state_key}
    return added | {key: plain.get(dataset_id, []) for key, dataset_id in keys.items()}


def _chosen(
    value: Any, dataset_key: str, allowed: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The datasets to search, None for all."""
    if value is None or value == "":
        return allowed
    what = f"state[{dataset_key!r}]"
    if not isinstance(value, Iterable):
        raise ValidationError(f"{what} is a dataset's id or several, not {value!r:.60}")
    several = [value] if isinstance(value, str) else value
    chosen = tuple(check_identifier(each, f"an id of {what}") for each in several)
    refused = [] if allowed is None else [each for each in chosen if each not in allowed]
    if refused:
        raise ValidationError(
            f"{what} names {', '.join(map(repr, refused))}, which this node may "
            f"not search: it has {', '.join(map(repr, allowed or ())) or 'none'}"
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
            f"the state has no {query_key!r}: set it in an earlier node, or give knowledge_node "
            "the right query_key"
        )
    text = check_text(state[query_key], f"state[{query_key!r}]")
    if not text.strip():
        raise ValidationError(f"state[{query_key!r}] is blank: give it at least one word")
    return text


def _search_all(service: KnowledgeBase, query: Query) -> tuple[Sequence[Hit], list[str]]:
    """One search over every dataset, and the warnings; a failure is only in these."""
    try:
        result = service.search(query)
    except (CancelledError, ValidationError):
        raise
    except TriptychError as error:
        return [], [f"nothing was searched: {type(error).__name__}: {error}"]
    return result.hits, list(result.warnings)


def _search(
    service: KnowledgeBase, queries: Mapping[str, Query]
) -> tuple[dict[str, Result], list[str]]:
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


def _by_dataset(hits: Sequence[Hit]) -> dict[str, list[Hit]]:
    found: dict[str, list[Hit]] = {}
    for hit in hits:
        found.setdefault(hit.dataset_id, []).append(hit)
    return found


def _merged(results: Mapping[str, Result], *, by_score: bool) -> list[Hit]:
    """All hits by rank in their dataset, or by score; ties in the order of the datasets."""
    placed = [
        (-hit.score if by_score else 0.0, rank, place, hit)
        for place, result in enumerate(results.values())
        for rank, hit in enumerate(result.hits)
    ]
    return [hit for *_, hit in sorted(placed, key=lambda entry: entry[:3])]
