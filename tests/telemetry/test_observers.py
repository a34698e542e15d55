"""What the core tells an observer: operations, their parts, and nothing that was not to be told."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import triptych
from triptych import Service, telemetry
from triptych.records import Generation, Message, Prices, Usage
from triptych.telemetry import Observation, Operation

SECRET = "Zanzibar"


class Recorder:
    """Every operation that ended, with the one that it is a part of."""

    def __init__(self) -> None:
        self.ended: list[Operation] = []
        self.inside: dict[int, str] = {}
        self.open: list[Operation] = []

    def begin(self, operation: Operation) -> Observation:
        self.inside[id(operation)] = self.open[-1].name if self.open else ""
        return _Recorded(self, operation)

    def named(self, name: str) -> list[Operation]:
        return [each for each in self.ended if each.name == name]

    def one(self, name: str) -> Operation:
        (found,) = self.named(name)
        return found


class _Recorded(Observation):
    def __init__(self, recorder: Recorder, operation: Operation) -> None:
        self.recorder = recorder
        self.operation = operation

    def enter(self) -> None:
        self.recorder.open.append(self.operation)

    def leave(self) -> None:
        self.recorder.open.remove(self.operation)

    def end(self) -> None:
        self.recorder.ended.append(self.operation)


class Writer:
    """A language model that cites its first source."""

    signature = "writer/1"

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        return Generation("Tea is hot [1].", usage=Usage(input_tokens=70, output_tokens=5))

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        yield "Tea is "
        yield "hot [1]."


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    stop = telemetry.observe(made)
    yield made
    stop()


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash", llm=Writer()) as service:
        service.put_document(SECRET, f"{SECRET}.md", f"# Tea\n\nTea is hot in {SECRET}.\n")
        yield service


def test_a_search_has_its_lanes_its_embedding_and_its_stages(
    kb: Service, recorder: Recorder
) -> None:
    kb.search(f"tea {SECRET}", dataset_id=SECRET)
    search = recorder.one("search")
    assert search.attributes == {"target": "chunk", "mode": "hybrid", "hits": 1}
    assert search.stages.keys() == {"retrieve", "fuse", "hydrate", "postprocess"}
    assert 0 < sum(search.stages.values()) - search.stages["fuse"] <= search.seconds
    lanes = recorder.named("lane")
    assert {each.attributes["lane"] for each in lanes} == {"bm25", "vector"}
    assert {each.attributes["candidates"] for each in lanes} == {1}
    embed = recorder.one("embed")
    assert (embed.attributes["kind"], embed.attributes["texts"]) == ("query", 1)
    # A handful: a span costs 11 µs.
    assert len(recorder.ended) == 4


def test_an_operation_that_nobody_observes_has_all_attributes_and_keeps_nothing() -> None:
    with telemetry.operation("search", target="chunk") as made:
        made.note(hits=1)
    assert (made.name, made.seconds, made.error, made.stages, made.carrier) == (
        "",
        0.0,
        None,
        {},
        {},
    )
    assert made.attributes == {}


def test_a_part_adds_to_its_operation_and_is_not_timed(recorder: Recorder) -> None:
    with telemetry.operation("search", target="chunk"), telemetry.operation("search") as part:
        part.note(hits=2)
    assert recorder.one("search").attributes == {"target": "chunk", "hits": 2}
    assert (part.name, part.seconds) == ("search", 0.0)


def test_a_put_says_what_it_derived_and_an_unchanged_one_derives_nothing(
    kb: Service, recorder: Recorder
) -> None:
    kb.put_document("d", "a.md", "Tea.")
    kb.put_document("d", "a.md", "Tea.")
    kb.put_documents("d", {"b.md": "Milk.", "c.md": "Sugar."})
    puts = [each.attributes for each in recorder.named("put")]
    assert puts[0] == {"documents": 1, "chunks": 1}
    assert puts[1] == {"documents": 1, "chunks": 0}
    assert puts[2] == {"bulk": True, "documents": 2, "failed": 0, "chunks": 2}
    assert sum(int(each.attributes["texts"]) for each in recorder.named("embed")) == 3
    kb.delete_document("d", "a.md")
    kb.delete_documents("d", names=["b.md", "c.md"])
    kb.rebuild(dataset_id="d")
    assert [each.attributes["documents"] for each in recorder.named("delete")] == [1, 2]
    assert recorder.one("rebuild").attributes == {"documents": 0, "failed": 0}


@pytest.mark.parametrize("streamed", [False, True])
def test_a_question_is_one_operation_of_a_search_a_context_and_a_call(
    kb: Service, recorder: Recorder, streamed: bool
) -> None:
    prices = Prices(input=1.0, output=2.0)
    if streamed:
        with kb.ask_stream("Is tea hot?", dataset_id=SECRET, prices=prices) as stream:
            answer = ("".join(stream), stream.answer)[1]
    else:
        answer = kb.ask("Is tea hot?", dataset_id=SECRET, prices=prices)
    call, ask = recorder.one("generate"), recorder.one("ask")
    assert call.attributes["input_tokens"] == answer.usage.input_tokens > 0
    assert call.attributes["output_tokens"] == answer.usage.output_tokens > 0
    assert call.attributes["cost"] == answer.cost
    assert recorder.inside[id(call)] == "ask"
    assert recorder.inside[id(recorder.one("context"))] == "ask"
    assert recorder.inside[id(recorder.one("search"))] == "context"
    assert recorder.ended[-1] is ask
    assert not recorder.open


def test_a_stream_that_is_closed_early_ends_its_operations_without_an_error(
    kb: Service, recorder: Recorder
) -> None:
    stream = kb.ask_stream("Is tea hot?", dataset_id=SECRET)
    next(stream)
    stream.close()
    assert recorder.one("ask").error is None
    assert recorder.one("generate").error is None
    assert not recorder.open


def test_an_error_is_that_of_the_operation(kb: Service, recorder: Recorder) -> None:
    with pytest.raises(triptych.NotFoundError):
        kb.search("tea", dataset_id="none")
    assert isinstance(recorder.one("search").error, triptych.NotFoundError)


def test_a_cached_answer_is_a_hit_and_one_search(recorder: Recorder) -> None:
    with triptych.open("memory://", embedder="hash", semantic_cache=True) as kb:
        kb.put_document("d", "a.md", "Tea is hot.")
        kb.search("tea", dataset_id="d")
        kb.cache_stats()  # waits until it is kept
        kb.search("tea", dataset_id="d")
    first, second = (each.attributes for each in recorder.named("search"))
    assert (first["cache_misses"], first["hits"]) == (1, 1)
    assert (second["cache_hits"], second["hits"], second["mode"]) == (1, 1, "hybrid")


def test_no_text_and_no_name_is_told(kb: Service, recorder: Recorder) -> None:
    kb.search(SECRET, dataset_id=SECRET)
    kb.ask(SECRET, dataset_id=SECRET)
    kb.put_document(SECRET, SECRET, SECRET)
    kb.rebuild(dataset_id=SECRET)
    said = repr([(each.name, each.attributes, each.stages) for each in recorder.ended])
    assert len(recorder.ended) > 10
    assert SECRET.lower() not in said.lower()


def test_an_observer_that_fails_is_logged_and_stops_nothing(
    kb: Service, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Observation):
        def begin(self, operation: Operation) -> Observation:
            return self

        def end(self) -> None:
            raise RuntimeError("no room")

    stop = telemetry.observe(Broken())
    try:
        assert kb.search("tea", dataset_id=SECRET).hits
    finally:
        stop()
    assert {each.message for each in caplog.records} == {"an observer failed"}
    assert caplog.records[0].levelno == logging.ERROR


def test_nothing_is_made_while_nobody_observes(
    kb: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(*given: Any) -> None:
        raise AssertionError("an operation was made")

    monkeypatch.setattr(Operation, "__init__", made)
    assert kb.search("tea", dataset_id=SECRET).hits
    assert not telemetry.is_observed()
