"""Results as tables: every system beside Triptych, how each grows, one shape beside another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]
Numbers = Mapping[str, Any]

ROWS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("make an empty store", "ms", ("create_ms",)),
    ("ingest until searchable", "chunks/s", ("ingest", "chunks_per_second")),
    ("keyword p50", "ms", ("lanes", "keyword", "p50")),
    ("keyword p95", "ms", ("lanes", "keyword", "p95")),
    ("keyword p99", "ms", ("lanes", "keyword", "p99")),
    ("vector p50", "ms", ("lanes", "vector", "p50")),
    ("vector p95", "ms", ("lanes", "vector", "p95")),
    ("vector p99", "ms", ("lanes", "vector", "p99")),
    ("hybrid p50", "ms", ("lanes", "hybrid", "p50")),
    ("hybrid p95", "ms", ("lanes", "hybrid", "p95")),
    ("hybrid p99", "ms", ("lanes", "hybrid", "p99")),
    ("replace one document until found, p50", "ms", ("replace", "p50")),
    ("replace one document until found, p95", "ms", ("replace", "p95")),
    ("keyword p50 after updates", "ms", ("lanes_after_updates", "keyword", "p50")),
    ("hybrid p50 after updates", "ms", ("lanes_after_updates", "hybrid", "p50")),
    ("one thread beside a writer", "searches/s", ("threads", "one_per_second")),
    ("eight threads beside a writer", "searches/s", ("threads", "many_per_second")),
    ("eight threads over one", "", ("threads", "ratio")),
    ("delete one document, p50", "ms", ("delete", "p50")),
    ("write or fold in after updates", "s", ("save", "after_updates_seconds")),
    ("reopen to first answer", "ms", ("reopen", "open_to_first_answer_ms")),
    ("import", "ms", ("reopen", "import_ms")),
    ("peak memory, ingest", "MB", ("memory", "ingest_peak_mb")),
    ("memory of a reopened process", "MB", ("reopen", "resident_mb")),
    ("disk", "MB", ("disk_mb",)),
    ("fsyncs of a replacement", "", ("fsyncs", "replace")),
    ("fsyncs of an ingest (at most 10,000 chunks)", "", ("fsyncs", "ingest")),
    ("keyword: agreement with exact", "", ("agreement", "keyword")),
    ("vector: agreement with exact", "", ("agreement", "vector")),
)
_MORE_IS_BETTER = {"chunks/s", "searches/s"}
_PLAIN = {"agreement", "fsyncs", "create_ms", "ratio"}


def at(numbers: Numbers, path: Sequence[str]) -> float | None:
    """The number at a path, None where it was not measured."""
    found: Any = numbers
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return None
        found = found[key]
    return found if isinstance(found, int | float) else None


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.0f}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def beside(document: Document) -> str:
    """Markdown: a row a measure, a column a system, with its ratio to Triptych's in brackets.

    A ratio above 1 means that Triptych is that many times better, as the measure counts.
    """
    systems = {
        name: numbers for name, numbers in document["systems"].items() if "skipped" not in numbers
    }
    own = systems.get("triptych", {})
    rows = []
    for label, unit, path in ROWS:
        values = {name: at(numbers, path) for name, numbers in systems.items()}
        if all(value is None for value in values.values()):
            continue
        base = at(own, path)
        cells = []
        for name, value in values.items():
            cell = shown(value)
            if value and base and name != "triptych" and not _PLAIN & set(path):
                ratio = base / value if unit in _MORE_IS_BETTER else value / base
                cell += f" ({ratio:.2g}×)"
            cells.append(cell)
        rows.append([f"{label}, {unit}" if unit else label, *cells])
    table = _markdown(["", *systems], rows)
    notes = [
        f"{name}: {numbers.get('skipped') or numbers.get('failed')}"
        for name, numbers in document["systems"].items()
        if "skipped" in numbers or "failed" in numbers
    ]
    notes += [f"{name}: {word}" for name, numbers in systems.items() for word in _missed(numbers)]
    return "\n".join([table, "", *notes]) if notes else table


def _missed(numbers: Numbers) -> list[str]:
    said = []
    for act, word in (
        ("replace", "replaced documents were not found"),
        ("delete", "deleted documents were still found"),
    ):
        missed = at(numbers, (act, "missed"))
        if missed:
            said.append(f"{missed:.0f} of {at(numbers, (act, 'count')):.0f} {word}")
    if at(numbers, ("wrong_texts",)):
        said.append(f"{numbers['wrong_texts']} hits brought another text than their chunk's")
    return said


def growth(small: Document, large: Document) -> str:
    """Markdown: how many times each number is larger in the larger corpus."""
    names = [
        name
        for name, numbers in large["systems"].items()
        if "skipped" not in numbers and "skipped" not in small["systems"].get(name, {"skipped": 1})
    ]
    rows = []
    for label, unit, path in ROWS:
        if path[0] == "agreement":
            continue
        cells = []
        for name in names:
            less, more = (at(one["systems"][name], path) for one in (small, large))
            cells.append(f"{more / less:.2g}×" if less and more else "–")
        if any(cell != "–" for cell in cells):
            rows.append([f"{label}, {unit}" if unit else label, *cells])
    return _markdown(["", *names], rows)


SHAPE_ROWS = tuple(
    row
    for row in ROWS
    if row[2][0] in ("ingest", "replace", "delete", "disk_mb")
    or row[2] == ("memory", "ingest_peak_mb")
    or (row[2][0] == "lanes" and row[2][2] == "p50")
)


def shapes(few: Document, many: Document) -> str:
    """Markdown: each system with few chunks a document, and in brackets the same over many.

    Rates in brackets above 1 are faster with few, times above 1 slower.
    """
    names = [
        name
        for name, numbers in few["systems"].items()
        if "skipped" not in numbers and "skipped" not in many["systems"].get(name, {"skipped": 1})
    ]
    rows = []
    for label, unit, path in SHAPE_ROWS:
        cells = []
        for name in names:
            one, other = (at(each["systems"][name], path) for each in (few, many))
            ratio = f" ({one / other:.2g} of {shown(other)})" if one and other else ""
            cells.append(shown(one) + ratio)
        if any(cell != "–" for cell in cells):
            rows.append([f"{label}, {unit}", *cells])
    return _markdown(["", *names], rows)


def line(numbers: Numbers) -> str:
    """The one line that tells of a system when it is done."""
    if "skipped" in numbers:
        return f"skipped: {numbers['skipped']}"
    parts: list[tuple[str, Sequence[str], Callable[[float], str]]] = [
        ("ingest", ("ingest", "chunks_per_second"), lambda value: f"{value:,.0f}/s"),
        ("keyword", ("lanes", "keyword", "p50"), lambda value: f"{shown(value)} ms"),
        ("vector", ("lanes", "vector", "p50"), lambda value: f"{shown(value)} ms"),
        ("hybrid", ("lanes", "hybrid", "p50"), lambda value: f"{shown(value)} ms"),
        ("replace", ("replace", "p50"), lambda value: f"{shown(value)} ms"),
    ]
    said = [
        f"{label} {show(value)}"
        for label, path, show in parts
        if (value := at(numbers, path)) is not None
    ]
    if "failed" in numbers:
        said.append(f"FAILED in {numbers['failed']}")
    return ", ".join(said)
