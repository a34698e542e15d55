"""The JSON form of records: that of their fields, as the reference page names them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

import triptych
from support.rows import each_row
from triptych import errors, records
from triptych.answers import ContextPack
from triptych.contracts import FailureWarning
from triptych.events import RebuildRecord
from triptych.layers import LayerPlan
from triptych.records.serialization import from_dict, to_dict, to_json
from triptych.sync import SyncReport
from triptych_models import HashEmbedder

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
    "sig, of a hit, layer or piece": SIG,
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
        further_spaces=(records.StoredSpace(kind="sparse", sig="s", vectors=2),),
    ),
}
"""One of each object that the page describes, by its name there."""

EXTRA = {"entry of `health` in `status`": {"problems", "ok"}}
"""Keys that are told elsewhere on the page, or beside the object."""


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield key
            if key not in ("metadata", "scores", "sig"):
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


@each_row("name", OBJECTS)
def test_an_object_has_the_fields_that_the_page_names(name: str) -> None:
    found = to_json(OBJECTS[name])
    assert set(keys(found)) ^ described()[name] == EXTRA.get(name, set())
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_documents_show_all_metadata_and_whence_they_are() -> None:
    shown = to_json(DOCUMENT)
    assert shown["metadata"] == DOCUMENT.metadata
    assert shown["system"]["sync_root"] == "notes-1"
    assert shown["system"]["expires_at"] == "2999-01-01T00:00:00+00:00"


def test_reports_have_the_names_of_python() -> None:
    report = to_json(records.RebuildReport(checked=3, rebuilt=2, failed=(FAILURE,)))
    assert (report["checked"], report["rebuilt"], report["fresh"]) == (3, 2, 0)
    error = {"type": "StoreError", "message": "the disk is full"}
    assert report["failed"] == [{"dataset_id": "d", "name": "a", "error": error}]
    scope = records.RebuildScope(dataset_id="d")
    record = RebuildRecord(
        scope=scope, events=1, attempt=1, duration=0.5, error=errors.StoreError("no")
    )
    told = to_json(record)
    assert (told["scope"]["dataset_id"], told["duration"], told["report"]) == ("d", 0.5, None)
    assert told["error"] == {"type": "StoreError", "message": "no"}
    done = to_json(SyncReport(added=1, renamed=(("a", "b"),), deleted=("c",), reused=4))
    assert (done["added"], done["renamed"], done["deleted"]) == (1, [["a", "b"]], ["c"])


def test_an_error_does_not_repeat_the_text_that_was_stored() -> None:
    failure = attrs.evolve(FAILURE, error=errors.DerivationError("later", document=DOCUMENT))
    assert to_json(failure)["error"] == {"type": "DerivationError", "message": "later"}
    assert from_dict(records.Failure, to_dict(failure)).error.document == DOCUMENT  # type: ignore[attr-defined]  # of its class


def test_a_warning_that_knows_its_reason_is_text() -> None:
    warning = FailureWarning("the vector lane did not run", errors.ProviderError("no answer"))
    assert to_json(records.Result(warnings=(warning,)))["warnings"] == [
        "the vector lane did not run: no answer"
    ]


def test_what_is_no_data_is_left_out() -> None:
    plan = LayerPlan(dataset_id="d", model="m", walk=lambda: iter(()))
    assert not {"walk", "scope"} & set(to_json(plan))


def test_answers_of_a_service_come_back_as_records() -> None:
    with triptych.open("memory://", embedder=HashEmbedder()) as service:
        service.put_document("d", "a.md", "# Tea\n\nGreen tea is steeped at 70 degrees.")
        found = service.search("tea", dataset_id="d")
        result = to_json(found)
        assert result["hits"][0] == found[0].to_dict()
        for name in ("chunk_id", "version", "end_line", "snippet"):
            assert result["hits"][0][name] == getattr(found[0], name)
        assert from_dict(records.Result, result) == found
        pack = service.context("tea", 500, dataset_id="d")
        shown = to_json(pack)
        assert (shown["text"], shown["pieces"][0]["citation"]["doc_name"]) == (
            pack.render(),
            "a.md",
        )
        assert from_dict(ContextPack, shown) == pack
        del shown["receipt"]
        with pytest.raises(errors.ValidationError, match="receipt of a ContextPack is missing"):
            from_dict(ContextPack, shown)
        health = to_json(service.health())
        assert health["ok"] is True
        assert {check["status"] for check in health["checks"]} == {"ok"}
        assert to_json(service.doctor())["clean"] is True
        (stats,) = to_json(service.stats())
        assert [space["vectors"] for space in stats["spaces"]] == [1]
