"""The cache against a search without one, under writes of several services and processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import triptych
from support import cache_script
from triptych import Result, Service
from triptych.errors import ConflictError, NotFoundError

QUESTIONS = ("kettle lid", "lid of a kettle", "steam", "tea water", "water for tea")
TEXTS = ("The kettle lid.", "Steam and steam.", "Tea water, warm.", "Nothing of it.", "")
NAMES = ("a.md", "b.md", "c.md")
FAR = datetime(2999, 1, 1, tzinfo=UTC)

Write = Callable[[Service], object]


def _put(name: str, text: str) -> Write:
    return lambda kb: kb.put_document("d", name, text)


def _later(name: str, text: str) -> Write:
    return lambda kb: kb.put_document("d", name, text, embed="later")


def _tag(name: str, value: int) -> Write:
    return lambda kb: kb.put_document("d", name, TEXTS[value], {"value": value})


def _layer(name: str, text: str) -> Write:
    def put(kb: Service) -> None:
        version = kb.get_document("d", name).version
        kb.put_document_layer("d", name, "L0", text, prompt_sig="p", source_version=version)

    return put


names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)
writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(_put, names, texts),
    st.builds(_later, names, texts),
    st.builds(_tag, names, st.integers(0, 2)),
    st.builds(lambda name: lambda kb: kb.delete_document("d", name), names),
    st.builds(_layer, names, st.sampled_from(TEXTS[:3])),
    st.just(lambda kb: kb.embed_pending("d")),
    st.just(lambda kb: kb.rebuild(dataset_id="d")),
    st.just(lambda kb: kb.put_document("e", "e.md", "The kettle of e.")),
    st.just(lambda kb: kb.put_document("d", "a.md", "Kettle.", expires_at=FAR)),
    st.just(lambda kb: kb.delete_dataset("e")),
    st.just(lambda kb: kb.configure_dataset("e", language="german")),
)
searches = st.fixed_dictionaries(
    {"question": st.sampled_from(QUESTIONS)},
    optional={
        "where": st.sampled_from([{"value": 1}, {"doc_name": "a.md"}]),
        "layer": st.sampled_from(["L0", "L2"]),
        "mode": st.sampled_from(["vector", "hybrid", "bm25"]),
        "top_k": st.sampled_from([1, 10]),
        "everywhere": st.just(True),
    },
)
steps = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(writes, searches, searches, searches)),
    min_size=3,
    max_size=25,
)


def _asked(kb: Service, search: dict[str, Any]) -> Result | str:
    fields = {**search}
    question = fields.pop("question")
    where = {"scope": "all"} if fields.pop("everywhere", False) else {"dataset_id": "d"}
    try:
        return kb.search(question, **where, **fields)
    except NotFoundError as error:
        return str(error)


def _bare(result: Result | str) -> object:
    if isinstance(result, str):
        return result
    return attrs.evolve(result, cache_similarity=None, warnings=())


@pytest.mark.property
@pytest.mark.parametrize("scheme", ["sqlite", "files"])
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps)
def test_an_answer_is_always_that_of_a_search_now(
    tmp_path_factory: pytest.TempPathFactory, scheme: str, steps: list[tuple[int, Any]]
) -> None:
    path = tmp_path_factory.mktemp("kb")
    url = str(path / "kb.db") if scheme == "sqlite" else f"files://{path / 'kb'}"
    cached: dict[str, Any] = {"embedder": "hash", "semantic_cache": {"threshold": 0.999}}
    with (
        triptych.open(url, **cached) as one,
        triptych.open(url, **cached) as two,
        triptych.open(url, embedder="hash") as plain,
    ):
        one.put_document("d", "a.md", TEXTS[0])
        for which, step in steps:
            kb = (one, two)[which]
            if callable(step):
                try:
                    step(kb)
                except (NotFoundError, ConflictError):
                    continue
            else:
                found = _asked(kb, step)
                again = _asked(plain, step)
                question = step["question"]
                if isinstance(found, Result) and found.cache_similarity is not None:
                    # Another wording may have been asked: its answer as of now.
                    wordings = [_bare(_asked(plain, {**step, "question": q})) for q in QUESTIONS]
                    assert _bare(found) in [_terms_of(each, found) for each in wordings], question
                else:
                    assert _bare(found) == _bare(again)
                kb.cache_stats()  # what was answered is kept before the next step


def _terms_of(result: object, like: Result) -> object:
    """``result`` with the terms of another wording, which alone differ between cached answers."""
    if not isinstance(result, Result) or not like.hits:
        return result
    terms = like.hits[0].terms
    return attrs.evolve(result, hits=tuple(attrs.evolve(hit, terms=terms) for hit in result.hits))


def _two_processes(url: str, rounds: int) -> None:
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "base.md", "# Base\n\nSteam, and a kettle.\n")
    children = [
        subprocess.Popen(
            [sys.executable, cache_script.__file__, url, name, str(rounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one.md", "two.md")
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        for child in children:
            out, _ = child.communicate(timeout=600)
            assert child.returncode == 0
            report = json.loads(out)
            assert report["wrong"] == []
            assert report["cached"] > 0
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.process
@pytest.mark.parametrize("scheme", ["sqlite", "files"])
def test_two_processes_never_see_an_old_answer(tmp_path: Path, scheme: str) -> None:
    _two_processes(
        str(tmp_path / "kb.db") if scheme == "sqlite" else f"files://{tmp_path / 'kb'}", 150
    )


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(900)
def test_two_processes_never_see_an_old_answer_for_long(tmp_path: Path) -> None:
    _two_processes(str(tmp_path / "kb.db"), 3000)
