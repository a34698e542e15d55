"""Named pipelines: the options of a kind of search under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import attrs

from triptych._internal.wording import did_you_mean
from triptych.contracts import LLM, Postprocessor, QueryRewriter, Ranker
from triptych.errors import NotFoundError, ValidationError
from triptych.records import Query, check_identifier, check_text, check_whole
from triptych.records.queries import check_option_names
from triptych.search.query import check_dataset_ids, validate

T = TypeVar("T")

_PLACES = ("dataset_id", "dataset_ids", "scope")


class SearchedService(Protocol):
    """A `triptych.Service`, as far as a pipeline over it goes."""

    @property
    def lanes(self) -> tuple[str, ...]:
        """See `Service.lanes`."""
        ...

    def list_datasets(self) -> Sequence[str]:
        """See `Service.list_datasets`."""
        ...


def _names(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ValidationError(f"give a list of names, not the text {given!r:.60}")
    return tuple(given)


def _steps(given: Sequence[Postprocessor]) -> tuple[Postprocessor, ...]:
    return tuple(given)


@attrs.frozen(kw_only=True)
class Pipeline:
    """A named configuration for searches and answers.

    Use it with `Service.pipeline`. Pipelines can also be defined in ``triptych.toml``
    (docs/how-to/pipelines.md).

    Attributes:
        name: the pipeline's name.
        description: the purpose of the pipeline.
        datasets: the datasets to search, which need not exist; empty means all.
        search: default options, by the names of `SearchOptions`, such as ``{"top_k": 5, "where":
            {"lang": "en"}}``. A caller may override them, but the pipeline's ``where`` always
            applies in addition to the caller's.
        rewriter: rewrites each query; several in a list run in order. None for none, even if the
            Service has one.
        lanes: the lanes of hybrid search; empty means all.
        ranker: fuses the lanes, with its weights; None for the Service's.
        postprocessors: steps that process the hits, in order.
        token_budget: the maximum number of tokens of a context.
        llm: the model that writes answers; None for the Service's.
        prompt: the instructions for the model, instead of the default prompt.
        over: another Service to search instead, such as one over existing tables
            (docs/how-to/existing-tables.md). Whoever opened it closes it. The access of a
            restricted caller applies there too.
    """

    name: str
    description: str = ""
    datasets: Sequence[str] = attrs.field(default=(), converter=_names)
    search: Mapping[str, Any] = attrs.field(factory=dict)
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None = None
    lanes: Sequence[str] = attrs.field(default=(), converter=_names)
    ranker: Ranker | None = None
    postprocessors: Sequence[Postprocessor] = attrs.field(default=(), converter=_steps)
    token_budget: int = 2000
    llm: LLM | None = None
    prompt: str | None = None
    over: SearchedService | None = None

    def __attrs_post_init__(self) -> None:
        check_identifier(self.name, "a pipeline's name")
        check_text(self.description, "a pipeline's description")
        if not check_whole(self.token_budget, "token_budget"):
            raise ValidationError(f"the pipeline {self.name!r} has token_budget 0: give at least 1")
        for dataset_id in self.datasets:
            check_identifier(dataset_id, f"a dataset of the pipeline {self.name!r}")
        for key in _PLACES:
            if key in self.search:
                raise ValidationError(
                    f"the pipeline {self.name!r} has {key} among its search options: name its "
                    "datasets under datasets"
                )
        check_option_names(self.search)

    @property
    def searched(self) -> Sequence[str]:
        """The datasets that it searches; () for all. Of another Service all, if it names none."""
        if self.over is None or self.datasets:
            return self.datasets
        return self.over.list_datasets()

    def check(self, lanes: Sequence[str]) -> None:
        """Check that a Service with these ``lanes`` can run the pipeline.

        Raises:
            ValidationError: the message names the pipeline and the problem.
        """
        for lane in self.lanes:
            if lane not in lanes:
                raise ValidationError(
                    f"the pipeline {self.name!r} names the lane {lane!r}; the lanes are "
                    f"{', '.join(lanes)}"
                )
        try:
            validate(Query(text="any", dataset_id="any", **self.search), self.lanes or lanes)
        except ValidationError as error:
            raise ValidationError(f"the pipeline {self.name!r}: {error}") from None

    def query(self, query: Query | str, options: Mapping[str, Any]) -> Query:
        """Return the query to run for a caller's query and ``options``.

        If ``query`` is a `Query`, only the pipeline's datasets and ``where`` are added to it.

        Raises:
            ValidationError: an option is unknown, or names a dataset outside the pipeline.
        """
        check_option_names(options)
        given = {key: value for key, value in options.items() if key != "where" or value}
        where = self.search.get("where") or {}
        if isinstance(query, Query):
            own: Mapping[str, Any] = {}
            asked = attrs.evolve(query, **given)
        else:
            own = {key: value for key, value in self.search.items() if key != "where"}
            asked = Query(text=query, **{**own, **given})
        if where:
            both = {"$and": [where, asked.where]} if asked.where else where
            asked = attrs.evolve(asked, where=both)
        return self._placed(asked)

    def _placed(self, query: Query) -> Query:
        # Read once: what is checked here is what is searched.
        query = attrs.evolve(query, dataset_ids=check_dataset_ids(query.dataset_ids))
        named = (*query.dataset_ids, *([query.dataset_id] if query.dataset_id else ()))
        if not self.datasets:
            return query if named else attrs.evolve(query, scope="all")
        for dataset_id in named:
            if dataset_id not in self.datasets:
                raise ValidationError(
                    f"the pipeline {self.name!r} searches {', '.join(self.datasets)}, but the "
                    f"query names {dataset_id!r}"
                )
        return query if named else attrs.evolve(query, scope="single", dataset_ids=self.datasets)


def find_pipeline(pipelines: Mapping[str, T], name: str) -> T:
    """Return the pipeline of this name.

    Raises:
        NotFoundError: there is none; the message names those that there are.
    """
    check_text(name, "a pipeline's name")
    if name in pipelines:
        return pipelines[name]
    known = f"there are {', '.join(pipelines)}" if pipelines else "there is none"
    meant = did_you_mean(name, pipelines, known)
    raise NotFoundError(f"no pipeline is called {name!r}: {meant}")


def rewriters_of(rewriter: Any) -> Sequence[QueryRewriter]:
    """Return the rewriters that an option names: one, several in a list or tuple, or none. What is
    none at all, such as a text, is one for the check that follows."""
    if rewriter is None:
        return ()
    if isinstance(rewriter, Sequence) and not isinstance(rewriter, str):
        return rewriter
    return (rewriter,)


def one_rewriter(
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
) -> QueryRewriter | None:
    """Return the rewriters that an option names as one; None without any."""
    several = rewriters_of(rewriter)
    if len(several) > 1:
        from triptych.search.rewriting import ChainRewriter

        return ChainRewriter(several)
    return several[0] if several else None
