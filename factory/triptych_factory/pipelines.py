"""From the tables ``[pipelines.NAME]`` of a settings file to `Pipeline` records."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from triptych import search
from triptych._internal.wording import did_you_mean
from triptych.contracts import LLM, Embedder, Ranker, Reranker
from triptych.contracts.models import how_to_set
from triptych.errors import ValidationError
from triptych.records.queries import SearchOptions
from triptych.search.fusion import RANKERS, build_ranker
from triptych.search.pipeline_record import Pipeline
from triptych.service import Service
from triptych_factory.llms import settings_llm, settings_reranker
from triptych_factory.settings import Settings
from triptych_factory.tables import TABLE_KEYS, named_embedder, service_over

REWRITERS: Mapping[str, str] = {
    "fragments": "FragmentRewriter",
    "paraphrase": "ParaphraseRewriter",
    "hyde": "HyDE",
    "follow-up": "FollowUpRewriter",
}
"""The classes of `triptych.search` that a pipeline's ``rewriters`` name."""

POSTPROCESSORS: Mapping[str, str] = {
    "rerank": "Rerank",
    "mmr": "MMR",
    "near-duplicates": "NearDuplicates",
    "per-document": "PerDocument",
    "neighbours": "Neighbours",
    "parents": "Parents",
    "chunk-filter": "ChunkFilter",
}
"""The classes of `triptych.search` that a pipeline's ``postprocessors`` name."""

_NOT_A_DEFAULT = ("dataset_id", "dataset_ids", "scope", "conversation")
_SEARCH = tuple(key for key in SearchOptions.__annotations__ if key not in _NOT_A_DEFAULT)
_KEYS = (
    *("description", "datasets", "rewriters", "lanes", "weights", "ranker", "postprocessors"),
    *("token_budget", "llm", "prompt", *TABLE_KEYS, *_SEARCH),
)


class Models:
    """Makes the models that pipelines name, each once, and knows what it made."""

    def __init__(self, settings: Settings, llm: LLM | None) -> None:
        self.source = settings.sources.get("pipelines", "the settings")
        self._settings = settings
        self._llm = llm
        self._embedders: dict[str | None, Embedder | None] = {}
        self._services: list[Service] = []
        self._llms: dict[str, LLM | None] = {}
        self._rerankers: dict[tuple[str, str], Reranker | None] = {}

    @property
    def made(self) -> tuple[object, ...]:
        """The models that were made here, and the Services over tables."""
        models = (*self._llms.values(), *self._rerankers.values(), *self._embedders.values())
        return (*self._services, *models)

    def embedder(self, name: str | None) -> Embedder | None:
        """The embedder of this name; that of the settings for None."""
        if name not in self._embedders:
            self._embedders[name] = named_embedder(self._settings, name)
        return self._embedders[name]

    def take(self, service: Service) -> None:
        """Have ``service`` among what was made here."""
        self._services.append(service)

    def llm(self, name: str | None) -> LLM | None:
        """The language model of this name; None for the Service's."""
        if name is None:
            return self._llm
        if name not in self._llms:
            self._llms[name] = settings_llm(self._settings, name)
        return self._llms[name]

    def reranker(self, name: str, llm: LLM | None) -> Reranker | None:
        """The reranker of this name; "llm" asks ``llm``."""
        key = name, "" if llm is None else llm.signature
        if key not in self._rerankers:
            self._rerankers[key] = settings_reranker(self._settings, name, llm, "pipelines")
        return self._rerankers[key]


def build_pipelines(
    tables: Mapping[str, Mapping[str, Any]], models: Models
) -> tuple[Pipeline, ...]:
    """Return the pipelines that ``tables`` describe.

    Raises:
        ValidationError: a key or a value is wrong; the message names the file and the pipeline.
        NotAvailableError: a step needs what is not installed.
    """
    return tuple(
        _build(name, table, models, f"the pipeline {name!r} in {models.source}")
        for name, table in tables.items()
    )


def _build(name: str, table: Mapping[str, Any], models: Models, where: str) -> Pipeline:
    _check_keys(table, _KEYS, where)
    try:
        llm = models.llm(_text(table, "llm"))
        made = [
            _step(each, REWRITERS, models, llm, "rewriters") for each in _list(table, "rewriters")
        ]
        over = service_over(table, models.embedder, llm)
        if over is not None:
            models.take(over)
        return Pipeline(
            name=name,
            over=over,
            description=_text(table, "description") or "",
            datasets=[_name(each, "datasets") for each in _list(table, "datasets")]
            or ([] if over is None else over.list_datasets()),
            search={key: table[key] for key in _SEARCH if key in table},
            rewriter=made or None,
            lanes=[_name(each, "lanes") for each in _list(table, "lanes")],
            ranker=_ranker(table),
            postprocessors=[
                *([] if over is None else over.options.postprocessors),
                *(
                    _step(each, POSTPROCESSORS, models, llm, "postprocessors")
                    for each in _list(table, "postprocessors")
                ),
            ],
            token_budget=table.get("token_budget", 2000),
            llm=None if "llm" not in table else llm,
            prompt=_text(table, "prompt"),
        )
    except ValidationError as error:
        raise ValidationError(f"{where}: {error}") from error


def _ranker(table: Mapping[str, Any]) -> Ranker | None:
    weights = table.get("weights", {})
    if not isinstance(weights, Mapping):
        raise ValidationError(f"weights is a table such as {{ bm25 = 2.0 }}, not {weights!r:.60}")
    name = _text(table, "ranker")
    if name is None and not weights:
        return None
    return build_ranker(name or next(iter(RANKERS)), weights)


def _step(given: Any, known: Mapping[str, str], models: Models, llm: LLM | None, key: str) -> Any:
    """The step that ``given`` describes: a name, or a table of a name and the step's options."""
    if not isinstance(given, str | Mapping):
        raise ValidationError(
            f"{key} holds {given!r:.60}: give a name such as {next(iter(known))!r}, or a table "
            "with name and options"
        )
    options = {} if isinstance(given, str) else {**given}
    name = given if isinstance(given, str) else options.pop("name", None)
    if not isinstance(name, str) or name not in known:
        meant = did_you_mean(str(name), known, f"there are {', '.join(known)}")
        raise ValidationError(f"{key} has no step called {name!r}: {meant}")
    kind = getattr(search, known[name])
    taken = {each.rstrip("_"): each for each in inspect.signature(kind).parameters}
    arguments: dict[str, Any] = {}
    if taken.pop("reranker", None):
        model = options.pop("model", None)
        if not isinstance(model, str):
            raise ValidationError(
                f"the step {name!r} needs a model, such as model = 'voyage:rerank-2.5'"
            )
        arguments["reranker"] = models.reranker(model, llm)
        if arguments["reranker"] is None:
            raise ValidationError(f"the step {name!r} has the model {model!r}, which is unknown")
    if taken.pop("llm", None):
        if llm is None:
            raise ValidationError(
                f"the step {name!r} needs a language model: name one under llm here, or "
                f"{how_to_set('llm')}"
            )
        arguments["llm"] = llm
    _check_keys(options, taken, f"the step {name!r}")
    try:
        return kind(**arguments, **{taken[key]: value for key, value in options.items()})
    except (TypeError, ValueError) as error:
        raise ValidationError(f"the step {name!r}: {error}") from error


def _check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for key in table:
        if key not in known:
            meant = did_you_mean(key, known, f"known are {', '.join(known)}")
            raise ValidationError(f"{where} has the unknown key {key!r}: {meant}")


def _text(table: Mapping[str, Any], key: str) -> str | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ValidationError(f"{key} is {value!r:.60}: give a text that is not empty")
    return value


def _list(table: Mapping[str, Any], key: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise ValidationError(f"{key} is {value!r:.60}: give a list")
    return value


def _name(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise ValidationError(f"{key} holds {value!r:.60}: give names")
    return value
