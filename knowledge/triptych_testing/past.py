"""Tests of searches of the past: each moment gives the same results as it did then."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from triptych.contracts import Store
from triptych.deadlines import deadline
from triptych.errors import CancelledError
from triptych.records import Hit, Mode, NewDocument, SourceDocument
from triptych.service import Service, ServiceOptions
from triptych_testing.fakes import FakeEmbedder, FakeSparseEncoder, kept_open
from triptych_testing.harness import Harness, HarnessTests, or_skip

_NAMES = ("a.md", "b.md", "c.md")
_TEXTS = (
    "# Ferry\n\nThe ferry is late.\n\n## Storms\n\nStorms keep the harbour shut.\n",
    "# Ferry\n\nThe ferry is early.\n\n## Storms\n\nStorms keep the harbour shut.\n",
    "Tides, storms and a late ferry.\n",
    "The harbour opens with the tide.\n",
    "",
)
_METADATA: tuple[dict[str, Any], ...] = ({}, {"lang": "en"}, {"title": "Ferry log", "lang": "de"})
_QUERIES = ("late ferry", "storms in the harbour")

Answers = Mapping[object, tuple[Hit, ...]]


@attrs.frozen
class _Step:
    """A put, or a delete where there is no text."""

    name: str
    text: str | None
    metadata: Mapping[str, Any] | None


_STEPS = st.builds(
    _Step,
    name=st.sampled_from(_NAMES),
    text=st.sampled_from((*_TEXTS, None)),
    metadata=st.sampled_from((*_METADATA, None)),
)


@attrs.frozen
class _Then:
    """A moment: what was stored, and what was answered."""

    moment: datetime
    documents: Mapping[str, SourceDocument]
    answers: Answers


def tick() -> datetime:
    """The time now; what is written afterwards has a later one."""
    moment = datetime.now(UTC)
    while datetime.now(UTC) <= moment:
        time.sleep(1e-5)
    return moment


def answers(kb: Service, dataset_id: str, as_of: datetime | int | None = None) -> Answers:
    """What searches of every kind answer.

    A search by keyword embeds nothing, so that ``Hit.sig.embed_sig`` may say of a hit of the past
    that it has no vector. All else is compared.
    """
    found: dict[object, Sequence[Hit]] = {}
    modes = [str(mode) for mode in Mode] + (["sparse"] if "sparse" in kb.lanes else [])
    for text, mode in itertools.product(_QUERIES, modes):
        asked: dict[str, Any] = {"dataset_id": dataset_id, "mode": mode, "as_of": as_of}
        found[text, mode] = kb.search(text, **asked).hits
        found[text, mode, "one"] = kb.search(text, top_k=1, where={"lang": "en"}, **asked).hits
        if kb.capabilities.document_search is not None:
            found[text, mode, "whole"] = kb.search_documents(text, **asked).hits
    where = {"$version": {"$gte": 1}}
    found["listed"] = kb.search("", dataset_id=dataset_id, where=where, as_of=as_of).hits
    return {
        key: tuple(attrs.evolve(hit, sig=attrs.evolve(hit.sig, embed_sig="")) for hit in hits)
        for key, hits in found.items()
    }


class PastTests(HarnessTests):
    """Every sentence of `Query.as_of`; needs `Harness.scratch`."""

    @pytest.fixture
    def past_embedder(self) -> FakeEmbedder:
        return FakeEmbedder()

    @pytest.fixture
    def past(
        self, store: Store, harness: Harness, past_embedder: FakeEmbedder
    ) -> Iterator[Service]:
        or_skip(store.capabilities.versions)
        options = ServiceOptions(embedder=past_embedder, scratch=or_skip(harness.scratch))
        with Service(kept_open(store), options=options) as kb:
            yield kb

    @pytest.fixture
    def every_lane(self, store: Store, harness: Harness) -> Iterator[Service]:
        or_skip(store.capabilities.versions)
        options = ServiceOptions(
            embedder=FakeEmbedder(),
            sparse_encoder=FakeSparseEncoder() if "sparse" in store.chunks.kinds else None,
            scratch=or_skip(harness.scratch),
        )
        with Service(kept_open(store), options=options) as kb:
            yield kb

    @pytest.mark.property
    def test_every_moment_answers_as_it_did(self, every_lane: Service, harness: Harness) -> None:
        scratch = or_skip(harness.scratch)
        reader = or_skip(every_lane.capabilities.versions)
        numbers = itertools.count()

        def take(dataset_id: str, step: _Step) -> None:
            if step.text is None:
                every_lane.delete_document(dataset_id, step.name)
            else:
                every_lane.put_document(dataset_id, step.name, step.text, step.metadata)

        def expected(dataset_id: str, documents: Sequence[SourceDocument]) -> Answers:
            return fresh_answers(
                scratch, dataset_id, documents, sparse="sparse" in every_lane.lanes
            )

        def check(dataset_id: str, seen: Sequence[_Then], numbered: bool) -> None:
            kept = {
                name: [
                    document
                    for info in reader.versions(dataset_id, name)
                    if (document := reader.get_version(dataset_id, name, info.version))
                ]
                for name in _NAMES
            }
            for then in seen:
                left = [d for name, d in then.documents.items() if d in kept[name]]
                got = answers(every_lane, dataset_id, then.moment)
                assert got == expected(dataset_id, left)
                if len(left) == len(then.documents):
                    assert got == then.answers
            last = max((each[0].version for each in kept.values() if each), default=1)
            for version in range(1, last + 1 if numbered else 1):
                upto = [[d for d in each if d.version <= version][:1] for each in kept.values()]
                wanted = expected(dataset_id, [document for each in upto for document in each])
                assert answers(every_lane, dataset_id, version) == wanted

        @settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(steps=st.lists(_STEPS, min_size=1, max_size=4), last=_STEPS)
        def compare(steps: list[_Step], last: _Step) -> None:
            dataset_id = f"d{next(numbers)}"
            every_lane.create_dataset(dataset_id)
            seen = []
            for step in steps:
                take(dataset_id, step)
                found = answers(every_lane, dataset_id)
                stored = {name: every_lane.documents.get(dataset_id, name) for name in _NAMES}
                documents = {name: each for name, each in stored.items() if each is not None}
                seen.append(_Then(tick(), documents, found))
            check(dataset_id, seen, False)
            take(dataset_id, last)
            check(dataset_id, seen, True)

        compare()

    def test_a_result_says_what_it_is_of(self, past: Service) -> None:
        past.put_document("d", "a.md", _TEXTS[0])
        moment = tick()
        past.put_document("d", "a.md", _TEXTS[1])
        old = past.search("late ferry", dataset_id="d", as_of=moment)
        assert (old.as_of, old[0].version, old[0].stale) == (moment, 1, None)
        naive, text = moment.replace(tzinfo=None), moment.isoformat()
        for given_as in (naive, text, moment.astimezone()):
            assert past.search("late ferry", dataset_id="d", as_of=given_as).hits == old.hits
        numbered = past.search("late ferry", dataset_id="d", as_of="1")
        assert (numbered.as_of, numbered.hits) == (1, old.hits)
        assert past.search("late ferry", dataset_id="d").as_of is None

    def test_what_is_no_longer_kept_is_reported(self, past: Service, harness: Harness) -> None:
        past.put_document("d", "a.md", "The ferry, edition 0.")
        past.put_document("d", "b.md", "The ferry of always.")
        moment = tick()
        for number in range(1, harness.history + 2):
            past.put_document("d", "a.md", f"The ferry, edition {number}.")
        past.put_document("d", "later.md", "Another ferry.")
        for as_of in (moment, 1):
            result = past.search("ferry", dataset_id="d", mode="bm25", as_of=as_of)
            names = {hit.doc_name for hit in result}
            # A document that came later had no version of then; but its first is number 1.
            assert names == {"b.md"} | ({"later.md"} if as_of == 1 else set())
            (warning,) = result.warnings
            assert warning.startswith("1 document of then left out, such as 'a.md': the version")

    def test_deleted_documents_are_gone_and_that_is_reported(self, past: Service) -> None:
        past.put_document("d", "a.md", _TEXTS[0])
        past.put_document("d", "b.md", _TEXTS[2])
        moment = tick()
        assert past.search("ferry", dataset_id="d", as_of=moment).warnings == ()
        past.delete_document("d", "a.md")
        past.put_document("d", "new.md", "A new ferry.")
        result = past.search("ferry", dataset_id="d", as_of=moment)
        assert {hit.doc_name for hit in result} == {"b.md"}
        assert [warning[:18] for warning in result.warnings] == [
            "1 document left ou",  # new.md has version 2: whether there was a first is not known
            "documents of 'd' w",
        ]
        past.delete_dataset("d")
        past.put_document("d", "again.md", "A ferry again.")
        result = past.search("ferry", dataset_id="d", as_of=moment)
        assert result.hits == ()
        assert any("no document of 'd' of then is kept" in each for each in result.warnings)

    def test_expiry_is_that_of_the_moment(self, past: Service) -> None:
        soon = datetime.now(UTC) + timedelta(seconds=0.5)
        past.put_documents(
            "d",
            [
                NewDocument(name="ends.md", content="A ferry that ends.", expires_at=soon),
                NewDocument(name="stays.md", content="A ferry that stays."),
            ],
        )
        before = past.search("ferry", dataset_id="d")
        moment = tick()
        while datetime.now(UTC) <= soon:
            time.sleep(0.01)
        assert [hit.doc_name for hit in past.search("ferry", dataset_id="d")] == ["stays.md"]
        if moment < soon:
            assert past.search("ferry", dataset_id="d", as_of=moment).hits == before.hits
        for as_of in (tick(), 1):
            after = past.search("ferry", dataset_id="d", as_of=as_of)
            assert [hit.doc_name for hit in after] == ["stays.md"]

    def test_only_texts_without_a_vector_are_embedded(
        self, past: Service, past_embedder: FakeEmbedder
    ) -> None:
        past.put_document("d", "a.md", _TEXTS[0])
        past.put_document("d", "b.md", _TEXTS[3], {"lang": "en"})
        moment = tick()
        past.put_document("d", "a.md", _TEXTS[1])
        past.put_document("d", "b.md", _TEXTS[3], {"lang": "de"})
        asked: dict[str, Any] = {"dataset_id": "d", "as_of": moment}
        past_embedder.texts.clear()
        assert past.search("ferry", mode="bm25", **asked).warnings == ()
        assert past_embedder.texts == []
        first = past.search("ferry", **asked)
        embedded = [text for text in past_embedder.texts if text != "ferry"]
        assert len(embedded) == 1
        assert "The ferry is late." in embedded[0]
        (warning,) = first.warnings
        assert warning.startswith("embedded 1 text of then")
        past_embedder.texts.clear()
        second = past.search("ferry", **asked)
        assert (second.hits, second.warnings) == (first.hits, ())
        assert past_embedder.texts == ["ferry"]

    def test_a_deadline_ends_it_and_the_next_call_goes_on(self, past: Service) -> None:
        past.put_document("d", "a.md", _TEXTS[0])
        moment = tick()
        past.put_document("d", "a.md", _TEXTS[1])
        with deadline(0), pytest.raises(CancelledError):
            past.search("ferry", dataset_id="d", as_of=moment)
        assert past.search("late", dataset_id="d", as_of=moment)[0].version == 1

    def test_layers_are_those_of_the_moment(self, past: Service) -> None:
        past.put_document("d", "g/a.md", _TEXTS[0])
        past.put_document("d", "g/b.md", _TEXTS[3])
        for name in ("g/a.md", "g/b.md"):
            past.put_document_layer("d", name, "L0", f"An abstract of the ferry in {name}.")
        past.put_folder_layer("d", "g/", "L1", "An overview of the ferry folder.")
        past.put_dataset_layer("d", "L1", "An overview of the whole ferry line.")
        then = {layer: past.search("ferry", dataset_id="d", layer=layer) for layer in ("L0", "L1")}
        moment = tick()
        for layer, before in then.items():
            found = past.search("ferry", dataset_id="d", layer=layer, as_of=moment)
            assert (found.hits, found.as_of) == (before.hits, moment)
            again = past.search("ferry", dataset_id="d", layer=layer, as_of=moment)
            assert (again.hits, again.warnings) == (before.hits, ())
        past.put_document("d", "g/b.md", _TEXTS[1])  # its abstract is stale now
        for layer, before in then.items():
            result = past.search("ferry", dataset_id="d", layer=layer, as_of=moment)
            assert result.hits == before.hits
            assert {hit.stale for hit in result} == {None}
        past.put_document_layer("d", "g/b.md", "L0", "An abstract of another ferry.")
        result = past.search("ferry", dataset_id="d", layer="L0", as_of=moment)
        assert [hit.doc_name for hit in result] == ["g/a.md"]
        assert result.warnings == ("3 layers left out: made from other text than that of then",)
        assert not past.search("ferry", dataset_id="d", layer="L1", as_of=moment)

    def test_a_context_cites_the_versions_of_then(self, past: Service) -> None:
        past.put_document("d", "a.md", _TEXTS[0])
        past.put_document("d", "b.md", _TEXTS[3])
        before = past.context("late ferry harbour", 500, dataset_id="d")
        moment = tick()
        past.put_document("d", "a.md", "Gone to other places.")
        pack = past.context("late ferry harbour", 500, dataset_id="d", as_of=moment)
        assert (pack.as_of, pack.pieces, pack.render()) == (moment, before.pieces, before.render())
        states = {p.citation.doc_name: past.verify(p.citation) for p in pack.pieces}
        assert {name: each.status for name, each in states.items()} == {
            "a.md": "gone",
            "b.md": "fresh",
        }
        assert past.get_document("d", "a.md", 1).content.find(pack.pieces[0].text[:9]) >= 0


def fresh_answers(
    scratch: Callable[[], Store],
    dataset_id: str,
    documents: Sequence[SourceDocument],
    *,
    sparse: bool,
) -> Answers:
    """What a new store answers that holds just these documents."""
    encoder = FakeSparseEncoder() if sparse else None
    options = ServiceOptions(embedder=FakeEmbedder(), sparse_encoder=encoder)
    with Service(scratch(), options=options) as kb:
        kb.create_dataset(dataset_id)
        for document in documents:
            kb.documents.load(document)
        kb.rebuild(dataset_id=dataset_id)
        return answers(kb, dataset_id)
