"""Results as tables: Triptych by corpus, and every system beside Triptych."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]
Numbers = Mapping[str, Any]

ROWS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("one scan of all vectors", "ms", ("scan_ms",)),
    ("ingest until searchable", "chunks/s", ("ingest", "chunks_per_second")),
    ("peak memory, ingest", "MB", ("memory", "ingest_peak_mb")),
    ("disk", "MB", ("disk_mb",)),
    ("keyword p50", "ms", ("lanes", "keyword", "p50")),
    ("… as a share of a scan", "", ("of_a_scan", "keyword")),
    ("… processor time", "ms", ("lanes", "keyword", "cpu")),
    ("… by frequent words", "ms", ("words", "frequent", "keyword", "p50")),
    ("… by rare words", "ms", ("words", "rare", "keyword", "p50")),
    ("… among 1% of the documents", "ms", ("filters", "1%", "keyword", "p50")),
    ("… among 50%", "ms", ("filters", "50%", "keyword", "p50")),
    ("vector p50", "ms", ("lanes", "vector", "p50")),
    ("… among 1% of the documents", "ms", ("filters", "1%", "vector", "p50")),
    ("… among 50%", "ms", ("filters", "50%", "vector", "p50")),
    ("hybrid p50", "ms", ("lanes", "hybrid", "p50")),
    ("… as a share of a scan", "", ("of_a_scan", "hybrid")),
    ("… processor time", "ms", ("lanes", "hybrid", "cpu")),
    ("… p95", "ms", ("lanes", "hybrid", "p95")),
    ("… by frequent words", "ms", ("words", "frequent", "hybrid", "p50")),
    ("… by rare words", "ms", ("words", "rare", "hybrid", "p50")),
    ("… among 1% of the documents", "ms", ("filters", "1%", "hybrid", "p50")),
    ("… among 50%", "ms", ("filters", "50%", "hybrid", "p50")),
    ("… after updates", "ms", ("lanes_after_updates", "hybrid", "p50")),
    ("replace one document until found, p50", "ms", ("replace", "p50")),
    ("delete one document, p50", "ms", ("delete", "p50")),
    ("write or fold in after updates", "s", ("save", "after_updates_seconds")),
    ("keyword, one thread", "searches/s", ("threads", "keyword", "1")),
    ("… two threads over one", "", ("threads", "keyword", "2_over_1")),
    ("… eight threads over one", "", ("threads", "keyword", "8_over_1")),
    ("… two processes over one", "", ("processes", "two_over_one", "keyword")),
    ("hybrid, one thread", "searches/s", ("threads", "hybrid", "1")),
    ("… two threads over one", "", ("threads", "hybrid", "2_over_1")),
    ("… eight threads over one", "", ("threads", "hybrid", "8_over_1")),
    ("… two processes over one", "", ("processes", "two_over_one", "hybrid")),
    ("hybrid, one thread beside a writer", "searches/s", ("beside_a_writer", "one_per_second")),
    ("… eight over one", "", ("beside_a_writer", "ratio")),
    ("reopen to first answer", "ms", ("reopen", "open_to_first_answer_ms")),
    ("import", "ms", ("reopen", "import_ms")),
    ("memory of a reopened process", "MB", ("reopen", "resident_mb")),
    ("fsyncs of a replacement", "", ("fsyncs", "replace")),
    ("keyword: agreement with exact", "", ("agreement", "keyword")),
    ("vector: agreement with exact", "", ("agreement", "vector")),
    ("queries with the same hits as Triptych's", "", ("same_hits",)),
)
_MORE_IS_BETTER = {"chunks/s", "searches/s"}


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


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def beside(document: Document) -> str:
    """Markdown: a row a measure, a column a system, with its ratio to Triptych's in brackets.

    A ratio above 1 means that Triptych is that many times better, as the measure counts.
    """
    systems = {
        name: numbers for name, numbers in document["systems"].items() if "skipped" not in numbers
    }
    own = list(systems).index("triptych") if "triptych" in systems else None
    notes = [
        f"{name}: {numbers.get('skipped') or numbers.get('failed')}"
        for name, numbers in document["systems"].items()
        if "skipped" in numbers or "failed" in numbers
    ]
    notes += [f"{name}: {word}" for name, numbers in systems.items() for word in _missed(numbers)]
    table = _table(list(systems), list(systems.values()), own)
    return "\n".join([table, "", *(f"- {note}" for note in notes)]) if notes else table


def shapes(documents: Sequence[Document]) -> str:
    """Markdown: a row a measure of Triptych, a column a corpus."""
    own = [one["systems"].get("triptych", {}) for one in documents]
    return _table([title(one["corpus"]) for one in documents], own)


def title(corpus: Mapping[str, Any]) -> str:
    return f"{corpus['chunks']:,} chunks, {corpus['name']}"


def _table(names: Sequence[str], columns: Sequence[Numbers], own: int | None = None) -> str:
    """A row a measure; with ratios to the column ``own``."""
    rows = [
        [
            "measured",
            *(
                " ".join(each.get(k, "") for k in ("taken", "commit", "note")).strip() or "–"
                for each in columns
            ),
        ]
    ]
    for label, unit, path in ROWS:
        values = [at(numbers, path) for numbers in columns]
        if all(value is None for value in values):
            continue
        base = None if own is None else values[own]
        cells = [shown(value) for value in values]
        for place, value in enumerate(values):
            if value and base and place != own and unit and path != ("scan_ms",):
                ratio = base / value if unit in _MORE_IS_BETTER else value / base
                cells[place] += f" ({ratio:,.0f}×)" if ratio >= 100 else f" ({ratio:.2g}×)"
        rows.append([f"{label}, {unit}" if unit else label, *cells])
    return markdown(["", *names], rows)


def _missed(numbers: Numbers) -> list[str]:
    said = []
    for act, word in (
        ("replace", "replaced documents were not found"),
        ("delete", "deleted documents were still found"),
    ):
        missed = at(numbers, (act, "missed"))
        if missed:
            said.append(f"{missed:.0f} of {at(numbers, (act, 'count')):.0f} {word}")
    if at(numbers, ("outside_filter",)):
        said.append(f"{numbers['outside_filter']} hits were not of the filter's documents")
    if at(numbers, ("wrong_texts",)):
        said.append(f"{numbers['wrong_texts']} hits brought another text than their chunk's")
    return said


def page(documents: Sequence[Document]) -> str:
    """All tables of one machine: Triptych by corpus, and each corpus beside the others."""
    machine = documents[0]["machine"]
    loads = [
        one["load_before"]
        for each in documents
        for one in each["systems"].values()
        if "load_before" in one
    ]
    parts = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB; Python "
        f"{machine['python']}; an fsync takes {machine['fsync_ms']['p50']:g} ms. The load before "
        f"each system was at most {max(loads, default=0):g}."
    ]
    if len(documents) > 1 or len(documents[0]["systems"]) == 1:
        parts.append(shapes(documents))
    for each in documents:
        if len(each["systems"]) > 1:
            brackets = "in brackets, how many times better Triptych is:"
            parts += [f"{title(each['corpus'])}; {brackets}", beside(each)]
    return "\n\n".join(parts)


_BRIEF = (
    ("ingest, chunks/s", ("ingest", "chunks_per_second")),
    ("peak memory, MB", ("memory", "ingest_peak_mb")),
    ("disk, MB", ("disk_mb",)),
    ("keyword, ms", ("lanes", "keyword", "p50")),
    ("vector, ms", ("lanes", "vector", "p50")),
    ("hybrid, ms", ("lanes", "hybrid", "p50")),
    ("hybrid among 50%, ms", ("filters", "50%", "hybrid", "p50")),
    ("replace until found, ms", ("replace", "p50")),
    ("fsyncs of it", ("fsyncs", "replace")),
)


def brief(documents: Sequence[Document]) -> str:
    """For each generated corpus: a row a system, a column for each of the main measures."""
    parts = []
    for each in documents:
        systems = {
            name: numbers
            for name, numbers in each["systems"].items()
            if "skipped" not in numbers and not name.startswith("triptych-")
        }
        if each["corpus"]["text"] != "generated" or len(systems) == 1:
            continue
        rows = [
            [
                f"{name} {next(iter(numbers['packages'].values()))}",
                *(shown(at(numbers, path)) for _, path in _BRIEF),
            ]
            for name, numbers in systems.items()
        ]
        taken = sorted({numbers.get("taken", "") for numbers in systems.values()})
        parts.append(f"{title(each['corpus'])}, measured {' to '.join(taken)}:")
        parts.append(markdown(["", *(label for label, _ in _BRIEF)], rows))
    return "\n\n".join(parts)


def write(
    path: Path, documents: Sequence[Document], show: Callable[[Sequence[Document]], str] = page
) -> None:
    """Put what ``show`` makes into a Markdown file, in the place of the last of this machine."""
    machine = documents[0]["machine"]
    begin = f"<!-- peers.py on {machine['processor']}, {machine['cores']} cores -->"
    replace_block(path, begin, "<!-- end of peers.py -->", show(documents))


def replace_block(path: Path, begin: str, end: str, text: str) -> None:
    """Put a text between two comments of a Markdown file, or at its end with both."""
    block = f"{begin}\n\n{text}\n\n{end}"
    text = path.read_text("utf-8")
    if begin in text:
        before, _, rest = text.partition(begin)
        text = before + block + rest.partition(end)[2]
    else:  # below those of other machines
        before, last, after = text.rpartition(end)
        text = f"{before}{last}\n\n{block}{after}" if last else f"{after}\n{block}\n"
    path.write_text(text, "utf-8")


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
