"""The rules of the contracts, each at its borders."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import numpy as np
import pytest

from support.rows import each_row
from triptych.contracts import rules
from triptych.errors import ConflictError, ModelMismatchError
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    NewDocument,
    SourceDocument,
)

CONFIG = DatasetConfig(chunker_sig="c", embed_sig="e")
SIG = DerivedSig(source_version=3, chunker_sig="c", embed_sig="e", input_sig="i")
STORED = SourceDocument(
    dataset_id="d",
    name="a",
    content="text",
    metadata={"k": "v"},
    version=3,
    updated_at=datetime(2026, 1, 1, tzinfo=UTC),
)


def new(content: str = "text", **fields: object) -> NewDocument:
    return NewDocument(**{"name": "a", "content": content, "metadata": {"k": "v"}, **fields})  # type: ignore[arg-type]  # a test passes any field on


def chunk(**fields: object) -> DerivedChunk:
    made = DerivedChunk(
        dataset_id="d",
        doc_name="a",
        index=0,
        start=0,
        end=4,
        offset=0,
        start_line=1,
        content="text",
        sig=attrs.evolve(SIG, input_sig="own"),
        vector=np.array([1, 0], np.float32),
    )
    return attrs.evolve(made, **fields)


def layer(name: str, version: int) -> DerivedLayer:
    sig = DerivedSig(source_version=version)
    return DerivedLayer(dataset_id="d", doc_name=name, layer="L0", content="text", sig=sig)


@each_row(
    ("stored", "used", "version"), [(None, 0, 1), (None, 7, 8), (STORED, 0, 4), (STORED, 7, 8)]
)
def test_a_change_takes_a_version_above_all_that_were(
    stored: SourceDocument | None, used: int, version: int
) -> None:
    before = datetime.now(UTC)
    document = rules.plan_put("d", new("other", parser_sig="p"), stored, used)
    assert (document.version, document.content, document.parser_sig) == (version, "other", "p")
    assert before <= document.updated_at <= before + timedelta(minutes=1)


def test_no_change_is_the_stored_document_itself() -> None:
    assert rules.plan_put("d", new(), STORED, 9) is STORED
    assert rules.plan_put("d", new(if_version=3), STORED, 9) is STORED
    assert rules.plan_put("d", new(original_sha256="x", parser_sig="y"), STORED, 9) is STORED
    assert rules.plan_put("d", new(metadata={}), STORED, 0).metadata == {}
    assert rules.plan_put("d", new(metadata=None), STORED, 9) is STORED


def test_metadata_that_is_not_given_is_kept_and_copied() -> None:
    kept = rules.plan_put("d", new("other", metadata=None), STORED, 0).metadata
    assert kept == STORED.metadata
    assert kept is not STORED.metadata
    assert rules.plan_put("d", new(metadata=None), None, 0).metadata == {}


@each_row(
    ("name", "documents", "has"),
    [
        ("a", ["a"], True),
        ("a", ["a/b"], False),
        ("a/", ["a/b"], True),
        ("a/", ["a"], False),
        ("", ["a"], True),
        ("", [], False),
    ],
)
def test_what_is_kept_under_a_name_has_a_source(name: str, documents: list[str], has: bool) -> None:
    assert rules.has_source(name, documents) is has


def test_a_delete_of_another_version_is_a_conflict() -> None:
    rules.check_delete("d", "a", None, 3)
    rules.check_delete("d", "a", 3, 3)
    for wanted, version in ((0, 3), (3, 0), (2, 3)):
        with pytest.raises(ConflictError, match="then delete") as caught:
            rules.check_delete("d", "a", wanted, version)
        assert (caught.value.expected, caught.value.actual) == (wanted, version)


@each_row(("stored", "wanted"), [(None, 3), (STORED, 0), (STORED, 2), (STORED, 4)])
def test_another_version_is_a_conflict_even_without_a_change(
    stored: SourceDocument | None, wanted: int
) -> None:
    with pytest.raises(ConflictError) as caught:
        rules.plan_put("d", new(if_version=wanted), stored, 0)
    assert (caught.value.expected, caught.value.actual) == (wanted, stored.version if stored else 0)


def test_puts_see_those_before_them_and_hand_out_copies() -> None:
    puts = [
        new("one"),
        new("two"),
        new("two", if_version=5),
        new("three", if_version=3),
        new("b", name="b"),
    ]
    outcomes, changed = rules.after_puts("d", puts, {"a": STORED}, 2)
    assert [it.change for it in outcomes] == ["updated", "updated", "unchanged", "failed", "added"]
    assert [document.version for document in changed.values()] == [5, 3]
    assert rules.document_of(outcomes[2]) == changed["a"]
    assert rules.document_of(outcomes[2]).metadata is not changed["a"].metadata
    with pytest.raises(ConflictError):
        rules.document_of(outcomes[3])


def test_a_load_writes_only_what_is_new_and_above() -> None:
    later = attrs.evolve(STORED, version=8)
    assert not rules.check_loadable(STORED, STORED, 9)
    assert rules.check_loadable(later, STORED, 7)
    assert rules.check_loadable(STORED, None, 2)
    for document, stored, used in ((later, STORED, 8), (STORED, later, 0), (STORED, None, 3)):
        with pytest.raises(ConflictError) as caught:
            rules.check_loadable(document, stored, used)
        assert caught.value.expected == document.version
        assert caught.value.actual == (stored.version if stored else 0)


def test_pages_are_by_code_point() -> None:
    names = {"b", "a/2", "a/10", "é", "Z"}
    assert rules.page_of_names(names) == ["Z", "a/10", "a/2", "b", "é"]
    assert rules.page_of_names(names, prefix="a/", after="a/10") == ["a/2"]
    assert rules.page_of_names(names, limit=2) == ["Z", "a/10"]
    assert rules.page_of_names(names, limit=0) == rules.page_of_names(names, limit=-1) == []


def test_a_set_is_replaced_at_its_version_under_its_configuration() -> None:
    assert rules.can_replace(CONFIG, 3, SIG)
    assert not rules.can_replace(None, 3, SIG)
    assert not rules.can_replace(CONFIG, 4, SIG)
    assert not rules.can_replace(CONFIG, 0, attrs.evolve(SIG, source_version=0))
    for field in ("chunker_sig", "embed_sig"):
        assert not rules.can_replace(CONFIG, 3, attrs.evolve(SIG, **{field: "other"}))


def test_a_set_is_restamped_when_all_but_the_version_is_the_same() -> None:
    assert rules.can_update_source_version(attrs.evolve(SIG, source_version=1), 3, SIG)
    assert not rules.can_update_source_version(None, 3, SIG)
    assert not rules.can_update_source_version(SIG, 4, SIG)
    for field in ("input_sig", "chunker_sig", "embed_sig"):
        assert not rules.can_update_source_version(attrs.evolve(SIG, **{field: "other"}), 3, SIG)


def test_layers_of_documents_alone_need_their_version() -> None:
    assert rules.may_put_layer(layer("a", 3), 3)
    assert not rules.may_put_layer(layer("a", 3), 4)
    assert not rules.may_put_layer(layer("a", 0), 0)
    assert rules.may_put_layer(layer("folder/", 7), 0)
    assert rules.may_put_layer(layer("", 7), 0)


def test_widths_are_by_space_and_never_mutated() -> None:
    wide, narrow = np.zeros(4, np.float32), np.zeros(2, np.float32)
    known = {"e": 2}
    assert rules.check_widths(known, [("e", narrow), ("f", wide), ("g", None)]) == {"e": 2, "f": 4}
    assert known == {"e": 2}
    for vectors in ([("e", wide)], [("f", wide), ("f", narrow)], [("f", np.zeros((2, 2)))]):
        with pytest.raises(ModelMismatchError, match="another signature"):
            rules.check_widths(known, vectors)


def test_a_kept_unit_is_safe() -> None:
    given = chunk()
    kept = rules.copy_vector(given)
    assert kept == given
    assert given.vector is not None
    given.vector[:] = 9
    assert kept.vector is not None
    assert kept.vector.tolist() == [1, 0]
    assert not kept.vector.flags.writeable
    assert rules.copy_vector(chunk(vector=None)) == chunk(vector=None)
    assert rules.copy_vector(attrs.evolve(layer("a", 1), stale="source")) == layer("a", 1)
