"""The search bench: a query with all its settings in the URL, its hits, its lanes, and why."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, Final

import attrs

from triptych.errors import NotFoundError, StoreError, TriptychError
from triptych.question_log import unlogged
from triptych.records import DocumentInfo, Explanation, Hit, Layer, Mode, Query, Result
from triptych.search import ParsedQuery, parse_query, traced
from triptych.service import KnowledgeBase
from triptych_adapters import did_you_mean, only_fields
from triptych_adapters.tools import knowledge_tools
from triptych_adapters.wire import PIPELINE_ROUTES, ROUTES
from triptych_server.console.folders import offered
from triptych_server.console.gaps import is_logged
from triptych_server.console.golden import grades_of
from triptych_server.console.steps import table_of, ways
from triptych_server.console.visit import Visit, field_of, is_filtered_by, where_of, whole_of
from triptych_server.http.responses import note_failure

_DEPTH: Final = 10
_MOST: Final = 100
_FACETS: Final = 400
"""Documents of a dataset that are looked at for values to filter by, and for names."""
_NAMES: Final = 200
"""Names that complete what is typed below "Why not this document?"."""
_SHOWN_VALUES: Final = 8
_NEAR: Final = 2_000
"""Names that are looked at for one like a misspelt one."""
_SORTED: Final = 5_000
"""Documents of a dataset up to which they are sorted by time: that reads all of them."""


@attrs.frozen(kw_only=True)
class Bench:
    """What the bench searches for.

    ``known`` are all datasets, ``dataset_ids`` those that were chosen. As for the command, the text
    is read in the query language unless ``plain=1`` says that it is plain words.
    """

    text: str
    known: Sequence[str]
    dataset_ids: tuple[str, ...]
    options: Mapping[str, Any]
    pipeline: str = ""

    @classmethod
    def of(cls, visit: Visit, *, asks: bool = False) -> Bench:
        """The search that a URL describes; without datasets it is over all of them.

        A quote or a minus of a question is no operator, unless the URL says so.
        """
        known = list(visit.service.list_datasets())
        chosen = tuple(visit.several("d"))
        for each in chosen:
            if each not in known:
                raise NotFoundError(f"there is no dataset {each!r:.100}")
        options: dict[str, Any] = {"top_k": visit.number("k", _DEPTH, least=1, most=_MOST)}
        if offset := visit.number("from", 0, most=10_000):
            options["offset"] = offset
        if where := where_of(visit):
            options["where"] = where
        for name in ("mode", "layer", "as_of"):
            if value := visit.one(name):
                options[name] = value
        if visit.one("fresh_only"):
            options["fresh_only"] = True
        in_words = visit.one("plain") or (asks and not visit.one("syntax"))
        options["syntax"] = not in_words  # also where a pipeline has its own choice
        if (version := whole_of(str(options.get("as_of", "")))) is not None:
            options["as_of"] = version
        return cls(
            text=visit.one("q"),
            known=known,
            dataset_ids=chosen,
            options=options,
            pipeline=visit.one("pipeline"),
        )

    @property
    def places(self) -> dict[str, Any]:
        """Where to search, as the Service takes it."""
        if len(self.dataset_ids) == 1:
            return {"dataset_id": self.dataset_ids[0]}
        if self.dataset_ids:
            return {"dataset_ids": list(self.dataset_ids)}
        return {"scope": "all"}

    @property
    def uses_language(self) -> bool:
        """Whether plain words would search for something else."""
        if not self.options["syntax"]:
            return False
        try:
            parsed = parse_query(Query(text=self.text))
        except TriptychError:
            return True
        return parsed != ParsedQuery(text=" ".join(self.text.split()))

    @property
    def listed_by(self) -> dict[str, Any]:
        """The fields of a query without words, as the list of a dataset takes them."""
        fields = only_fields(self.text) if self.options["syntax"] else {}
        return {f"f.{key}": field_of(fields[key][0]) for key in fields if is_filtered_by(key)}

    def search(self, service: KnowledgeBase, **changes: Any) -> Result:
        """Search as the API does; ``changes`` replace options."""
        runs = service.pipeline(self.pipeline) if self.pipeline else service
        return runs.search(self.text, **self.places, **{**self.options, **changes})

    def explain(self, service: KnowledgeBase, name: str) -> Explanation:
        """Why a document is shown, or is not."""
        runs = service.pipeline(self.pipeline) if self.pipeline else service
        return runs.explain(self.text, name, **self.places, **self.options)

    def calls(self, service: KnowledgeBase, url: str, *, key: bool) -> dict[str, str]:
        """The same search in Python, on the command line, over HTTP and as an MCP call; with a
        ``key`` where the server asks for one. A command searches one dataset or all, and the tool
        takes fewer options: what cannot make the same search is left out."""
        arguments = {"query": self.text, **self.places, **self.options}
        named = ", ".join(f"{name}={value!r}" for name, value in list(arguments.items())[1:])
        runs = f"kb.pipeline({self.pipeline!r})" if self.pipeline else "kb"
        body = json.dumps(arguments, ensure_ascii=False)
        route = (PIPELINE_ROUTES if self.pipeline else ROUTES)["search"]
        path = route.url({"pipeline": self.pipeline})
        words = ["triptych", "search", *self._flags(), "--", self.text]
        header = ' -H "Authorization: Bearer $TRIPTYCH_API_KEY"' if key else ""
        calls = {
            "Python": f"{runs}.search({self.text!r}, {named})",
            "curl": f"curl -s {url}{path} -H 'Content-Type: application/json'{header} "
            f"-d {shlex.quote(body)}",
        }
        if len(self.dataset_ids) < 2:
            calls["Shell"] = shlex.join(words)
        (tool,) = (each for each in knowledge_tools(service) if each.name == "knowledge_search")
        if not self.uses_language:
            arguments.pop("syntax", None)
        if not self.pipeline and arguments.keys() <= tool.parameters["properties"].keys():
            call = {"name": tool.name, "arguments": arguments}
            calls["MCP"] = json.dumps(call, ensure_ascii=False, indent=1)
        return calls

    def _flags(self) -> list[str]:
        found = ["--dataset", *self.dataset_ids] if self.dataset_ids else []
        found += ["--pipeline", self.pipeline] if self.pipeline else []
        found += [] if self.options["syntax"] else ["--no-syntax"]
        for name, value in self.options.items():
            if name == "where":
                found += ["--where", json.dumps(value, ensure_ascii=False)]
            elif name == "fresh_only":
                found.append("--fresh-only")
            elif name != "syntax":
                found += [f"--{name.replace('_', '-')}", str(value)]
        return found


def bench(visit: Visit, *, asks: bool = False) -> dict[str, Any]:
    """The first page, the query and what it finds; ``asks`` says that it is for a model first."""
    service = visit.service
    asked = Bench.of(visit, asks=asks)
    known = asked.known
    listed = [
        info
        for each in asked.dataset_ids or known[:5]
        for info in service.list_documents(each, limit=_FACETS)
    ]
    made: dict[str, Any] = {
        "asked": asked,
        "asks": asks,
        "has_model": service.llm is not None,
        "answer": None,
        "unanswered": None,
        "modes": [str(Mode.HYBRID), *service.lanes],
        "layers": [str(layer) for layer in reversed(Layer)],
        "ways": ways(service),
        "facets": facets(listed),
        "names": list(dict.fromkeys(info.name for info in listed))[:_NAMES],
        "result": None,
        "lanes": {},
        "steps": None,
        "why": None,
        "unexplained": "",
        "failed": None,
        "empty": not known,
        **({} if known else offered(visit)),
        "recent": _recent(service, known) if not asked.text else [],
        "calls": {},
        "grades": {},
        "infos": {},
        "listed": False,
    }
    if asked.text:
        with unlogged() if visit.is_part or asks else nullcontext():  # `ask` logs it, or Enter will
            made |= _answer(visit, asked)
    return made


def _answer(visit: Visit, asked: Bench) -> dict[str, Any]:
    """What the query finds, and what else the visitor asks of it."""
    service = visit.service
    places = asked.dataset_ids or asked.known
    made: dict[str, Any] = {}
    try:
        grades = grades_of(visit, places, asked.text)
        made["grades"] = grades or {}
        # A URL alone keeps no question out of the log: it must be on a list that the visitor reads.
        made["listed"] = visit.one("listed") != "" and (
            grades is not None or is_logged(visit, asked.text, places)
        )
        with ExitStack() as around:
            if made["listed"]:
                around.enter_context(unlogged())
            stages = around.enter_context(traced()) if visit.one("steps") else None
            made["result"] = asked.search(service)
        made["infos"] = _infos(service, made["result"].hits)
        made["steps"] = None if stages is None else table_of(stages)
        if visit.one("lanes"):
            made["lanes"] = lanes(service, asked)
    except StoreError:
        raise
    except TriptychError as error:
        note_failure(visit.request.scope, error)
        made["failed"] = visit.message_of(error)
    else:
        if name := visit.one("why"):
            try:
                made["why"] = asked.explain(service, name)
            except TriptychError as error:
                near = did_you_mean(service, places, name, most=_NEAR)
                made["unexplained"] = f"{error}{near}"
        url = f"{visit.request.url.scheme}://{visit.request.url.netloc}{visit.root}"
        made["calls"] = asked.calls(service, url, key=visit.server.authenticate is not None)
    return made


def _infos(service: KnowledgeBase, hits: Sequence[Hit]) -> dict[tuple[str, str], DocumentInfo]:
    """The documents of hits, by dataset and name; those of whole folders have none."""
    names: dict[str, set[str]] = {}
    for hit in hits:
        names.setdefault(hit.dataset_id, set()).add(hit.doc_name)
    return {
        (dataset_id, info.name): info
        for dataset_id, those in names.items()
        for info in service.list_documents(dataset_id, where={"$name": {"$in": sorted(those)}})
    }


@unlogged()
def lanes(service: KnowledgeBase, asked: Bench) -> dict[str, Result | TriptychError]:
    """What each lane finds alone, beside what fusion made of them."""
    found: dict[str, Result | TriptychError] = {}
    for lane in service.lanes:
        try:
            found[lane] = asked.search(service, mode=lane)
        except TriptychError as error:
            found[lane] = error
    return found


def facets(infos: Sequence[DocumentInfo]) -> dict[str, list[tuple[Any, int]]]:
    """Metadata that documents have, with their most frequent values: what can be clicked."""
    counts: dict[str, Counter[tuple[type, Any]]] = {}
    for info in infos:
        for key, value in info.metadata.items():
            values = value if isinstance(value, list | tuple) else [value]
            if is_filtered_by(key):
                # In Python True equals 1, so the type is a part of the key.
                counts.setdefault(key, Counter()).update(
                    (type(each), each) for each in values if isinstance(each, str | int | float)
                )
    return {
        key: [(value, count) for (_, value), count in found.most_common(_SHOWN_VALUES)]
        for key, found in sorted(counts.items())
        if found and max(found.values()) > 1
    }


def _recent(service: KnowledgeBase, known: Sequence[str]) -> list[DocumentInfo]:
    """The documents that changed last, of the first datasets; of large ones the first by name."""
    found = [
        info
        for dataset_id in known[:10]
        for info in service.list_documents(
            dataset_id,
            sort="-$updated_at" if service.count_documents(dataset_id) <= _SORTED else "$name",
            limit=8,
        )
    ]
    return sorted(found, key=lambda each: each.updated_at, reverse=True)[:8]
