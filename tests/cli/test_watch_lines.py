"""What `triptych watch` says of a rebuild: which documents it was about."""

from __future__ import annotations

from support.rows import each_row
from triptych import RebuildReport, RebuildScope
from triptych.events import RebuildRecord
from triptych_adapters.cli.watch import _json, _line

A = RebuildScope(dataset_id="d", doc_name="guide/a.md")
AB = RebuildScope(dataset_id="d", doc_names=["guide/a.md", "b.md"])


def record(scope: RebuildScope) -> RebuildRecord:
    report = RebuildReport(checked=2, rebuilt=2, embedded=3, reused=4)
    return RebuildRecord(scope=scope, events=2, attempt=1, duration=0.5, report=report)


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
