"""Resolving a query: the datasets, mode and vectors to search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from triptych.contracts import ChunkRepo, DocLevelSearcher
from triptych.contracts.rules import CHANGE_EMBEDDER, missing_dataset
from triptych.derivation.deriver import Deriver
from triptych.derivation.living_documents import LivingDocuments, count_waiting
from triptych.errors import ModelMismatchError, NotAvailableError, TriptychError, ValidationError
from triptych.records import (
    Candidate,
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
from triptych.records.spaces import dense, sparse
from triptych.search.engine import Target
from triptych.search.query import over_fetch, resolve_mode, validate
from triptych.search.retrievers import SPARSE
from triptych.search.syntax import TextConditions, merge_where, parse_query
from triptych.text import CorpusStats, get_analyzer

if TYPE_CHECKING:
    from triptych.derivation.layers import Inputs

VECTOR = str(Mode.VECTOR)


@attrs.frozen(kw_only=True)
class SearchRequest:
    """One query on its way through the pipeline. Each stage makes another of it.

    Attributes:
        target: what is searched.
        query: the query as it was asked, resolved.
        variants: what the lanes are asked, one for each wording of the query.
        warnings: what the caller should know.
        languages: the analyzer's language of each dataset.
        spaces: the embedding space that each dataset is configured for.
        inputs: what the layers of a dataset are made from, by dataset; filled when needed.
        terms: the query's terms by language; filled when needed.
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
    spaces: Mapping[str, str] = attrs.field(factory=dict)
    inputs: dict[str, Inputs] = attrs.field(factory=dict)
    terms: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    conditions: TextConditions | None = None
    fields: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    vectors: dict[tuple[EmbedKind, str], Vector] = attrs.field(factory=dict)
    usage: tuple[ModelUsage, ...] = ()

    def terms_in(self, dataset_id: str) -> tuple[str, ...]:
        """Return the query's terms in the language of a dataset."""
        language = self.language_of(dataset_id)
        if language not in self.terms:
            self.terms[language] = tuple(get_analyzer(language).analyze_query(self.query.text))
        return self.terms[language]

    def language_of(self, dataset_id: str) -> str:
        """Return the language in which a dataset is analysed."""
        return self.languages.get(dataset_id, "english")


def query_stats(
    statistics: DocLevelSearcher, dataset_ids: Sequence[str], language: str, text: str
) -> CorpusStats:
    """The statistics of a query's terms, each with all that it stands for (`Analyzer.variants`)."""
    variants = get_analyzer(language).variants(text)
    every = list(set().union(*variants.values()))
    return statistics.corpus_stats(dataset_ids, every).pooled(variants)


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


@attrs.frozen
class Problem:
    """What a lane lacks: a warning, or the error of a search by that lane only."""

    warning: str
    error: TriptychError


@attrs.frozen(eq=False)
class RequestResolver:
    """Validates queries, and finds the datasets and the mode that each means."""

    _living: LivingDocuments
    _chunks: ChunkRepo
    _derivation: Deriver
    lanes: Sequence[str]

    def lanes_of(self, mode: Mode | str | None) -> tuple[str, ...]:
        """Return the lanes that a search for chunks in ``mode`` runs, if no dataset lacks one."""
        embeds = self._derivation.embedder is not None
        has_models = embeds or SPARSE in self.lanes
        mode = resolve_mode(mode, has_embedder=has_models, lanes=self.lanes)
        if mode != Mode.HYBRID:
            return (str(mode),)
        return tuple(lane for lane in self.lanes if lane != VECTOR or embeds)

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
        fields: dict[str, tuple[str, ...]] = {}
        misread: tuple[str, ...] = ()
        if query.syntax is True:
            parsed = parse_query(query)
            misread = parsed.warnings
            conditions, fields = parsed.conditions or None, dict(parsed.where)
            where = merge_where(query.where, fields) if fields else query.where
            query = attrs.evolve(query, text=parsed.text, where=where)
        query, filter_ = validate(query, self.lanes)
        assert isinstance(query.layer, Layer)  # validated
        assert not isinstance(query.as_of, str)
        if documents and query.keyword_boost:
            raise ValidationError(
                "keyword_boost reads the texts of hits, and a hit on a document has only its "
                "beginning: use it with search()"
            )
        searched = documents or query.layer is Layer.DETAIL
        encoder = self._derivation.sparse_sig if SPARSE in self.lanes else ""
        dataset_ids = self._dataset_ids(query)
        configs = self._configs(dataset_ids)
        spaces = {name: config.embed_sig for name, config in configs.items() if config is not None}
        derivation = self._derivation_for(spaces.values())
        embedder, embed_sig = derivation.embedder, derivation.embed_sig
        has_models = embedder is not None or (encoder != "" and searched)
        mode = resolve_mode(query.mode, has_embedder=has_models, lanes=self.lanes)
        tree = self._living.narrow(dataset_ids, filter_.tree)
        filter_ = attrs.evolve(filter_, tree=tree)
        if query.scope is Scope.SINGLE:
            for dataset_id, config in configs.items():
                if config is None:
                    self._require(dataset_id)
        in_space = [
            name for name, config in configs.items() if config and config.embed_sig == embed_sig
        ]
        warnings: tuple[str, ...] = ()
        # What a hybrid search leaves out: it is asked for in vain, or only by default.
        without_lanes = {VECTOR} if embedder is None and query.mode is None else set()
        in_sparse: list[str] = []
        if encoder and mode in (Mode.HYBRID, SPARSE):
            if not searched and mode == SPARSE:
                raise NotAvailableError(
                    "layers have no sparse vectors: search them by keyword or by vector, or "
                    "search chunks in the mode sparse"
                )
            if searched:
                in_sparse, warnings = self._sparse(mode, encoder, configs)
            if not in_sparse:
                without_lanes.add(SPARSE)
        if embedder is not None and mode in (Mode.HYBRID, Mode.VECTOR):
            others = [
                (name, config.embed_sig)
                for name, config in configs.items()
                if config and config.embed_sig not in ("", embed_sig)
            ]
            without = [name for name, config in configs.items() if config and not config.embed_sig]
            problems = [_other_model(embed_sig, others, bool(in_sparse))] if others else []
            problems += [_no_vectors(without)] if without else []
            if problems and mode == Mode.VECTOR:
                raise problems[0].error
            warnings += tuple(each.warning for each in problems)
            if problems and not in_space:
                without_lanes.add(VECTOR)
        if mode == Mode.HYBRID and VECTOR in without_lanes and not in_sparse:
            mode = Mode.BM25
        by_vector = mode in (Mode.HYBRID, Mode.VECTOR) and VECTOR not in without_lanes
        if searched and in_space and embedder is not None and by_vector:
            pending = count_waiting(
                self._living.stored, self._chunks, in_space, dense(embed_sig), self._living.moment
            )
            warnings += (_pending(mode, pending),) if pending else ()
        if query.fresh_only:
            filter_ = attrs.evolve(filter_, fresh=self._fresh(query.layer, spaces.values()))
        reach = query.offset + query.top_k
        resolved = ResolvedQuery(
            text=query.text,
            dataset_ids=dataset_ids,
            vector_dataset_ids=tuple(in_space) if embedder else (),
            embed_sig=embed_sig,
            mode=mode,
            layer=query.layer,
            top_k=reach,
            limit=over_fetch(reach) if mode == Mode.HYBRID else reach,
            offset=query.offset,
            per_document=query.per_document,
            as_of=query.as_of,
            threshold=query.threshold,
            min_scores=query.min_scores,
            keyword_boost=query.keyword_boost,
            filter=filter_,
            lanes=(
                tuple(lane for lane in self.lanes if lane not in without_lanes)
                if without_lanes and mode == Mode.HYBRID
                else None
            ),
            sparse_dataset_ids=tuple(in_sparse),
            sparse_sig=encoder,
        )
        if documents:
            target: Target = "document"
        else:
            target = "chunk" if query.layer is Layer.DETAIL else "layer"
        return SearchRequest(
            target=target,
            query=resolved,
            variants=(resolved,),
            warnings=misread + warnings,
            languages={name: c.language for name, c in configs.items() if c is not None},
            spaces=spaces,
            conditions=conditions,
            fields=fields,
        )

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

    def _sparse(
        self, mode: Mode | str, encoder: str, configs: Mapping[str, DatasetConfig | None]
    ) -> tuple[list[str], tuple[str, ...]]:
        """The datasets whose sparse vectors are of the encoder, and what the caller should know.

        Raises:
            ModelMismatchError: only the sparse lane was asked for, and they are of another encoder.
            NotAvailableError: likewise, and there are none.
        """
        found = {name: config.sparse_sig for name, config in configs.items() if config is not None}
        ours = [name for name, sig in found.items() if sig == encoder]
        others = [(name, sig) for name, sig in found.items() if sig not in ("", encoder)]
        without = [name for name, sig in found.items() if not sig]
        problems = [_other_encoder(encoder, others)] if others else []
        problems += [_no_sparse_vectors(without)] if without else []
        if problems and mode == SPARSE:
            raise problems[0].error
        warnings = tuple(each.warning for each in problems)
        if ours:
            pending = count_waiting(
                self._living.stored, self._chunks, ours, sparse(encoder), self._living.moment
            )
            warnings += (_sparse_pending(pending),) if pending else ()
        return ours, warnings

    def _dataset_ids(self, query: Query) -> tuple[str, ...]:
        if query.scope is Scope.ALL:
            return tuple(self._living.stored.list_datasets())
        return tuple(query.dataset_ids) or (query.dataset_id,)

    def _configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig | None]:
        if len(dataset_ids) == 1:
            return {dataset_id: self._chunks.config(dataset_id) for dataset_id in dataset_ids}
        found = self._chunks.configs(dataset_ids)
        return {dataset_id: found.get(dataset_id) for dataset_id in dataset_ids}

    def _require(self, dataset_id: str) -> None:
        datasets = self._living.stored.list_datasets()
        if dataset_id not in datasets:
            raise missing_dataset(dataset_id, datasets)

    def has_moved(self, request: SearchRequest) -> bool:
        """Return whether a dataset was swapped to the other embedder since: its vectors are found
        by neither query."""
        query = request.query
        if self._derivation.next is None or not query.vector_dataset_ids:
            return False
        configs = self._configs(query.vector_dataset_ids).values()
        return any(each is not None and each.embed_sig != query.embed_sig for each in configs)

    def _derivation_for(self, spaces: Collection[str]) -> Deriver:
        """The pipeline of the embedder that most of the datasets have vectors of."""
        first, other = self._derivation, self._derivation.next
        if other is None:
            return first
        ours = sum(space == first.embed_sig for space in spaces)
        return other if sum(space == other.embed_sig for space in spaces) > ours else first

    def _fresh(self, layer: Layer, spaces: Collection[str]) -> DerivedSig:
        """What a lane leaves out as stale; of datasets with different embedders, the hydrator."""
        chunker_sig = self._derivation.chunker_sig if layer is Layer.DETAIL else ""
        used = {self._derivation.of_space(space).embed_sig for space in spaces}
        embed_sig = used.pop() if len(used) == 1 else "" if used else self._derivation.embed_sig
        return DerivedSig(chunker_sig=chunker_sig, embed_sig=embed_sig)


def _sparse_pending(documents: int) -> str:
    """The warning that the sparse lane does not find all documents yet."""
    have, find = ("document has", "it") if documents == 1 else ("documents have", "them")
    return (
        f"{documents} {have} no sparse vectors yet, and the sparse lane does not find {find}: "
        f"`triptych embed` adds them"
    )


def _other_encoder(signature: str, others: Sequence[tuple[str, str]]) -> Problem:
    """Some datasets have sparse vectors of another encoder."""
    stored = "; ".join(f"{name!r} of {sig!r}" for name, sig in others)
    message = (
        f"the sparse vectors are of another encoder than {signature!r} ({stored}): rebuild the "
        "dataset with this one, or open the store with the one it was filled with"
    )
    error = ModelMismatchError(message, stored=others[0][1], configured=signature)
    return Problem(f"searched without the sparse lane: {message}", error)


def _no_sparse_vectors(datasets: Sequence[str]) -> Problem:
    """Some datasets have no sparse vectors at all."""
    which = ", ".join(map(repr, datasets))
    message = f"the dataset {which} has no sparse vectors yet: `triptych embed` adds them"
    return Problem(message, NotAvailableError(f"{message}; until then search it in another mode"))


def _pending(mode: str, documents: int) -> str:
    """The warning that documents lack vectors, some of theirs or all."""
    lack = "document lacks" if documents == 1 else "documents lack"
    found = "not found yet" if mode == Mode.VECTOR else "found by keyword only"
    return f"{documents} {lack} vectors: text without one is {found}; `triptych embed` adds them"


def _other_model(signature: str, others: Sequence[tuple[str, str]], has_sparse: bool) -> Problem:
    """Some datasets have vectors of another model."""
    stored = "; ".join(f"{name!r} of {sig!r}" for name, sig in others)
    message = f"the vectors are of another model than {signature!r} ({stored}): {CHANGE_EMBEDDER}"
    error = ModelMismatchError(message, stored=others[0][1], configured=signature)
    left = "without vectors" if has_sparse else "by keyword only"
    return Problem(f"searched {left}: {message}", error)


def _no_vectors(datasets: Sequence[str]) -> Problem:
    """Some datasets have no vectors at all."""
    which, embed = ", ".join(map(repr, datasets)), "no vectors yet: `triptych embed` adds them"
    error = f"the dataset {which} has {embed}; until then search it by keyword"
    return Problem(f"{which}: {embed}", NotAvailableError(error))
