"""A ranker that was better on held-out questions is kept for its dataset, and searches use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import triptych
from support.valves import NOTES, OTHERS, valve_questions
from triptych import Service
from triptych._internal.progress import Progress, ProgressCallback
from triptych.access import Access
from triptych.errors import (
    AccessDeniedError,
    ConflictError,
    NotAvailableError,
    StoreError,
    ValidationError,
)
from triptych.evaluation import Granularity, evaluate
from triptych.evaluation.collections import Collection
from triptych.evaluation.pipelines import service_pipeline
from triptych.evaluation.tuning import Tuning, default_grid, tune
from triptych.records import DatasetConfig, HealthCheck
from triptych.records.serialization import from_dict, to_dict
from triptych.search import Pipeline
from triptych.search.dataset_settings import forget_settings
from triptych.search.fusion import ZScoreRanker, chosen_ranker
from triptych.search.tuned import TunedRanking

ASK, NOTE = "valve above by", "above-by.md"
KEY = "tuned/valves"


def filled(url: str | Path = "memory://", **options: Any) -> Service:
    kb = triptych.open(url, **{"embedder": "hash", **options})
    kb.put_documents("valves", {**NOTES, **OTHERS})
    return kb


@pytest.fixture
def kb() -> Service:
    return filled()


def applied(
    kb: Service,
    grid: Mapping[str, Sequence[Any]] | None = None,
    questions: Collection | None = None,
    progress: ProgressCallback | None = None,
) -> Tuning:
    return tune(
        kb,
        questions or valve_questions(),
        grid or {"weights.vector": [2.0]},
        dataset_id="valves",
        pipeline=service_pipeline(kb),
        apply=True,
        progress=progress,
    )


def first(kb: Any, **options: Any) -> str:
    return kb.search(ASK, **{"dataset_id": "valves", **options}).hits[0].doc_name


def setting(kb: Service, key: str = KEY) -> str | None:
    assert kb.capabilities.settings is not None
    return kb.capabilities.settings.get_setting(key)


def evaluated(kb: Service) -> Mapping[str, Any]:
    found = evaluate(kb, valve_questions(2), dataset_id="valves", granularity=Granularity.CHUNK)
    return found.configuration


def check(kb: Service) -> HealthCheck | None:
    found = [each for each in kb.health(probe=False).checks if each.name == "search settings"]
    assert len(found) < 2
    return found[0] if found else None


def test_what_gained_is_kept_and_searches_use_it(kb: Service) -> None:
    assert first(kb) != NOTE
    assert default_grid(kb) == {"weights.vector": (0.25, 0.5, 1.0, 2.0, 3.0, 4.0)}
    made = applied(kb, default_grid(kb))
    assert (made.gained, made.applied, made.best) == (True, True, {"weights.vector": 2.0})
    assert first(kb) == NOTE
    assert evaluated(kb)["tuned"] == {"weights.vector": 2.0}
    assert kb.explain(ASK, NOTE, dataset_id="valves").rank == 1
    found = check(kb)
    assert found is not None
    assert found.status == "ok"
    assert "weights.vector=2.0, ndcg@10 0.0000 → 1.0000 (+1.0000 to +1.0000, p " in found.detail
    assert (
        f"on {len(made.held_out.query_ids)} questions; chosen by {made.tuned_on} " in found.detail
    )
    again = applied(kb)
    assert (again.best, again.applied) == ({}, False)
    assert again.held_out.modes["default"].estimates["ndcg@10"].mean == 1.0
    forget_settings(kb.capabilities.settings, "valves")
    assert first(kb) != NOTE
    assert check(kb) is None
    assert evaluated(kb)["tuned"] == {}


def test_only_hybrid_searches_of_that_one_dataset_are_ranked_by_it(kb: Service) -> None:
    kb.put_documents("others", {**NOTES, **OTHERS})
    asked: list[dict[str, Any]] = [
        {"mode": "bm25"},
        {"mode": "vector"},
        {"dataset_id": "others"},
        {"dataset_id": "", "dataset_ids": ["valves", "others"]},
        {"dataset_id": "", "scope": "all"},
    ]
    before = [kb.search(ASK, **{"dataset_id": "valves", **each}) for each in asked]
    whole = kb.search_documents(ASK, dataset_id="valves")
    applied(kb)
    assert [kb.search(ASK, **{"dataset_id": "valves", **each}) for each in asked] == before
    assert kb.search_documents(ASK, dataset_id="valves") == whole
    version = kb.get_document("valves", NOTE).version
    assert first(kb, as_of=version) == NOTE


def test_who_names_a_ranker_or_lanes_has_that_ranker() -> None:
    pipelines = [
        Pipeline(name="plain"),
        Pipeline(name="ranked", ranker=ZScoreRanker()),
        Pipeline(name="laned", lanes=["bm25"]),
    ]
    kb = filled(pipelines=pipelines)
    applied(kb)
    found = {each.name: first(kb.pipeline(each.name)) == NOTE for each in pipelines}
    assert found == {"plain": True, "ranked": False, "laned": False}


def test_a_choice_that_gains_nothing_is_not_kept(kb: Service) -> None:
    made = applied(kb, {"weights.bm25": [1, 2]})
    assert (made.gained, made.applied) == (False, False)
    assert setting(kb) is None


def test_what_cannot_be_kept_is_refused_before_it_is_measured(kb: Service) -> None:
    def unasked(progress: object) -> None:
        raise AssertionError("it was measured")

    for words, grid, questions in (
        ("an answer to 29 questions .* and 30 are needed", None, valve_questions(29)),
        ("use only ranker, depth", {"top_k": [1, 2]}, None),
        ("'weights.vektor': the lanes are bm25, vector", {"weights.vektor": [2]}, None),
    ):
        with pytest.raises(ValidationError, match=words):
            applied(kb, grid, questions, unasked)
    for name in list(NOTES)[:11]:
        kb.delete_document("valves", name)
    with pytest.raises(ValidationError, match="'valves' has an answer to 29 questions"):
        applied(kb, progress=unasked)
    with pytest.raises(ValidationError, match="leave out the pipeline"):
        tune(
            kb,
            valve_questions(),
            {"weights.vector": [2]},
            dataset_id="valves",
            pipeline=Pipeline(name="own", search={"top_k": 3}),
            apply=True,
        )
    plain = filled(embedder="none")
    with pytest.raises(NotAvailableError, match="is searched by keyword only"):
        applied(plain, {"weights.bm25": [2]})


def test_a_store_that_cannot_be_written_to_is_not_measured(tmp_path: Path) -> None:
    filled(tmp_path / "kb.db").close()
    kb = triptych.open(tmp_path / "kb.db", embedder="hash", read_only=True)
    with kb, pytest.raises(StoreError, match="read"):
        applied(kb, progress=lambda _: pytest.fail("it was measured"))


def test_what_others_change_meanwhile_is_theirs(kb: Service) -> None:
    settings = kb.capabilities.settings
    assert settings is not None

    def tuned(progress: object) -> None:
        settings.set_setting(KEY, "theirs", expected=settings.get_setting(KEY))

    with pytest.raises(ConflictError, match="measure again"):
        applied(kb, progress=tuned)
    assert setting(kb) == "theirs"
    forget_settings(settings, "valves")

    def configured(progress: Progress) -> None:
        if progress.phase == "best" and progress.done == progress.total:
            kb.configure_dataset("valves", language="german")

    with pytest.raises(ConflictError, match="the configuration of 'valves' were changed"):
        applied(kb, progress=configured)
    assert setting(kb) is None


def test_a_dataset_that_goes_takes_it_along(kb: Service) -> None:
    applied(kb)
    kb.delete_dataset("valves")
    assert setting(kb) is None


def test_what_was_measured_with_something_else_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with filled(path) as kb:
        plain = [hit.doc_name for hit in kb.search(ASK, dataset_id="valves")]
        applied(kb)
        text = setting(kb)
    assert text is not None
    with triptych.open(path, embedder="hash", ranker="rrf") as kb:
        found = kb.search(ASK, dataset_id="valves")
        assert any("another than was measured" in each for each in found.warnings)
        assert evaluated(kb)["tuned"] == {}
    with triptych.open(path, embedder="hash") as kb:
        settings = kb.capabilities.settings
        assert settings is not None
        for changed, words in (
            (text.replace('"embed_sig": "hash', '"embed_sig": "old'), "another than was measured"),
            (text.replace('"sparse_sig": ""', '"sparse_sig": "s"'), "another than was measured"),
            (text.replace("weights.vector", "weights.v").replace("2.0", '"x"'), ""),
            ("{", "cannot be read"),
            ("[]", "cannot be read"),
        ):
            assert changed != text
            settings.set_setting(KEY, changed, expected=settings.get_setting(KEY))
            result = kb.search(ASK, dataset_id="valves")
            (warning,) = (each for each in result.warnings if "search settings" in each)
            assert words in warning
            assert "`triptych eval tune --apply`" in warning
            assert [hit.doc_name for hit in result] == plain
            found = check(kb)
            assert found is not None
            assert found.status == "warning"


def test_whom_a_filter_shows_less_does_not_rank_by_it(kb: Service) -> None:
    applied(kb)
    named = kb.restricted(Access(dataset_ids=["valves"]))
    assert first(named) == NOTE
    assert check(named) is not None
    with pytest.raises(AccessDeniedError):
        applied(named)
    hidden = kb.restricted(Access(where={"doc_prefix": ""}))
    assert first(hidden) != NOTE
    assert check(hidden) is None
    with pytest.raises(NotAvailableError, match="keeps no settings"):
        applied(hidden)
    assert check(kb.restricted(Access(dataset_ids=["others"]))) is None


def test_a_cached_answer_is_of_the_ranker_of_now() -> None:
    kb = filled(semantic_cache=True)
    assert first(kb) == first(kb) != NOTE
    applied(kb)
    assert first(kb) == NOTE


GRIDS = st.fixed_dictionaries(
    {},
    optional={
        "ranker": st.sampled_from(["z-score", "rrf", "min-max"]),
        "weights.vector": st.floats(0, 100) | st.integers(0, 100),
        "weights.bm25": st.floats(0, 100),
    },
)


@given(GRIDS)
def test_any_choice_comes_back_from_the_store(choice: dict[str, Any]) -> None:
    config = DatasetConfig(chunker_sig="c", embed_sig="e")
    made = TunedRanking(choice=choice, summary="better", ranker="r", config=config)
    read = from_dict(TunedRanking, json.loads(json.dumps(to_dict(made))))
    assert read == made
    own = ZScoreRanker()
    assert chosen_ranker(read.choice, own) == chosen_ranker(choice, own)
