"""Pipelines that `triptych.toml` describes."""

from __future__ import annotations

from pathlib import Path

import pytest

import triptych
from support.rows import each_row
from support.trusted import write_trusted
from triptych import NotFoundError, Rerank, ValidationError
from triptych.search import (
    MMR,
    FragmentRewriter,
    HyDE,
    NearDuplicates,
    PerDocument,
    Pipeline,
    rewriters_of,
)
from triptych.search.fusion import RRFRanker, ZScoreRanker

FULL = """
llm = "ollama:llama3.2"

[pipelines.support]
description = "Questions of users"
datasets = ["faq", "manual"]
rewriters = ["fragments", { name = "hyde", documents = 3, varied = true }]
lanes = ["bm25", "vector"]
weights = { vector = 2.0 }
postprocessors = [
    { name = "rerank", model = "voyage:rerank-2.5", candidates = 40 },
    { name = "mmr", lambda = 0.7 },
    "near-duplicates",
    { name = "per-document", most = 2 },
]
top_k = 5
where = { lang = "en" }
token_budget = 3000
llm = "openai:gpt-4o-mini"
prompt = "Answer in one sentence."

[pipelines.plain]
ranker = "rrf"
mode = "hybrid"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOYAGE_API_KEY", "v")
    monkeypatch.setenv("OPENAI_API_KEY", "o")
    return tmp_path


def test_a_pipeline_is_what_its_table_says(folder: Path) -> None:
    write_trusted(folder, FULL)
    with triptych.open("memory://", embedder="hash") as kb:
        support, plain = kb.pipelines["support"], kb.pipelines["plain"]
        assert list(kb.pipelines) == ["support", "plain"]
        assert support.description == "Questions of users"
        assert support.datasets == ("faq", "manual")
        assert [type(each) for each in rewriters_of(support.rewriter)] == [FragmentRewriter, HyDE]
        assert support.lanes == ("bm25", "vector")
        assert support.ranker == ZScoreRanker(weights={"vector": 2.0})
        rerank, *others = support.postprocessors
        assert isinstance(rerank, Rerank)
        assert (rerank.candidates, rerank.reranker.signature) == (40, "voyage/rerank-2.5")
        assert others == [MMR(lambda_=0.7), NearDuplicates(), PerDocument(most=2)]
        assert support.search == {"top_k": 5, "where": {"lang": "en"}}
        assert support.token_budget == 3000
        assert support.llm is not None
        assert support.llm.signature == "openai/gpt-4o-mini"
        assert support.prompt == "Answer in one sentence."
        assert plain == Pipeline(name="plain", ranker=RRFRanker(), search={"mode": "hybrid"})
        assert kb.llm is not None
        assert kb.llm.signature == "ollama/llama3.2"


def test_a_pipeline_of_the_program_takes_the_place_of_the_files(folder: Path) -> None:
    write_trusted(folder, FULL)
    own = Pipeline(name="plain", token_budget=99)
    with triptych.open("memory://", embedder="hash", pipelines=[own]) as kb:
        assert kb.pipelines["plain"] is own
        assert "support" in kb.pipelines


@each_row(
    ("table", "said"),
    [
        ("rewriter = []", r"unknown key 'rewriter': did you mean 'rewriters'\?"),
        ('rewriters = "hyde"', "give a list"),
        ('rewriters = ["hide"]', r"no step called 'hide': did you mean 'hyde'\?"),
        ('rewriters = ["hyde"]', "'hyde' needs a language model"),
        ("rewriters = [5]", "give a name such as 'fragments'"),
        ("rewriters = [{ documents = 3 }]", "no step called None"),
        ('rewriters = [{ name = "fragments", most = 3 }]', "the unknown key 'most'"),
        ('rewriters = [{ name = "fragments", maximum = 0 }]', "the step 'fragments': maximum"),
        ('postprocessors = ["rerank"]', "needs a model, such as"),
        ('postprocessors = [{ name = "rerank", model = "none" }]', "which is unknown"),
        ('postprocessors = [{ name = "rerank", model = "acme:x" }]', "no reranker is called"),
        ('postprocessors = [{ name = "mmr", lambda = 7 }]', "the step 'mmr'"),
        ('postprocessors = [{ name = "mmr", lambda = "x" }]', "the step 'mmr'"),
        ('ranker = "best"', "no ranker is called 'best'"),
        ("weights = 5", "weights is a table"),
        ("weights = { bm25 = -1 }", "bm25"),
        ('lanes = ["sparks"]', "the lane 'sparks'"),
        ("lanes = [5]", "give names"),
        ("datasets = [5]", "give names"),
        ('datasets = "faq"', "give a list"),
        ("top_k = 0", "top_k"),
        ("token_budget = 0", "token_budget"),
        ('token_budget = "x"', "token_budget"),
        ('prompt = ""', "prompt"),
        ('llm = "acme:x"', "no language model is called"),
        ('dataset_id = "x"', "unknown key 'dataset_id'"),
        ('conversation = "x"', "unknown key 'conversation'"),
    ],
)
def test_a_mistake_is_named_with_its_pipeline(folder: Path, table: str, said: str) -> None:
    write_trusted(folder, f"[pipelines.support]\n{table}\n")
    with pytest.raises(ValidationError, match=said) as caught:
        triptych.open("memory://", embedder="hash")
    assert "'support'" in str(caught.value)


@pytest.mark.parametrize("line", ["pipelines = 5", "pipelines = { support = 5 }"])
def test_what_is_no_table_is_refused(folder: Path, line: str) -> None:
    write_trusted(folder, line)
    with pytest.raises(ValidationError, match=r"'pipelines' in .*give tables"):
        triptych.open("memory://", embedder="hash")


def test_no_variable_describes_pipelines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPTYCH_PIPELINES", "support")
    with triptych.open("memory://", embedder="hash") as kb:
        assert kb.pipelines == {}
        with pytest.raises(NotFoundError, match="there is none"):
            kb.pipeline("support")
