"""The JSON forms of records: those that the reference page names, and no record without one."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from triptych import errors, records
from triptych.events import RebuildRecord
from triptych.layers import LayerReport
from triptych.parsing.files import Skipped
from triptych.sync import SyncPlan, SyncReport
from triptych_adapters.wire.schema import VIEWS, to_json
from triptych_backends.embedders import HashEmbedder

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SIG = records.DerivedSig(source_version=3, prompt_sig="p", embed_sig="e", input_sig="i")
FAILURE = records.Failure(dataset_id="d", name="a", error=errors.StoreError("the disk is full"))
DOCUMENT = records.SourceDocument(
    dataset_id="d",
    name="a",
    content="text",
    metadata={"lang": "en", "triptych.root": "the user's"},
    version=3,
    updated_at=NOW,
    original_sha256="0" * 64,
    parser_sig="pdf/1",
    system=records.SystemData(
        outline="{}", sync_root="notes-1", expires_at=datetime(2999, 1, 1, tzinfo=UTC)
    ),
)
OBJECTS: Mapping[str, Any] = {
    "hit": records.Hit(
        dataset_id="d", doc_name="a", layer=None, content="x", score=0.5, sig=records.DerivedSig()
    ),
    "document": DOCUMENT,
    "entry of `usage`": records.ModelUsage(model="m"),
    "entry of `quarantined`": records.QuarantinedLayer(
        dataset_id="d",
        doc_name="",
        layer="L0",
        input_sig="i",
        prompt_sig="p",
        reason="empty",
        message="nothing",
        quarantined_at=NOW,
    ),
    "layer": records.DerivedLayer(
        dataset_id="d", doc_name="a", layer="L0", content="short", sig=SIG
    ),
    "entry of `health` in `status`": records.HealthCheck(name="store", status="ok", detail="well"),
    "entry of `findings` and `repaired`": records.Finding(
        check="c", place="p", detail="d", why="w", examples=("a",)
    ),
    "failure": FAILURE,
    "entry of `datasets` in `status`": records.DatasetStats(
        dataset_id="d",
        documents=1,
        chunks=2,
        vectors=2,
        layers=0,
        stale=0,
        size=9,
        config=records.DatasetConfig(chunker_sig="c"),
        spaces=(records.EmbeddingSpace(embed_sig="e", dimension=3, vectors=2),),
    ),
}
"""One of each object that the page describes, by its name there."""

EXTRA = {"document": {"content"}, "entry of `health` in `status`": {"problems", "ok"}}
"""Keys that are told elsewhere on the page, or beside the object."""


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield key
            if key not in ("metadata", "scores"):
                yield from keys(below)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each)


def described() -> dict[str, set[str]]:
    table = (
        PAGE.read_text(encoding="utf-8").partition("| object | fields |")[2].partition("\n\n")[0]
    )
    rows = re.findall(r"^\| ([^|-]+) \| (.+) \|$", table, re.MULTILINE)
    return {
        name: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", said))) for name, said in rows
    }


def test_the_page_describes_these_objects() -> None:
    assert set(described()) == set(OBJECTS)


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_has_the_fields_that_the_page_names(name: str) -> None:
    found = to_json(OBJECTS[name])
    assert set(keys(found)) ^ described()[name] == EXTRA.get(name, set())
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_every_view_is_of_a_record_that_there_is() -> None:
    for path in VIEWS:
        module, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(module), name)
        assert attrs.has(kind), path
        assert (kind.__module__, kind.__qualname__) == (module, name)


def test_documents_show_all_metadata_and_provenance_only_where_there_is_some() -> None:
    shown = to_json(DOCUMENT)
    assert shown["metadata"] == DOCUMENT.metadata
    assert shown["sync_root"] == "notes-1"
    assert shown["expires_at"] == "2999-01-01T00:00:00+00:00"
    assert not {"system", "outline"} & set(shown)
    plain = attrs.evolve(DOCUMENT, original_sha256="", parser_sig="", system=records.SystemData())
    assert not {"original_sha256", "parser_sig", "sync_root", "expires_at"} & set(to_json(plain))


def test_a_record_without_a_view_is_shown_by_its_fields() -> None:
    assert to_json([Skipped(name="a", reason="hidden")]) == [{"name": "a", "reason": "hidden"}]


def test_reports_count_what_they_name() -> None:
    report = to_json(records.RebuildReport(checked=3, rebuilt=2, failed=(FAILURE,)))
    assert report["counts"]["failed"] == len(report["failures"]) == 1
    assert report["failures"][0]["error"] == {"type": "StoreError", "message": "the disk is full"}
    scope = records.RebuildScope(dataset_id="d")
    record = RebuildRecord(
        scope=scope,
        events=1,
        attempt=1,
        duration=0.12345,
        report=records.RebuildReport(checked=3, rebuilt=2, failed=(FAILURE,)),
    )
    told = to_json(record)
    assert {key: told[key] for key in report} == report
    assert (told["seconds"], told["names"], told["error"]) == (0.123, None, None)
    raised = to_json(attrs.evolve(record, report=None, error=errors.StoreError("no")))
    assert (raised["counts"], raised["failures"]) == (None, [])
    assert raised["error"] == {"type": "StoreError", "message": "no"}


def test_a_sync_and_its_plan_have_one_form_but_for_what_they_cost() -> None:
    done = to_json(SyncReport(added=1, renamed=(("a", "b"),), deleted=("c",), reused=4))
    planned = to_json(SyncPlan(added=("d",), renamed=(("a", "b"),), deleted=("c",), model_calls=1))
    spent = {"reused": 4, "pending": 0, "expired": 0}
    assert done["counts"] | {"model_calls": 1} == planned["counts"] | spent
    assert done["renamed"] == planned["renamed"] == [["a", "b"]]
    assert set(planned) - set(done) == {"added", "updated"}


def test_a_report_of_layers_tells_its_limit_as_it_is() -> None:
    assert to_json(LayerReport(stopped="max_cost", least=0.25))["least"] == 0.25


def test_answers_of_a_service_have_forms() -> None:
    with triptych.open("memory://", embedder=HashEmbedder()) as service:
        service.put_document("d", "a.md", "# Tea\n\nGreen tea is steeped at 70 degrees.")
        result = to_json(service.search("tea", dataset_id="d"))
        assert [hit["name"] for hit in result["hits"]] == ["a.md"]
        pack = to_json(service.context("tea", 500, dataset_id="d"))
        assert pack["pieces"][0]["citation"]["doc_name"] == "a.md"
        health = to_json(service.health())
        assert health["ok"] is True
        assert {check["status"] for check in health["checks"]} == {"ok"}
        assert to_json(service.doctor())["clean"] is True
        (stats,) = to_json(service.stats())
        assert [space["vectors"] for space in stats["spaces"]] == [1]
