"""How often answers cite each document, counted beside the log of questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import triptych
from triptych import Service, ServiceOptions
from triptych.access import Access
from triptych.errors import StoreError, ValidationError
from triptych.question_log import MOST_CITED, QuestionLog, unlogged
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import FakeLLM

QUESTION = "how long does green tea steep"


def model() -> FakeLLM:
    return FakeLLM(lambda prompt, text: "Three minutes [1][1]. Hot [1] [2].")


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(
        tmp_path / "kb.db", embedder="hash", llm=model(), question_log=True
    ) as opened:
        opened.put_document("docs", "tea.md", "Green tea steeps for three minutes. How long?")
        opened.put_document("docs", "secretname.md", "Green tea is steeped hot.")
        yield opened


def counts(kb: Service) -> dict[str, int]:
    return {
        f"{each.dataset_id}/{each.name}": each.times
        for each in QuestionLog(kb.capabilities.settings).cited()
    }


def test_an_answer_counts_once_for_each_document_that_it_cites(kb: Service) -> None:
    answer = kb.ask(QUESTION, dataset_id="docs")
    names = {each.citation.doc_name for each in answer.citations}
    assert names == {"tea.md", "secretname.md"}
    assert counts(kb) == {f"docs/{name}": 1 for name in names}
    with kb.ask_stream(QUESTION, dataset_id="docs") as stream:
        list(stream)
    assert counts(kb) == {f"docs/{name}": 2 for name in names}
    # The question is not kept: it has an answer.
    assert QuestionLog(kb.capabilities.settings).questions() == []


def test_searches_abstentions_and_evaluations_count_nothing(kb: Service) -> None:
    kb.search(QUESTION, dataset_id="docs")
    kb.ask(QUESTION, dataset_id="docs", llm=FakeLLM(lambda prompt, text: "NO_ANSWER"))
    with unlogged():
        kb.ask(QUESTION, dataset_id="docs")
    assert counts(kb) == {}


def test_it_is_off_by_default() -> None:
    with triptych.open("memory://", embedder="hash", llm=model()) as kb:
        kb.put_document("docs", "tea.md", "Green tea steeps for three minutes.")
        assert kb.ask(QUESTION, dataset_id="docs").citations
        assert counts(kb) == {}


def test_a_purged_document_is_not_named_and_a_deleted_dataset_takes_its_own(
    kb: Service, tmp_path: Path
) -> None:
    kb.ask(QUESTION, dataset_id="docs")
    assert QuestionLog(kb.capabilities.settings).note_cited([("more", "secretname.md")]) is None
    kb.purge("docs", "secretname.md")
    assert counts(kb) == {"docs/tea.md": 1, "more/secretname.md": 1}
    kb.purge("more")
    assert counts(kb) == {"docs/tea.md": 1}
    kb.close()
    held = b"".join(path.read_bytes() for path in tmp_path.glob("kb.db*") if path.is_file())
    assert b"secretname" not in held


def test_restricted_callers_are_counted_and_read_nothing(kb: Service) -> None:
    with kb.restricted(Access(dataset_ids=["docs"])) as caller:
        caller.ask(QUESTION, dataset_id="docs")
        assert QuestionLog(caller.capabilities.settings).cited() == []
    assert set(counts(kb).values()) == {1}


def test_those_that_were_cited_last_are_kept(kb: Service) -> None:
    log = QuestionLog(kb.capabilities.settings)
    assert log.note_cited(("docs", str(at)) for at in range(MOST_CITED)) is None
    assert log.note_cited([("docs", "0"), ("docs", "new"), ("docs", "0")]) is None
    kept = log.cited()
    assert len(kept) == MOST_CITED
    assert [(each.name, each.times) for each in kept[:2]] == [("new", 1), ("0", 2)]
    assert "1" not in {each.name for each in kept}


class Failing(MemoryStore):
    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        raise StoreError("the disk is full")


def test_a_count_that_fails_never_fails_an_answer() -> None:
    store = Failing()
    options = ServiceOptions(observer=QuestionLog(store.capabilities.settings), llm=model())
    with Service(store, options=options) as kb:
        kb.put_document("docs", "tea.md", "Green tea steeps for three minutes.")
        answer = kb.ask(QUESTION, dataset_id="docs")
        assert answer.citations
        assert "the citations were not counted: the disk is full" in answer.warnings
        with kb.restricted(Access()) as caller:
            assert (
                "the citations were not counted" in caller.ask(QUESTION, dataset_id="docs").warnings
            )


def test_damaged_counts_are_reported_and_can_be_cleared(kb: Service) -> None:
    settings = kb.capabilities.settings
    assert settings is not None
    assert settings.set_setting("cited", "[{}]", expected=None)
    with pytest.raises(ValidationError, match="cannot be read"):
        QuestionLog(kb.capabilities.settings).cited()
    QuestionLog(kb.capabilities.settings).erase()
    assert counts(kb) == {}
