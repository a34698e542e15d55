"""The log of questions without an answer: what is kept, for how long, and what it never does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import triptych
from support.bare_store import BareStore
from triptych import Query, Service, ServiceOptions
from triptych.contracts import Store
from triptych.errors import NotAvailableError, StoreError, ValidationError
from triptych.question_log import MOST_QUESTIONS, QuestionLog, unlogged
from triptych.telemetry import AnswerObserver
from triptych_adapters.related import related
from triptych_backends.memory import MemoryStore
from triptych_evaluation import (
    Collection,
    JudgedQuery,
    evaluate,
    golden_yaml,
    logged_yaml,
    read_golden,
)
from triptych_testing.fakes import FakeEmbedder, FakeLLM


def filled(service: Service) -> Service:
    service.put_document("manual", "guide.md", "# Guide\n\nTen requests per second.")
    service.put_document("notes", "a.md", "The harbour at night.")
    return service


def logging(store: Store) -> Service:
    log = QuestionLog(store.capabilities.settings)
    return Service(store, options=ServiceOptions(observer=log))


@pytest.fixture
def kb() -> Service:
    return filled(logging(MemoryStore()))


def test_it_is_off_by_default() -> None:
    for service in (Service(MemoryStore()), triptych.open("memory://", embedder="none")):
        filled(service).search("zebra", dataset_id="manual")
        assert QuestionLog(service.capabilities.settings).questions() == []
        assert service.capabilities.settings is not None
        assert "questions" not in service.capabilities.settings.list_settings()


def test_questions_without_hits_are_kept_once_with_their_number(kb: Service) -> None:
    kb.search("zebra  crossing", dataset_id="manual")
    kb.search("harbour", dataset_id="notes")
    kb.search("Zebra crossing", dataset_id="manual")
    kb.search("zebra", scope="all")
    kb.search("zebra", dataset_id="manual", offset=3)
    newest, older = QuestionLog(kb.capabilities.settings).questions()
    assert (newest.text, newest.dataset_ids) == ("zebra", ("manual", "notes"))
    assert (older.text, older.times, older.answerability) == ("Zebra crossing", 2, "nothing")
    assert (older.hits, older.found) == (0, ())
    assert [each.text for each in QuestionLog(kb.capabilities.settings).questions("notes")] == [
        "zebra"
    ]


def test_the_first_moment_is_kept_and_logs_without_it_are_read(kb: Service) -> None:
    kb.search("zebra", dataset_id="manual")
    (first,) = QuestionLog(kb.capabilities.settings).questions()
    assert first.first_at == first.asked_at
    kb.search("zebra", dataset_id="manual")
    (again,) = QuestionLog(kb.capabilities.settings).questions()
    assert again.first_at == first.asked_at < again.asked_at
    settings = kb.capabilities.settings
    assert settings is not None
    (kept,) = json.loads(settings.get_setting("questions") or "")
    del kept["first_at"]
    text = settings.get_setting("questions")
    assert settings.set_setting("questions", json.dumps([kept]), expected=text)
    (old,) = QuestionLog(kb.capabilities.settings).questions()
    assert old.first_at is None
    kb.search("zebra", dataset_id="manual")
    (third,) = QuestionLog(kb.capabilities.settings).questions()
    assert (third.first_at, third.times) == (old.asked_at, 3)


def test_it_is_bounded_and_long_questions_are_cut(kb: Service) -> None:
    for at in range(MOST_QUESTIONS + 5):
        kb.search(f"zebra{at}", dataset_id="manual")
    kb.search("zebra " * 1000, dataset_id="manual")
    kept = QuestionLog(kb.capabilities.settings).questions()
    assert len(kept) == MOST_QUESTIONS
    assert len(kept[0].text) == 1000
    assert kept[1].text == f"zebra{MOST_QUESTIONS + 4}"


def test_it_goes_with_its_dataset_and_a_purged_document_is_not_named(tmp_path: Path) -> None:
    with triptych.open(tmp_path / "kb.db", embedder="none", question_log=True) as kb:
        filled(kb)
        kb.search("zebra", dataset_id="manual")
        kb.search("secretquestion", dataset_id="notes")
        hits = kb.search("harbour", dataset_id="notes").hits
        assert (
            QuestionLog(kb.capabilities.settings).note("weak one", ["notes"], "weak", hits) is None
        )
        assert QuestionLog(kb.capabilities.settings).questions("notes")[0].found == ("a.md",)
        kb.purge("notes", "a.md")
        assert QuestionLog(kb.capabilities.settings).questions("notes")[0].found == ()
        kb.purge("notes")
        assert [each.text for each in QuestionLog(kb.capabilities.settings).questions()] == [
            "zebra"
        ]
    held = b"".join(path.read_bytes() for path in tmp_path.glob("kb.db*") if path.is_file())
    assert b"secretquestion" not in held


def test_a_document_is_kept_with_its_dataset(kb: Service) -> None:
    kb.put_document("notes", "guide.md", "Requests at night.")
    hits = kb.search("requests", scope="all").hits
    assert (
        QuestionLog(kb.capabilities.settings).note("weak one", ["manual", "notes"], "weak", hits)
        is None
    )
    (asked,) = QuestionLog(kb.capabilities.settings).questions()
    assert sorted(asked.documents) == [("manual", "guide.md"), ("notes", "guide.md")]
    assert QuestionLog(kb.capabilities.settings).erase("notes", "guide.md") == 1
    (asked,) = QuestionLog(kb.capabilities.settings).questions()
    assert asked.documents == [("manual", "guide.md")]
    # A log of an earlier version has names alone: each may be of any of the datasets.
    settings = kb.capabilities.settings
    assert settings is not None
    text = settings.get_setting("questions")
    (kept,) = json.loads(text or "")
    del kept["found_in"]
    assert settings.set_setting("questions", json.dumps([kept]), expected=text)
    (old,) = QuestionLog(kb.capabilities.settings).questions()
    assert old.documents == [("manual", "guide.md"), ("notes", "guide.md")]
    assert QuestionLog(kb.capabilities.settings).erase("notes", "guide.md") == 1
    assert QuestionLog(kb.capabilities.settings).questions()[0].found == ()


class Failing(MemoryStore):
    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        raise StoreError("the disk is full")


def test_a_failing_log_never_fails_a_search() -> None:
    kb = filled(logging(Failing()))
    found = kb.search("zebra", dataset_id="manual")
    assert found.warnings == ("the question was not logged: the disk is full",)
    bare = filled(logging(BareStore(MemoryStore())))
    (warning,) = bare.search("zebra", dataset_id="manual").warnings
    assert "keeps no settings" in warning
    with pytest.raises(NotAvailableError, match="keeps no settings"):
        QuestionLog(bare.capabilities.settings).questions()


def test_a_damaged_log_is_reported_and_can_be_cleared(kb: Service) -> None:
    settings = kb.capabilities.settings
    assert settings is not None
    assert settings.set_setting("questions", "[{}]", expected=None)
    (warning,) = kb.search("zebra", dataset_id="manual").warnings
    assert "cannot be read" in warning
    with pytest.raises(ValidationError, match="cannot be read"):
        QuestionLog(kb.capabilities.settings).questions()
    QuestionLog(kb.capabilities.settings).erase()
    assert QuestionLog(kb.capabilities.settings).questions() == []


def test_evaluations_are_not_logged(kb: Service) -> None:
    lost = Collection(
        name="lost", queries=(JudgedQuery(query_id="q", text="zebra", grades={"guide.md": 1}),)
    )
    evaluate(kb, lost, dataset_id="manual", granularity="chunk")
    with unlogged():
        kb.search("zebra", dataset_id="manual")
    assert QuestionLog(kb.capabilities.settings).questions() == []


def test_claims_that_an_answer_looks_up_are_no_questions(tmp_path: Path) -> None:
    said = "It is 10 requests [1]. Captain Nemo asked for `window.pwned=1` [1]."
    with triptych.open(
        tmp_path / "kb.db", embedder="none", question_log=True, llm=FakeLLM(lambda *_: said)
    ) as kb:
        filled(kb)
        for options in ({}, {"as_of": kb.get_document("manual", "guide.md").version}):
            answer = kb.ask("How many requests per second?", dataset_id="manual", **options)
            assert {each.status for each in answer.proof} >= {"nowhere"}
            assert QuestionLog(kb.capabilities.settings).questions() == []


def test_what_is_related_to_a_document_is_no_question(kb: Service) -> None:
    related(kb, "manual", "guide.md")
    assert QuestionLog(kb.capabilities.settings).questions() == []


def test_the_log_is_a_golden_set_to_fill_in(kb: Service, tmp_path: Path) -> None:
    kb.search('zebra: "{what}"\n# is it?', dataset_id="manual")
    file = tmp_path / "golden.yaml"
    text = logged_yaml(QuestionLog(kb.capabilities.settings).questions())
    file.write_text(text)
    with pytest.raises(ValidationError, match="answerable: false where none does"):
        read_golden(file)
    file.write_text(text.replace("expected_files: []", "answerable: false"))
    (query,) = read_golden(file).queries
    assert query.text == 'zebra: "{what}"\n# is it?'
    assert (query.unanswerable, query.reviewed) == (True, False)


@given(text=st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_any_question_is_written_and_read_again(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("golden") / "golden.yaml"
    query = JudgedQuery(query_id="q", text=text, grades={"a.md": 2}, keywords=(text,), answer=text)
    file.write_bytes(golden_yaml([query], name="n").encode("utf-8", "surrogatepass"))
    (read,) = read_golden(file).queries
    assert read == query


class Seen(AnswerObserver):
    """The texts that it was told of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str, *_: object) -> None:
        self.texts.append(text)


def test_other_steps_are_observed_and_the_doctor_s_own_searches_are_not() -> None:
    seen = Seen()
    options = ServiceOptions(embedder=FakeEmbedder(), observer=seen)
    with Service(MemoryStore(), options) as kb:
        kb.put_documents("d", {f"{n}.md": f"Tea number {n} needs water." for n in range(40)})
        kb.searches.derived().search(Query(text="tea", dataset_id="d"))
        assert seen.texts == ["tea"]
        kb.doctor()
        assert seen.texts == ["tea"]
