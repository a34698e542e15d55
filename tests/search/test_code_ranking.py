"""`CodeRanking`: hits in source code in an order of their own, and no other hit moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.servers import served
from triptych import Hit, KnowledgeBase
from triptych.chunking import CODE_ENDINGS, is_code
from triptych.contracts import HitReader
from triptych.records import DerivedSig, Layer, Mode, NewDocument, ResolvedQuery
from triptych.search import CodeRanking, Pipeline, traced
from triptych_parsers.languages import ENDINGS

POOL = 50
Pair = tuple[KnowledgeBase, KnowledgeBase]
READER: Any = None  # the step reads nothing but the hits


def resolved(text: str) -> ResolvedQuery:
    return ResolvedQuery(
        text=text, dataset_ids=("d",), mode=Mode.BM25, layer=Layer.DETAIL, top_k=10, limit=30
    )


def hit(name: str, content: str = "x", score: float = 1.0, **more: Any) -> Hit:
    given = {"dataset_id": "d", "layer": Layer.DETAIL, "sig": DerivedSig(), **more}
    return Hit(doc_name=name, content=content, score=score, **given)


def ranked(text: str, *hits: Hit) -> list[str]:
    return [each.doc_name for each in CodeRanking()(resolved(text), hits, READER)]


def test_tests_and_examples_come_last_unless_the_question_asks_for_them() -> None:
    hits = [hit("tests/test_router.py", score=1.0), hit("src/mux.go", score=0.9)]
    hits += [hit("mux_test.go", score=0.8), hit("app.spec.ts", score=0.7)]
    hits += [hit("src/MuxTest.java", score=0.6), hit("latest/contest.py", score=0.5)]
    # "latest" and "contest" only end like one.
    assert ranked("serve a request", *hits)[:2] == ["src/mux.go", "latest/contest.py"]
    for asks in ("a unit test", "an example", "exampleServer", "what does the SPEC say"):
        assert ranked(asks, *hits)[0] == "tests/test_router.py", asks


def test_several_chunks_lift_the_best_of_their_file_and_the_others_fall_behind() -> None:
    several = [hit("a.py", score=1.0 - at / 100, chunk_index=at) for at in range(4)]
    others = [hit("b.py", score=0.97), hit("c.py", score=0.96)]
    found = sorted([*several, *others], key=lambda each: -each.score)
    assert ranked("parse", *found) == ["a.py", "b.py", "c.py", "a.py", "a.py", "a.py"]
    two = [hit("many.py", score=0.9, chunk_index=at) for at in (0, 1)]
    assert ranked("parse", hit("single.py", score=1.0), *two)[0] == "many.py"


def test_chunks_of_one_definition_fall_behind_those_of_another() -> None:
    long = [hit("a.py", score=1.0, heading_path=("long",), chunk_index=at) for at in range(2)]
    other = hit("a.py", score=0.8, heading_path=("other",), chunk_index=2)
    order = CodeRanking()(resolved("parse"), [*long, other], READER)
    assert [each.chunk_index for each in order] == [0, 2, 1]


def test_words_of_the_question_in_folder_and_file_count() -> None:
    hits = [hit("core/engine.py", score=1.0), hit("routing/path_parser.py", score=0.8)]
    assert ranked("routing by a path parser", *hits)[0] == "routing/path_parser.py"
    found = CodeRanking()(resolved("routing by a path parser"), hits, READER)
    assert [each.scores["code"] for each in found] == [1.5, 1.0]


@pytest.mark.parametrize(
    ("question", "definition", "path"),
    [
        ("Engine", "type Engine struct {", ()),
        ("gin.Engine", "func (e *Other) Engine() {", ()),
        ("Rack::Engine", "class Rack::Engine < Base", ()),
        ("Engine()", "the constructor", ("Engine",)),
        ("Engine", "impl", ("impl Debug for Engine",)),
        ("run", "def run(self):", ("Engine.run",)),
    ],
)
def test_the_definition_of_a_name_comes_before_its_uses(
    question: str, definition: str, path: tuple[str, ...]
) -> None:
    use = hit("a.py", "engine = Engine(); Engine.run(); EngineError", score=1.0)
    hits = [use, hit("b.py", definition, score=0.8, heading_path=path)]
    assert ranked(question, *hits) == ["b.py", "a.py"]
    assert ranked(f"what does {question} do", *hits) == ["a.py", "b.py"]


def test_a_text_with_the_words_in_a_row_comes_first() -> None:
    words = hit("a.py", "kettle too is boil hot the that", score=1.0)
    row = hit("b.py", 'raise BoilError("the kettle is too hot")', score=0.8)
    assert ranked("BoilError: the kettle is too hot for tea", words, row) == ["b.py", "a.py"]
    assert ranked("kettle hot", words, row) == ["a.py", "b.py"]  # two are no row


def test_a_hit_is_code_by_its_kind_or_else_by_its_name() -> None:
    given = [("a.py", {}), ("src/a.RS", {}), ("Makefile", {"kind": "code"})]
    given += [("a.py", {"kind": "text"}), ("a.md", {}), ("py", {}), ("a.py/readme", {})]
    assert [is_code(name, metadata) for name, metadata in given] == [True] * 3 + [False] * 4
    assert CODE_ENDINGS.issuperset(ENDINGS)


def test_only_the_first_fifty_hits_are_ranked() -> None:
    hits = [hit(f"tests/{at}.py", score=100.0 - at) for at in range(POOL)]
    later = [hit("src/a.py", score=50.0)]
    assert ranked("parse", *hits, *later)[-1] == "src/a.py"
    assert ranked("parse", *hits[1:], *later)[0] == "src/a.py"


def test_scores_of_lanes_and_of_fusion_are_made_comparable() -> None:
    # The worst hit keeps a quarter, so that what is known of code still counts.
    assert ranked("engine", hit("tests/a.py", score=1.0), hit("engine.py", score=0.01)) == [
        "engine.py",
        "tests/a.py",
    ]
    # Cosines lie close to each other: a quarter less is much.
    close = [hit("a.py", score=1.0), hit("engine.py", score=0.75)]
    assert ranked("engine", *close) == ["engine.py", "a.py"]
    query = attrs.evolve(resolved("engine"), mode=Mode.VECTOR)
    assert [each.doc_name for each in CodeRanking()(query, close, READER)] == ["a.py", "engine.py"]


def test_scores_stay_with_the_places_and_say_what_was_counted() -> None:
    hits = [hit("test_a.py", score=0.9), hit("a.md", score=0.7), hit("b.py", score=0.6)]
    found = CodeRanking()(resolved("parse"), hits, READER)
    assert [(each.doc_name, each.score) for each in found] == [
        ("b.py", 0.9),
        ("a.md", 0.7),
        ("test_a.py", 0.6),
    ]
    assert found[0].scores == {"fused": 0.6, "code": 1.0}
    assert found[2].scores == {"fused": 0.9, "code": 0.3}
    assert found[1] is hits[1]


NAMES = ("a.py", "tests/b.go", "c.md", "lib/d.rs", "notes.txt", "e_test.py", "cut.html")
HITS = st.lists(
    st.builds(
        hit,
        st.sampled_from(NAMES),
        st.sampled_from(("def run(): pass", "run the engine now", "", "engine")),
        st.floats(-2, 50, allow_nan=False),
        chunk_index=st.integers(0, 5),
        heading_path=st.sampled_from(((), ("run",), ("Engine", "run"))),
        layer=st.sampled_from((Layer.DETAIL, Layer.DETAIL, Layer.ABSTRACT, None)),
        metadata=st.sampled_from(({}, {"kind": "text"}, {"kind": "code"})),
    ),
    max_size=70,
).map(lambda hits: sorted(hits, key=lambda each: -each.score))
TEXTS = st.sampled_from(("run", "run the engine now", "a test of it", "路由", "(", "")) | st.text()


@given(HITS, TEXTS)
@settings(max_examples=examples(400), deadline=None)
def test_hits_that_are_not_code_keep_their_places_and_no_hit_is_lost(
    hits: Sequence[Hit], text: str
) -> None:
    found = CodeRanking()(resolved(text), hits, READER)
    assert [each.score for each in found] == [each.score for each in hits]
    for at, (old, new) in enumerate(zip(hits, found, strict=True)):
        code = old.layer is Layer.DETAIL and is_code(old.doc_name, old.metadata)
        if not code or at >= POOL:
            assert new is old
    # Apart from its scores, each hit is what it was.
    plain = [attrs.evolve(each, score=0, scores={}) for each in (*hits, *found)]
    half = len(hits)
    assert Counter(map(repr, plain[:half])) == Counter(map(repr, plain[half:]))
    assert list(CodeRanking()(resolved(text), hits, READER)) == list(found)


CODE = {f"src/part{at:02}.py": f"def serve(request):\n    request({at})\n" for at in range(40)}
TESTS = {f"tests/test_{at:02}.py": f"def test_request():\n    request({at})\n" for at in range(30)}
ONLY_TESTS = {"$name": {"$gte": "tests/", "$lt": "tests0"}}
PROSE = {f"note{at:02}.md": f"# Note {at}\n\nA request and a serve.\n" for at in range(12)}


def fill(kb: KnowledgeBase) -> None:
    kb.put_documents("code", {**CODE, **TESTS})
    kb.put_documents("prose", PROSE)
    kb.put_documents("mixed", {**CODE, **TESTS, **PROSE})


@pytest.fixture(params=["memory", "sqlite", "files"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """The same documents, without and with the ranking."""
    urls = {"memory": "memory://", "sqlite": "{}.db", "files": "files:///{}"}
    url = urls[request.param]
    with (
        triptych.open(url.format(tmp_path / "a"), embedder="hash", code_ranking=False) as plain,
        triptych.open(url.format(tmp_path / "b"), embedder="hash") as kb,
    ):
        fill(plain)
        fill(kb)
        yield plain, kb


@pytest.mark.parametrize("mode", ["bm25", "vector", "hybrid"])
def test_only_code_changes_and_is_found_further_down(pair: Pair, mode: str) -> None:
    plain, kb = pair
    same: dict[str, Any] = {"mode": mode, "top_k": 10}
    assert kb.search("a request", dataset_id="prose", **same) == plain.search(
        "a request", dataset_id="prose", **same
    )
    before = plain.search("a request", dataset_id="mixed", **same).hits
    after = kb.search("a request", dataset_id="mixed", **same).hits
    for old, new in zip(before, after, strict=True):
        assert new == old if old.doc_name.endswith(".md") else not new.doc_name.endswith(".md")
    code = kb.search("a request", dataset_id="code", **same)
    assert all(each.doc_name.startswith("src/") for each in code)


@pytest.mark.parametrize("mode", ["bm25", "hybrid"])
def test_pages_fit_together_and_filters_hold(pair: Pair, mode: str) -> None:
    _, kb = pair
    asked: dict[str, Any] = {"dataset_id": "mixed", "mode": mode}
    whole = kb.search("request", top_k=20, **asked).hits
    pages = [kb.search("request", top_k=5, offset=at, **asked).hits for at in (0, 5, 10, 15)]
    assert [each for page in pages for each in page] == list(whole)
    tests = kb.search("request", top_k=5, where=ONLY_TESTS, **asked)
    assert len(tests) == 5
    assert all(each.doc_name.startswith("tests/") for each in tests)
    least = kb.search("request", top_k=10, **asked)[4].score
    shown = kb.search("request", top_k=10, threshold=least, **asked).hits
    assert shown
    assert all(each.scores.get("fused", each.score) >= least for each in shown)


def test_it_is_off_by_one_option_and_a_pipeline_may_ask_for_it() -> None:
    pipelines = [Pipeline(name="code", postprocessors=[CodeRanking()])]
    with triptych.open("memory://", embedder=None, code_ranking=False, pipelines=pipelines) as kb:
        fill(kb)
        plain = kb.search("request", dataset_id="code", top_k=3)
        assert not plain[0].doc_name.startswith("src/")
        assert "code" not in plain[0].scores
        own = kb.pipeline("code").search("request", dataset_id="code", top_k=3)
        assert own[0].doc_name.startswith("src/")
        assert own[0].scores["code"] == 1.0


def test_steps_of_ones_own_come_after_it() -> None:
    class Seen:
        hits: Sequence[Hit] = ()

        def depth(self, query: ResolvedQuery) -> int:
            return query.top_k

        def __call__(
            self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
        ) -> Sequence[Hit]:
            self.hits = hits
            return hits

    seen = Seen()
    with triptych.open("memory://", embedder=None, postprocessors=[seen]) as kb:
        fill(kb)
        found = kb.search("request", dataset_id="code", top_k=3)
    assert list(seen.hits[:3]) == list(found)
    assert len(seen.hits) == POOL


def test_explain_says_what_was_counted_and_the_trace_has_the_step(
    pair: Pair,
) -> None:
    _, kb = pair
    asked: dict[str, Any] = {"dataset_id": "code", "mode": "bm25", "top_k": 3}
    with traced() as stages:
        first = kb.search("request", **asked)[0]
    assert [each.name for each in stages if each.kind == "step"] == ["CodeRanking"]
    told = kb.explain("request", first.doc_name, **asked)
    assert (told.rank, told.as_code) == (1, ())
    told = kb.explain("request", "tests/test_00.py", **asked)
    assert told.rank is None
    assert told.as_code == ("a test or an example (×0.30)",)
    (obstacle,) = told.obstacles
    assert obstacle.message.startswith("the step CodeRanking makes it number ")
    with traced() as stages:
        kb.search("request", dataset_id="prose", top_k=3)
    assert [len(each.ranking) for each in stages if each.kind == "reading"] == [3]
    assert all(each.name != "CodeRanking" for each in stages)


def test_what_a_parser_calls_code_is_ranked_whatever_its_name_is() -> None:
    with triptych.open("memory://", embedder=None) as kb:
        documents = [
            NewDocument(name=name, content="request a page", metadata={"kind": kind})
            for name, kind in (("test", "code"), ("z", "code"), ("test.py", "text"))
        ]
        kb.put_documents("d", documents)
        names = [each.doc_name for each in kb.search("request", dataset_id="d")]
    assert names == ["z", "test.py", "test"]


def test_a_server_ranks_and_explains_as_the_store_does() -> None:
    with triptych.open("memory://", embedder="hash") as local:
        fill(local)
        with served(local) as url, triptych.open(url) as remote:
            asked: dict[str, Any] = {"dataset_id": "mixed", "top_k": 5}
            assert remote.search("request", **asked) == local.search("request", **asked)
            here = local.explain("request", "tests/test_00.py", **asked)
            assert here.as_code
            assert remote.explain("request", "tests/test_00.py", **asked) == here
