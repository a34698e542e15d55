"""Pipelines and lanes of a Service's own, as an access shows them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from support.access_pair import OURS, filled, names_nothing
from triptych.access import Access
from triptych.errors import NotFoundError
from triptych.records import Candidate, ResolvedQuery
from triptych.search import Pipeline
from triptych_testing.fakes import ScriptedLLM


def test_pipelines_are_those_of_the_callers_datasets() -> None:
    pipelines = [
        Pipeline(name="everything"),
        Pipeline(name="zoo", datasets=["zoo"]),
        Pipeline(name="both", datasets=["kb", "zoo"]),
        Pipeline(name="kb", datasets=["kb"]),
    ]
    with filled(pipelines=pipelines) as kb:
        ours = kb.restricted(Access(dataset_ids=["kb"], where=OURS))
        assert list(ours.pipelines) == ["everything", "kb"]
        with pytest.raises(NotFoundError) as error:
            ours.pipeline("both")
        names_nothing(error.value)
        assert [each.name for each in ours.options.pipelines] == ["everything", "kb"]
        for name in ours.pipelines:
            view = ours.pipeline(name)
            names_nothing(repr(view.search("zebra anchor").hits))
            names_nothing(view.context("zebra anchor", 300, counter=len).render())
            names_nothing([each.hits for each in view.search_many(["zebra", "anchor"])])
            names_nothing(view.ask("anchor", llm=ScriptedLLM("It is [1].")).text)


class Elsewhere:
    """A lane of another engine, which knows nothing of filters."""

    name = "elsewhere"
    signature = "elsewhere/1"

    def __init__(self) -> None:
        self.depths: list[int] = []

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        self.depths.append(query.limit)
        places = [("kb", "zebra.md"), ("kb", "guide/secret.md"), ("zoo", "animals.md")] * 20
        places += [("kb", "guide/rope.md"), ("kb", "tide.md")]
        return [
            Candidate(dataset_id=dataset_id, doc_name=name, index=0, score=100.0 - at)
            for at, (dataset_id, name) in enumerate(dict.fromkeys(places))
        ][: query.limit]


def test_a_lane_of_another_engine_is_looked_through() -> None:
    lane = Elsewhere()
    with filled(retrievers=[lane]) as kb:
        for access in (Access(where=OURS), Access(where=OURS, dataset_ids=["kb"])):
            ours = kb.restricted(access)
            assert "elsewhere" in ours.lanes
            found = ours.search("anything", scope="all", mode="elsewhere", top_k=2)
            assert [hit.doc_name for hit in found.hits] == ["guide/rope.md", "tide.md"]
            found = ours.search("anything", scope="all", mode="elsewhere", top_k=3)
            assert (len(found.hits), found.exhausted) == (2, True)
            names_nothing(repr(ours.search("anchor", scope="all").hits))
        assert max(lane.depths) > 3
