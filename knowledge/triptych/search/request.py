"""Resolving a query: the datasets, mode and vectors to search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from triptych.contracts import ChunkRepo, DocLevelSearcher
from triptych.contracts.rules import CHANGE_MODEL, missing_dataset
from triptych.errors import ModelMismatchError, NotAvailableError, ValidationError
from triptych.living_documents import LivingDocuments
from triptych.records import (
    Candidate,
    Candidates,
    DatasetConfig,
    DerivedSig,
    EmbedKind,
    Hit,
    Layer,
    Mode,
    ModelUsage,
    Query,
    RankedList,
    ResolvedQuery,
    Scope,
    Vector,
)
from triptych.search.engine import Target
from triptych.search.query import over_fetch, resolve_mode, validate
from triptych.search.syntax import TextConditions, merge_where, parse_query
from triptych.text import CorpusStats, get_analyzer
from triptych.vectors.lanes import Lane, ModelSet

if TYPE_CHECKING:
    from triptych.derivation.layers import Inputs


@attrs.frozen(kw_only=True)
class SearchRequest:
    """One query on its way through the pipeline. Each stage makes another of it.

    Attributes:
        target: what is searched.
        query: the query as it was asked, resolved.
        variants: what the lanes are asked, one for each wording of the query.
        warnings: what the caller should know.
        languages: the analyzer's language of each dataset.
        inputs: what the layers of a dataset are made from, by dataset; filled when needed.
        terms: the query's terms by dataset; filled when needed.
        conditions: what each found text must and must not hold; None for anything.
        fields: the fields that the query's text named, as conditions of ``where``.
        vectors: the vectors of texts that were embedded for it, by kind and text.
        usage: what language models took to word the query.
    """

    target: Target
    query: ResolvedQuery
    variants: Sequence[ResolvedQuery]
    warnings: tuple[str, ...] = ()
    languages: Mapping[str, str] = attrs.field(factory=dict)
    inputs: dict[str, Inputs] = attrs.field(factory=dict)
    terms: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    conditions: TextConditions | None = None
    fields: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    vectors: dict[tuple[EmbedKind, str], Vector] = attrs.field(factory=dict)
    usage: tuple[ModelUsage, ...] = ()

    def terms_in(self, dataset_id: str) -> tuple[str, ...]:
        """Return the query's terms in the language of a dataset."""
        if dataset_id not in self.terms:
            analyzer = get_analyzer(self.language_of(dataset_id))
            self.terms[dataset_id] = tuple(analyzer.analyze_query(self.query.text))
        return self.terms[dataset_id]

    def language_of(self, dataset_id: str) -> str:
        """Return the language in which a dataset is analysed."""
        return self.languages.get(dataset_id, "english")


def query_stats(
    statistics: DocLevelSearcher,
    language: str,
    query: ResolvedQuery,
    terms: Collection[str],
    lists: Iterable[RankedList],
) -> CorpusStats:
    """The statistics of a query's ``terms``, each with all that it stands for
    (`Analyzer.variants`).

    A lane that made one of ``lists``, which are of the query's datasets, may know them.
    """
    for ranked in lists:
        found = ranked.candidates
        known = found.stats if isinstance(found, Candidates) else None
        if query.datasets_of.get(ranked.lane, query.dataset_ids) != query.dataset_ids:
            continue  # it has looked at some of them
        if known is not None and (stats := known(terms)) is not None:
            return stats
    variants = get_analyzer(language).variants(query.text)
    every, within = list(set().union(*variants.values())), query.filter.within
    return statistics.corpus_stats(query.dataset_ids, every, within=within).pooled(variants)


@attrs.frozen(kw_only=True)
class Found:
    """What a search found, before it is judged.

    Attributes:
        hits: the hits from the first on, whatever the query's offset is.
        warnings: what lanes and steps reported.
        exhausted: whether there are no other hits.
        lists: what each lane found for each variant; None where documents were listed.
        below: the chunks that are below the threshold.
    """

    hits: Sequence[Hit]
    warnings: tuple[str, ...] = ()
    exhausted: bool
    lists: Sequence[tuple[ResolvedQuery, RankedList]] | None
    below: Sequence[Candidate] = ()


@attrs.frozen(eq=False)
class RequestResolver:
    """Validates queries, and finds the datasets and the mode that each means."""

    _living: LivingDocuments
    _chunks: ChunkRepo
    _models: ModelSet
    lanes: Sequence[str]
    _vector_lanes: Sequence[Lane[Any]] = attrs.field(init=False)

    @_vector_lanes.default
    def _searched(self) -> Sequence[Lane[Any]]:
        """The embedder's, which decides on the mode wherever it runs, and others that are run."""
        dense, *further = self._models.lanes
        return [dense, *(lane for lane in further if lane.name in self.lanes)]

    def lanes_of(self, mode: Mode | str | None) -> tuple[str, ...]:
        """Return the lanes that a search for chunks in ``mode`` runs, if no dataset lacks one."""
        models = {lane.name: lane.model is not None for lane in self._vector_lanes}
        mode = resolve_mode(mode, has_embedder=any(models.values()), lanes=self.lanes)
        if mode != Mode.HYBRID:
            return (str(mode),)
        return tuple(lane for lane in self.lanes if models.get(lane, True))

    def resolve(self, query: Query, *, documents: bool = False) -> SearchRequest:
        """Return the request that ``query`` means, with one variant: the query itself.

        ``documents`` asks for whole documents instead of what ``query.layer`` says.

        Raises:
            ValidationError: the query is invalid.
            NotFoundError: there is no dataset of its name.
            ModelMismatchError: it asks for vectors only, and they are of another model.
            NotAvailableError: it asks for vectors only, and there are none.
        """
        if documents:
            query = attrs.evolve(query, layer=Layer.DETAIL)
        conditions: TextConditions | None = None
        fields: Mapping[str, tuple[str, ...]] = {}
        read: tuple[str, ...] = ()
        if query.syntax is True:
            parsed = parse_query(query)
            conditions, fields = parsed.conditions or None, dict(parsed.where)
            read = parsed.warnings
            where = merge_where(query.where, fields) if fields else query.where
            query = attrs.evolve(query, text=parsed.text, where=where)
        query, filter_ = validate(query, self.lanes)
        assert isinstance(query.layer, Layer)  # validated
        if documents and query.keyword_boost:
            raise ValidationError(
                "keyword_boost reads the texts of hits, and a hit on a document has only its "
                "beginning: use it with search()"
            )
        target: Target = "document" if documents else "chunk"
        if query.layer is not Layer.DETAIL:
            target = "layer"
        dataset_ids = self._dataset_ids(query)
        configs = self._configs(dataset_ids)
        if query.scope is Scope.SINGLE:
            for dataset_id in dataset_ids:
                if dataset_id not in configs:
                    self._require(dataset_id)
        mode, datasets_of, lanes, warnings = self._chosen(query, target, configs)
        if query.fresh_only:
            filter_ = attrs.evolve(filter_, fresh=self._fresh(query.layer))
        reach = query.offset + query.top_k
        resolved = ResolvedQuery(
            text=query.text,
            dataset_ids=dataset_ids,
            datasets_of=datasets_of,
            embed_sig=self._models.embed_sig,
            mode=mode,
            layer=query.layer,
            top_k=reach,
            limit=over_fetch(reach) if mode == Mode.HYBRID else reach,
            offset=query.offset,
            per_document=query.per_document,
            threshold=query.threshold,
            min_scores=query.min_scores,
            keyword_boost=query.keyword_boost,
            filter=filter_.bounded(self._living.bound(dataset_ids)),
            lanes=lanes,
        )
        return SearchRequest(
            target=target,
            query=resolved,
            variants=(resolved,),
            warnings=(*read, *warnings),
            languages={name: config.language for name, config in configs.items()},
            conditions=conditions,
            fields=fields,
        )

    def _chosen(
        self, query: Query, target: Target, configs: Mapping[str, DatasetConfig]
    ) -> tuple[Mode | str, Mapping[str, tuple[str, ...]], tuple[str, ...] | None, Sequence[str]]:
        """What a search runs: its mode; for each lane of vectors the datasets that have vectors of
        its model; the lanes of a hybrid search, None for all; and what the caller should know.

        Raises:
            ModelMismatchError: one lane was asked for, and the vectors are of another model.
            NotAvailableError: likewise, and there are none.
        """
        lanes = self._vector_lanes
        datasets_of: dict[str, tuple[str, ...]] = {}
        idle: list[str] = []
        has_models = False
        for lane in lanes:
            if lane.of_layers or target != "layer":
                serves, has_models = lane.space.serves, has_models or lane.model is not None
                ours = tuple([name for name, config in configs.items() if serves(config)])
                datasets_of[lane.name] = ours
            # A lane without a model says so where somebody asks for it.
            if not datasets_of.get(lane.name) and (query.mode is None or lane.model is not None):
                idle.append(lane.name)
        mode = query.mode or (Mode.HYBRID if has_models else Mode.BM25)
        having = len([*filter(None, datasets_of.values())])
        warnings: list[str] = []
        for lane in lanes:
            if mode in (Mode.HYBRID, lane.name) and lane.name in self.lanes and lane.sig:
                if lane.name in datasets_of:
                    searched = datasets_of[lane.name]
                    others = having > bool(searched)
                    left = "by the other lanes only" if others else "by keyword only"
                    warnings += _problems(lane, configs, mode, left)
                    if searched and target != "layer":
                        warnings += _pending(lane, self._waiting(searched, lane), mode, left)
                elif mode == lane.name:
                    raise NotAvailableError(
                        f"layers have no {lane.vectors}: search them by keyword or by vector, or "
                        f"search chunks in the mode {lane.name}"
                    )
        runs = None
        if mode == Mode.HYBRID and len(idle) == len(lanes):
            mode = Mode.BM25
        elif mode == Mode.HYBRID and not set(idle).isdisjoint(self.lanes):
            runs = tuple(each for each in self.lanes if each not in idle)
        return mode, datasets_of, runs, warnings

    def _waiting(self, dataset_ids: Sequence[str], lane: Lane[Any]) -> int:
        return self._living.count_waiting(self._chunks, dataset_ids, lane.space)

    def existing_datasets(self, query: Query) -> tuple[str, ...]:
        """Return the datasets that a validated query names.

        Raises:
            NotFoundError: one does not exist.
        """
        dataset_ids = self._dataset_ids(query)
        if query.scope is Scope.SINGLE:
            for dataset_id in dataset_ids:
                self._require(dataset_id)
        return dataset_ids

    def _dataset_ids(self, query: Query) -> tuple[str, ...]:
        if query.scope is Scope.ALL:
            return tuple(self._living.stored.list_datasets())
        return tuple(query.dataset_ids) or (query.dataset_id,)

    def _configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """The configurations of those datasets that have one."""
        if len(dataset_ids) != 1:
            return self._chunks.configs(dataset_ids)
        config = self._chunks.config(dataset_ids[0])
        return {} if config is None else {dataset_ids[0]: config}

    def _require(self, dataset_id: str) -> None:
        datasets = self._living.stored.list_datasets()
        if dataset_id not in datasets:
            raise missing_dataset(dataset_id, datasets)

    def _fresh(self, layer: Layer) -> DerivedSig:
        """What a lane leaves out as stale."""
        chunker_sig = self._models.chunker_sig if layer is Layer.DETAIL else ""
        return DerivedSig(chunker_sig=chunker_sig, embed_sig=self._models.embed_sig)


def _problems(
    lane: Lane[Any], configs: Mapping[str, DatasetConfig], mode: Mode | str, left: str
) -> Iterator[str]:
    """Warnings of datasets whose vectors are of another model, and of those without any; ``left``
    says how they are searched.

    Raises:
        ModelMismatchError, NotAvailableError: the first of them, if only this lane was asked for.
    """
    others: list[tuple[str, str]] = []
    without: list[str] = []
    for name, config in configs.items():
        sig = config.sigs[lane.kind]
        if not sig:
            without.append(repr(name))
        elif sig != lane.sig:
            others.append((name, sig))
    if others:
        named = "; ".join(f"{name!r} of {sig!r}" for name, sig in others)
        message = (
            f"the {lane.vectors} are of another model than {lane.sig!r} ({named}): {CHANGE_MODEL}"
        )
        if mode == lane.name:
            raise ModelMismatchError(message, stored=others[0][1], configured=lane.sig)
        yield f"searched {left}: {message}"
    if without:
        message = f"no {lane.vectors} yet: `triptych embed` adds them"
        if mode == lane.name:
            raise NotAvailableError(
                f"the dataset {', '.join(without)} has {message}; until then search it by keyword"
            )
        yield f"{', '.join(without)}: {message}"


def _pending(lane: Lane[Any], documents: int, mode: Mode | str, left: str) -> Sequence[str]:
    """The warning that documents lack vectors, some of theirs or all."""
    if not documents:
        return ()
    lack = "document lacks" if documents == 1 else "documents lack"
    found = "not found yet" if mode == lane.name else f"found {left}"
    return [
        f"{documents} {lack} {lane.vectors}: text without one is {found}; `triptych embed` adds "
        "them"
    ]
