"""Each method of a restricted Service answers as over a store that holds nothing else.

The cases are those of every method: one that has none fails the last test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

import triptych
from support.access_pair import Pair
from support.rows import each_row
from triptych import Dataset
from triptych.answers import Citation
from triptych.records import Query
from triptych.records.serialization import to_json
from triptych.service import Effect, Service
from triptych.service.operations import operations_of
from triptych_testing.fakes import ScriptedLLM

Call = Callable[[Service], Any]

LATER = (
    "anchor rope",
    "zebra",
    "tide twice a day",
    "the",
    "nothing of the kind",
    "4711",
    "zebrra anchro",
    "plain nobodi",
)


def searches(call: Callable[[Service, Any], Any]) -> list[Call]:
    """A search for each question, wherever it may look."""
    places: list[dict[str, Any]] = [
        {"dataset_id": "kb"},
        {"scope": "all"},
        {"dataset_id": "zoo"},
        {"dataset_id": "none"},
        {"dataset_ids": ["kb", "zoo"]},
    ]
    return [
        lambda s, t=text, w=where: call(s, Query(text=t, **w)) for text in LATER for where in places
    ]


def search_cases() -> list[Call]:
    found = searches(lambda s, q: s.search(q))
    for more in (
        {"mode": "bm25"},
        {"mode": "vector"},
        {"mode": "sparse"},
        {"layer": "L0"},
        {"layer": "L1"},
        {"layer": "L0", "mode": "bm25"},
        {"top_k": 1},
        {"top_k": 2, "offset": 1},
        {"where": {"year": 2024}},
        {"where": {"team": "theirs"}},
        {"where": {"zebras": 3}},
        {"where": {"zebra": 3}},
        {"where": {"year": "2024"}},
        {"where": {"$not": {"team": "ours"}}},
        {"where": {"doc_name": "zebra.md"}},
        {"where": {"heading": "Zebra"}},
        {"fresh_only": True},
        {"keyword_boost": 0.2},
        {"per_document": 1},
        {"syntax": True},
        {"as_of": 1},
        {"as_of": 2},
        {"as_of": 2, "layer": "L0"},
        {"threshold": 0.01},
    ):
        for text in ("anchor rope", "zebra"):
            found.append(lambda s, t=text, m=more: s.search(t, dataset_id="kb", **m))
    for text in ("zeb*", '"zebra code"', "-zebra anchor", "team:theirs anchor", "sort:x anchor"):
        found.append(lambda s, t=text: s.search(t, dataset_id="kb", syntax=True))
    found.append(lambda s: s.search("", dataset_id="kb", where={"$name": {"$exists": True}}))
    found.append(lambda s: s.search("", dataset_id="kb", where={"team": "theirs"}))
    found.append(lambda s: s.search("", dataset_id="kb", layer="L0", where={"$name": {"$ne": ""}}))
    return found


def cite(name: str, text: str, version: int = 2) -> Citation:
    return Citation(
        dataset_id="kb", doc_name=name, version=version, start=0, end=len(text), text=text,
    )  # fmt: skip


def refused(call: Call) -> Call:
    """The error of ``call``, which must have one."""

    def run(service: Service) -> Any:
        with pytest.raises(triptych.TriptychError) as error:
            call(service)
        return type(error.value).__name__, str(error.value)

    return run


NAMES = ("tide.md", "zebra.md", "guide/secret.md", "untagged.md", "none.md")
PLACES = [("kb", name) for name in NAMES] + [("zoo", "animals.md"), ("none", "none.md")]

READS: Mapping[str, list[Call]] = {
    "get_document": [lambda s, p=p: s.get_document(*p) for p in PLACES]
    + [lambda s, p=p: s.get_document(*p, version=1) for p in PLACES],
    "list_documents": [
        lambda s: s.list_documents("kb"),
        lambda s: s.list_documents("kb", prefix="guide/"),
        lambda s: s.list_documents("kb", prefix="z"),
        lambda s: s.list_documents("kb", limit=2),
        lambda s: s.list_documents("kb", sort="-$version", after="zebra.md"),
        lambda s: s.list_documents("kb", sort="team", limit=1),
        lambda s: s.list_documents("kb", where={"team": "theirs"}),
        lambda s: s.list_documents("zoo"),
        lambda s: s.list_documents("none"),
    ],
    "count_documents": [
        lambda s: s.count_documents("kb"),
        lambda s: s.count_documents("kb", where={"$not": {"team": "ours"}}),
        lambda s: s.count_documents("zoo"),
    ],
    "history": [lambda s, p=p: s.history(*p) for p in PLACES],
    "diff": [lambda s, p=p: s.diff(*p, 1) for p in PLACES],
    "list_datasets": [lambda s: s.list_datasets()],
    "search": search_cases(),
    "search_documents": searches(lambda s, q: s.search_documents(q)),
    "search_many": [
        lambda s: s.search_many(LATER, dataset_id="kb"),
        lambda s: s.search_many(LATER, scope="all", mode="bm25"),
    ],
    "explain": [
        lambda s, n=n, m=m: s.explain("anchor rope zebra", n, dataset_id="kb", **m)
        for n in NAMES
        for m in ({}, {"mode": "bm25", "top_k": 1}, {"layer": "L0"}, {"as_of": 1})
    ]
    + [lambda s: s.explain("zebra", "animals.md", dataset_id="zoo")]
    + [lambda s, n=n: s.explain("zebra", n, scope="all") for n in NAMES],
    "similar": [
        lambda s, p=p, m=m: s.similar(*p, **m)
        for p in PLACES
        for m in ({}, {"chunk": 0}, {"top_k": 1}, {"where": {"team": "theirs"}})
    ],
    "context": [
        *searches(lambda s, q: context_of(s, q)),
        lambda s: context_of(s, Query(text="anchor", dataset_id="kb", as_of=2)),
    ],
    "context_prefix": [
        *(
            lambda s, d=d, n=n: s.context_prefix(n, dataset_id=d, format="json")
            for d in ("kb", "zoo", "none")
            for n in (80, 400)
        ),
        lambda s: s.context_prefix(400, scope="all", fence=True),
        lambda s: s.context_prefix(400, dataset_id="kb", where={"team": "theirs"}),
        lambda s: s.context_prefix(400, dataset_id="kb", fresh_only=True),
        lambda s: s.context_prefix(400, dataset_id="kb", as_of=2),
    ],
    "verify": [
        lambda s, n=n, t=t: s.verify(cite(n, t))
        for n, t in (
            ("tide.md", "# Tide"),
            ("zebra.md", "# Zebra"),
            ("zebra.md", "no such text"),
            ("none.md", "# Zebra"),
        )
    ],
    "ask": [
        lambda s: s.ask("anchor rope", dataset_id="kb", llm=ScriptedLLM("Drop it [1].")).text,
        lambda s: s.ask("anchor rope", scope="all", llm=ScriptedLLM("Drop it [1].")).citations,
        lambda s: s.ask("zebra", dataset_id="zoo", llm=ScriptedLLM("It is [1].")),
    ],
    "ask_stream": [
        lambda s: "".join(s.ask_stream("rope", dataset_id="kb", llm=ScriptedLLM("Yes [1]."))),
    ],
    "layer": [lambda s, p=p: s.layer(*p, "L0") for p in (*PLACES, ("kb", "guide/"))],
    "dataset_layer": [lambda s, d=d: s.dataset_layer(d, "L0") for d in ("kb", "zoo", "none")],
    "layers": [lambda s, d=d: s.layers(d) for d in ("kb", "zoo", "none")],
    "stats": [
        lambda s: s.stats(),
        lambda s: s.stats("kb"),
        lambda s: s.stats("zoo"),
        lambda s: s.stats("none"),
    ],
    "health": [lambda s: looked_at(s.health()), lambda s: looked_at(s.health(probe=False))],
    "doctor": [
        lambda s: doctored(s.doctor()),
        lambda s: doctored(s.doctor(dataset_id="kb")),
        lambda s: s.doctor(dataset_id="zoo"),
    ],
}
"""What reads, as each caller may ask it."""

ELSEWHERE = {
    "replay": "test_leaks.py",
    "changes": "test_changes.py",
    "follow": "test_changes.py",
    "cache_stats": "test_leaks.py",
    "pipeline": "test_leaks.py",
    "restricted": "test_restricted.py",
    "dataset": "every method of Dataset is one of these",
    "close": "test_restricted.py",
}
"""What reads and has its cases in another place."""


def context_of(service: Service, query: Query) -> Any:
    pack = service.context(query, 400, counter=len, prefix_tokens=200)
    receipt = pack.receipt
    return (
        pack.render(),
        pack.prefix,
        pack.pieces,
        pack.warnings,
        receipt.considered,
        receipt.pieces,
    )


def looked_at(health: Any) -> Any:
    """The checks but for the store's own, of its files and its index."""
    own = [each for each in health.checks if each.name in ("store", "index")]
    return own[:1], [each for each in health.checks if each not in own]


def doctored(report: Any) -> Any:
    return report.findings, report.checked, report.actions


def answer(service: Service, call: Call) -> Any:
    """What a call answers, without times and what differs between two stores anyway."""
    try:
        found = call(service)
    except triptych.TriptychError as error:
        return type(error).__name__, str(error), error.hint
    return plain(found)


def same(found: Any, wanted: Any) -> None:
    """Fail where two texts differ, with where they do."""
    if found != wanted:
        found, wanted = str(found), str(wanted)
        at = next((i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), 0)
        start = max(at - 200, 0)
        pytest.fail(f"…{found[start : at + 200]}…\n\nis not\n\n…{wanted[start : at + 200]}…")


def plain(found: Any) -> Any:
    text = repr(found) if not hasattr(found, "hits") else repr((found.hits, found))
    with suppress(TypeError):  # not all that is answered has a form in JSON
        text += repr(to_json(found))
    text = re.sub(r"datetime\.datetime\([^)]*\)|\d{4}-\d\d-\d\dT[\d:.+]+Z?", "TIME", text)
    return re.sub(r"(size|database_id)=\d+", "SIZE", text) if "StoredSpace" in text else text


@each_row("name", READS)
def test_under_a_filter_it_answers_as_if_there_was_nothing_else(name: str, by_filter: Pair) -> None:
    for call in READS[name]:
        same(answer(by_filter.ours, call), answer(by_filter.twin, call))


@pytest.mark.parametrize("name", READS)
def test_of_some_datasets_it_answers_as_if_there_were_no_others(
    name: str, by_dataset: Pair
) -> None:
    if name == "doctor":
        pytest.skip("the store's own checks are left out: see test_leaks.py")
    for call in READS[name]:
        same(answer(by_dataset.ours, call), answer(by_dataset.twin, call))


def public(kind: type) -> set[str]:
    return {
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    }


def test_every_public_method_of_a_service_is_listed_and_has_a_case() -> None:
    decided = operations_of(Service)
    others = {"close", "dataset", "pipeline", "restricted"}
    assert {*decided, *others} == public(Service)
    reads = {name for name, each in decided.items() if each.effect is Effect.READS}
    assert set(READS) | set(ELSEWHERE) == reads | others | {"doctor"}


def test_every_method_of_a_view_is_one_of_the_service() -> None:
    short = {
        "create": "create_dataset", "put": "put_document", "put_many": "put_documents",
        "get": "get_document", "list": "list_documents", "count": "count_documents",
        "delete": "delete_document", "delete_many": "delete_documents",
        "put_layer": "put_document_layer",
    }  # fmt: skip
    for name in public(Dataset):
        assert short.get(name, name) in public(Service), name
