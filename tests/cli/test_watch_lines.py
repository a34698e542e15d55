"""What `triptych watch` says of a rebuild: which documents it was about."""

from __future__ import annotations

from pathlib import Path

import attrs

from support.rows import each_row
from triptych import RebuildReport, RebuildScope
from triptych.events import RebuildRecord
from triptych.sync import HeldDeletions
from triptych_adapters.cli.watch import _json, _line

A = RebuildScope(dataset_id="d", doc_name="guide/a.md")
AB = RebuildScope(dataset_id="d", doc_names=["guide/a.md", "b.md"])


def record(scope: RebuildScope) -> RebuildRecord:
    report = RebuildReport(checked=2, rebuilt=2, embedded=3, reused=4)
    return RebuildRecord(scope=scope, events=2, attempt=1, duration=0.5, report=report)


def test_deletions_that_wait_are_no_failures() -> None:
    held = HeldDeletions(
        root=Path("notes"), dataset_id="d", names=("a.md", "b.md"), documents=3, deleted=1
    )
    report = RebuildReport(checked=2, rebuilt=1, failed=[held.failure])
    line = _line(attrs.evolve(record(A), report=report))
    assert "1 written, 2 not deleted yet; " in line
    said = str(held.failure.error)
    assert said.startswith("2 of the 3 documents of 'notes' have no file any more, ")
    assert "none of them was deleted (before them, 1 more); " in said


@each_row(
    ("scope", "where", "dataset", "names"),
    [
        (A, "d/guide/a.md", "d", ["guide/a.md"]),
        (AB, "d, 2 documents", "d", ["b.md", "guide/a.md"]),
        (RebuildScope(dataset_id="d"), "d", "d", []),
        (RebuildScope(), "everything", "", []),
    ],
)
def test_a_line_says_which_documents_were_rebuilt(
    scope: RebuildScope, where: str, dataset: str, names: list[str]
) -> None:
    line = _line(record(scope)).partition(" ")[2]
    assert line == f"{where}: 2 written; 3 chunks embedded, 4 reused; 0.50 s"
    told = _json(record(scope))["scope"]
    assert (told["dataset_id"], told["doc_names"]) == (dataset, names)
