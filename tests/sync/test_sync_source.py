"""A source becomes documents, and stays so."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import pytest
from hypothesis import given, settings, strategies as st

import triptych
from triptych.errors import (
    AccessDeniedError,
    ConflictError,
    NotAvailableError,
    TriptychError,
    ValidationError,
)
from triptych.service import Service
from triptych.sync import Fetched, Source, SourceEntry, SourceRoot, SourceSync, SyncOptions


@attrs.define
class Shelf:
    """A source in memory that counts its calls, and fails for the entries in `broken`."""

    texts: dict[str, str]
    location: str = "shelf://one"
    whole: bool = True
    versions: bool = True
    hint: str = ""
    skips: dict[str, str] = attrs.field(factory=dict)
    breaks: Exception | None = None
    broken: dict[str, Exception] = attrs.field(factory=dict)
    calls: list[str] = attrs.field(factory=list)
    entered: int = 0

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self.entered -= 1

    def revision(self) -> str:
        assert self.entered == 1
        self.calls.append("revision")
        return _sha("".join(f"{k}={v}" for k, v in self.texts.items())) if self.whole else ""

    def list(self) -> Iterable[SourceEntry]:
        self.calls.append("list")
        for name, text in self.texts.items():
            revision = _sha(text) if self.versions else ""
            yield SourceEntry(name=name, revision=revision, hint=self.hint)
        for name, reason in self.skips.items():
            yield SourceEntry(name=name, skip=reason)
        if self.breaks is not None:
            raise self.breaks

    def fetch(self, name: str, known: str) -> Fetched | None:
        assert self.entered == 1
        self.calls.append(f"{name}?{known[:4]}" if known else name)
        if name in self.broken:
            raise self.broken[name]
        text = self.texts[name]
        if known == _sha(text):
            return None
        return Fetched(data=text.encode(), url=f"shelf://one/{name}", revision=_sha(text))

    def called(self) -> Iterable[str]:
        calls, self.calls = self.calls, []
        return sorted(calls)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[Service]:
    with triptych.open(str(tmp_path / "kb.db"), embedder=None) as service:
        assert isinstance(service, Service)
        yield service


def _syncing(
    kb: Service, shelf: Source, tmp_path: Path | None = None, *, prefix: str = "", **options: object
) -> SourceSync:
    root = SourceRoot(source=shelf, dataset_id="d", prefix=prefix)
    state = None if tmp_path is None else tmp_path / "state"
    made = SyncOptions(delete_most=True, **options)  # type: ignore[arg-type]  # any option
    return SourceSync(kb, root, made, state=state)


def _contents(kb: Service) -> dict[str, str]:
    if "d" not in kb.list_datasets():
        return {}
    return {info.name: kb.get_document("d", info.name).content for info in kb.list_documents("d")}


def test_only_what_changed_is_fetched(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two", "c.md": "three"})
    first = _syncing(kb, shelf, tmp_path).sync()
    assert (first.added, first.checked, first.failed) == (3, 3, ())
    assert shelf.called() == ["a.md", "b.md", "c.md", "list", "revision"]
    again = _syncing(kb, shelf, tmp_path).sync()
    assert (again.unchanged, again.added, again.deleted) == (3, 0, ())
    assert shelf.called() == ["revision"]
    shelf.texts |= {"b.md": "TWO", "d.md": "four"}
    del shelf.texts["c.md"]
    third = _syncing(kb, shelf, tmp_path).sync()
    assert (third.added, third.updated, third.deleted, third.unchanged) == (1, 1, ("c.md",), 1)
    assert shelf.called() == [f"b.md?{_sha('two')[:4]}", "d.md", "list", "revision"]
    assert _contents(kb) == {"a.md": "one", "b.md": "TWO", "d.md": "four"}


def test_a_document_says_where_it_came_from(kb: Service) -> None:
    _syncing(kb, Shelf({"a.md": "---\nlang: en\n---\none"}), prefix="shelf/").sync()
    document = kb.get_document("d", "shelf/a.md")
    assert document.metadata["source_url"] == "shelf://one/a.md"
    assert document.metadata["source_revision"] == _sha("---\nlang: en\n---\none")
    assert document.metadata["lang"] == "en"


def test_without_revisions_each_entry_is_asked_for_its_change(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"}, whole=False, versions=False)
    _syncing(kb, shelf, tmp_path).sync()
    shelf.called()
    shelf.texts["a.md"] = "ONE"
    report = _syncing(kb, shelf, tmp_path).sync()
    assert (report.updated, report.unchanged) == (1, 1)
    assert shelf.called() == [
        f"a.md?{_sha('one')[:4]}",
        f"b.md?{_sha('two')[:4]}",
        "list",
        "revision",
    ]
    assert _contents(kb) == {"a.md": "ONE", "b.md": "two"}


def test_what_is_new_is_fetched_before_what_may_be_unchanged(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"}, whole=False, versions=False)
    _syncing(kb, shelf, tmp_path).sync()
    shelf.calls.clear()
    shelf.texts["z.md"] = "new"
    _syncing(kb, shelf, tmp_path, workers=1).sync()
    assert [call.partition("?")[0] for call in shelf.calls[2:]] == ["z.md", "a.md", "b.md"]


def test_without_its_state_everything_is_fetched_and_nothing_written(
    kb: Service, tmp_path: Path
) -> None:
    shelf = Shelf({"a.md": "one"})
    _syncing(kb, shelf, tmp_path).sync()
    head = kb.get_document("d", "a.md").version
    shelf.called()
    report = _syncing(kb, shelf).sync()
    assert report.unchanged == 1
    assert shelf.called() == ["a.md", "list", "revision"]
    assert kb.get_document("d", "a.md").version == head


def test_an_incomplete_list_deletes_nothing_and_brings_what_it_names(kb: Service) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"})
    _syncing(kb, shelf).sync()
    del shelf.texts["a.md"]
    shelf.texts["c.md"] = "three"
    shelf.breaks = NotAvailableError("the list broke off")
    report = _syncing(kb, shelf).sync()
    assert report.deleted == ()
    assert [str(each.error) for each in report.failed] == ["the list broke off"]
    assert [each.name for each in report.failed] == ["shelf://one"]
    assert set(_contents(kb)) == {"a.md", "b.md", "c.md"}
    shelf.breaks = None
    assert _syncing(kb, shelf).sync().deleted == ("a.md",)


@pytest.mark.parametrize("error", [OSError(5, "no such disk"), KeyError("x"), RuntimeError("y")])
def test_a_source_that_fails_in_any_way_loses_nothing(kb: Service, error: Exception) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"})
    _syncing(kb, shelf).sync()
    shelf.texts = {"b.md": "TWO"}
    shelf.breaks = error
    shelf.broken["b.md"] = error
    report = _syncing(kb, shelf).sync()
    assert {each.name for each in report.failed} == {"b.md", "shelf://one"}
    assert all(isinstance(each.error, TriptychError) for each in report.failed)
    assert _contents(kb) == {"a.md": "one", "b.md": "two"}


def test_an_entry_that_fails_is_tried_again(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"}, broken={"a.md": NotAvailableError("away")})
    report = _syncing(kb, shelf, tmp_path).sync()
    assert [each.name for each in report.failed] == ["a.md"]
    shelf.broken.clear()
    shelf.called()
    report = _syncing(kb, shelf, tmp_path).sync()
    assert (report.added, report.unchanged) == (1, 1)
    assert shelf.called() == ["a.md", "list", "revision"]


def test_most_documents_are_not_deleted_unconfirmed(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({f"{n}.md": str(n) for n in range(5)})
    root = SourceRoot(source=shelf, dataset_id="d")
    SourceSync(kb, root, state=tmp_path / "state").sync()
    shelf.texts = {"0.md": "0"}
    report = SourceSync(kb, root, state=tmp_path / "state").sync()
    assert report.deleted == ()
    assert [(held.root, len(held.names)) for held in report.held] == [("shelf://one", 4)]
    assert "not listed any more" in str(report.held[0].failure.error)
    # It is said again, though nothing of the source has changed.
    sync = SourceSync(kb, root, state=tmp_path / "state")
    assert sync.sync().held
    # Nor do as many new entries make it a smaller part.
    shelf.texts |= {f"new {n}.md": f"new {n}" for n in range(9)}
    for _ in range(2):
        assert len(SourceSync(kb, root, state=tmp_path / "state").sync().held[0].names) == 4
    assert len(sync.sync(delete_most=True).deleted) == 4


def test_a_renamed_entry_keeps_what_was_made_of_it(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"})
    _syncing(kb, shelf, tmp_path).sync()
    shelf.texts = {"b.md": "two", "new.md": "one"}
    assert _syncing(kb, shelf, tmp_path).sync().renamed == (("a.md", "new.md"),)


def test_documents_of_others_stay(kb: Service) -> None:
    kb.put_document("d", "a.md", "mine")
    kb.put_document("d", "z.md", "mine, too")
    report = _syncing(kb, Shelf({"a.md": "theirs", "b.md": "two"})).sync()
    assert [type(each.error) for each in report.failed] == [ConflictError]
    other = _syncing(kb, Shelf({"b.md": "other"}, location="shelf://two")).sync()
    assert [type(each.error) for each in other.failed] == [ConflictError]
    assert _contents(kb) == {"a.md": "mine", "b.md": "two", "z.md": "mine, too"}


def test_what_somebody_changed_or_deleted_comes_back(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"}, versions=False, whole=False)
    _syncing(kb, shelf, tmp_path).sync()
    kb.delete_document("d", "a.md")
    kb.put_document("d", "b.md", "changed")
    _syncing(kb, shelf, tmp_path).sync()
    assert _contents(kb) == {"a.md": "one", "b.md": "two"}
    kept = Shelf({"a.md": "one", "b.md": "two"})
    _syncing(kb, kept, tmp_path).sync()
    kb.delete_document("d", "a.md")
    kept.called()
    assert _syncing(kb, kept, tmp_path).sync().added == 1
    assert kept.called() == ["a.md", "revision"]


def test_the_rules_for_files_hold_for_entries(kb: Service) -> None:
    shelf = Shelf(
        {
            "a.md": "one",
            ".git/b.md": "hidden",
            "drafts/c.md": "draft",
            "d.weird": "no parser",
            "e.md": "x" * 50,
        },
        skips={"lib": "a submodule"},
    )
    report = _syncing(kb, shelf, exclude=("drafts/",), max_bytes=40).sync()
    assert {(each.name, each.reason) for each in report.skipped} == {
        (".git/", "hidden"),
        ("drafts/", "excluded"),
        ("d.weird", "ends in .weird"),
        ("lib", "a submodule"),
    }
    assert [each.name for each in report.failed] == ["e.md"]
    assert "max_bytes" in str(report.failed[0].error)
    assert set(_contents(kb)) == {"a.md"}
    taken = _syncing(kb, Shelf({"page": "<p>Hello"}, hint="page.html"), prefix="p/").sync()
    assert taken.added == 1
    assert _contents(kb)["p/page"].strip() == "Hello"


def test_other_options_or_parsers_list_again(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"})
    _syncing(kb, shelf, tmp_path).sync()
    assert _syncing(kb, shelf, tmp_path, exclude=("b.md",)).sync().deleted == ("b.md",)
    assert _syncing(kb, shelf, tmp_path).sync().added == 1


@pytest.mark.parametrize(
    "name", ["", "a//b.md", "../b.md", "a/./b.md", "/b.md", "b\ud800.md", "\0.md"]
)
def test_a_name_that_no_document_can_have_fails_by_itself(kb: Service, name: str) -> None:
    report = _syncing(kb, Shelf({"a.md": "one", name: "two"}, whole=False)).sync()
    assert [type(each.error) for each in report.failed] == [ValidationError]
    assert set(_contents(kb)) == {"a.md"}


def test_a_source_that_lies_about_a_change_is_named(kb: Service) -> None:
    class Liar(Shelf):
        def fetch(self, name: str, known: str) -> Fetched | None:
            return None

    report = _syncing(kb, Liar({"a.md": "one"})).sync()
    assert "correct the fetch" in str(report.failed[0].error)


def test_a_plan_writes_nothing(kb: Service, tmp_path: Path) -> None:
    shelf = Shelf({"a.md": "one", "b.md": "two"})
    _syncing(kb, shelf, tmp_path).sync()
    shelf.texts = {"a.md": "ONE", "c.md": "three"}
    plan = _syncing(kb, shelf, tmp_path).plan()
    assert (plan.added, plan.updated, plan.deleted) == (("c.md",), ("a.md",), ("b.md",))
    assert _contents(kb) == {"a.md": "one", "b.md": "two"}
    assert _syncing(kb, shelf, tmp_path).sync().added == 1


def test_nobody_outside_may_name_documents_as_those_of_a_source(kb: Service) -> None:
    from triptych.search import check_sync_roots

    sync = _syncing(kb, Shelf({"a.md": "one"}))
    sync.sync()
    with pytest.raises(AccessDeniedError):
        check_sync_roots(kb.capabilities.settings, [("a.md", sync.root.key)])
    assert kb.search("one", dataset_id="d").hits[0].path is None


_TEXTS = st.dictionaries(
    st.sampled_from(["a.md", "b.md", "c/d.md", "c/e.md", "page"]), st.text("xyz", max_size=3)
)


@pytest.mark.property
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(_TEXTS, st.booleans(), st.booleans(), st.booleans()), max_size=6))
def test_a_source_and_its_documents_end_alike(
    tmp_path_factory: pytest.TempPathFactory,
    states: Iterable[tuple[dict[str, str], bool, bool, bool]],
) -> None:
    folder = tmp_path_factory.mktemp("shelf")
    with triptych.open("memory://", embedder=None) as kb:
        assert isinstance(kb, Service)
        shelf = Shelf({}, hint="page.txt")
        for texts, whole, versions, breaks in states:
            shelf.texts, shelf.whole, shelf.versions = texts, whole, versions
            before = _contents(kb)
            shelf.breaks = NotAvailableError("broke") if breaks else None
            report = _syncing(kb, shelf, folder).sync()
            unlisted = {} if not any("broke" in str(f.error) for f in report.failed) else before
            assert _contents(kb) == {**unlisted, **texts}


def test_a_database_can_be_a_source(kb: Service, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rows.db") as rows:
        rows.execute("create table note (id text, body text)")
        rows.execute("insert into note values ('1.txt', 'the first row')")
    rows.close()

    class Rows:
        location = "rows.db"

        def _read(self, sql: str, *args: str) -> Iterable[tuple[str, ...]]:
            database = sqlite3.connect(tmp_path / "rows.db")
            try:
                return database.execute(sql, args).fetchall()
            finally:
                database.close()

        def revision(self) -> str:
            return ""

        def list(self) -> Iterable[SourceEntry]:
            return [SourceEntry(name=name) for (name,) in self._read("select id from note")]

        def fetch(self, name: str, known: str) -> Fetched | None:
            ((body,),) = self._read("select body from note where id = ?", name)
            return Fetched(data=body.encode())

    assert _syncing(kb, Rows()).sync().added == 1
    assert kb.search("first row", dataset_id="d").hits[0].doc_name == "1.txt"
