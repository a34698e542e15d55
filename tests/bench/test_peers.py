"""The benchmark harness works: on a corpus too small to time, with what is installed."""

from __future__ import annotations

import contextlib
import io
import json
import signal
import sys
import xml.etree.ElementTree as ET
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from triptych.text import corpus_stats, score_text

BENCH = Path(__file__).parents[2] / "bench"

# The harness is not an installed package: it is imported from where it stands.
sys.path.insert(0, str(BENCH))
corpora = import_module("harness.corpus")
oracle = import_module("harness.oracle")
plot = import_module("plot")
program = import_module("peers")
storing = import_module("harness.results")
running = import_module("harness.run")
contract = import_module("harness.system")
systems = import_module("harness.systems")
table = import_module("harness.table")


def measure(folder: Path, *only: str) -> str:
    """What the program prints of a small corpus with few questions, run in this process."""
    # An hour: what a busy machine takes is no failure.
    arguments = ("--chunks", "120", "--only", *only, "--results", str(folder), "--timeout", "3600")
    printed, terminate = io.StringIO(), signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", ["peers.py", *arguments])
        # The others would only steady a number that nobody looks at here.
        patch.setattr(running, "REOPENINGS", 1)
        patch.setattr(corpora, "QUERIES", 60)
        try:
            program.main()
        finally:
            signal.signal(signal.SIGTERM, terminate)
    return printed.getvalue()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("results")
    return folder, measure(folder, "triptych", "rank-bm25")


def read(folder: Path) -> dict[str, dict[str, object]]:
    systems: dict[str, dict[str, object]] = json.loads((folder / "generated-120.json").read_text())
    return systems


def test_a_run_measures_triptych_and_a_peer(measured: tuple[Path, str]) -> None:
    document = read(measured[0])
    own, peer = document["systems"]["triptych"], document["systems"]["rank-bm25"]
    assert [system.get("failed") for system in (own, peer)] == [None, None]
    assert own["agreement"] == {"keyword": 1.0, "vector": 1.0}
    assert own["wrong_texts"] == peer["wrong_texts"] == 0
    assert own["replace"]["missed"] == own["delete"]["missed"] == peer["delete"]["missed"] == 0
    assert own["replace"]["count"] == 6
    assert set(own["lanes"]) == set(own["lanes_after_updates"]) == {"keyword", "vector", "hybrid"}
    assert set(peer["lanes"]) == {"keyword"}
    assert own["words"]["rare"].keys() == own["words"]["frequent"].keys() == {"keyword", "hybrid"}
    assert own["filters"]["1%"].keys() == own["filters"]["50%"].keys() == own["lanes"].keys()
    assert own["outside_filter"] == 0
    assert "filters" not in peer
    assert own["of_a_scan"].keys() == own["lanes"].keys()
    assert own["threads"]["hybrid"].keys() >= {"1", "2", "8", "8_over_1"}
    assert own["processes"]["two_over_one"].keys() == {"keyword", "hybrid"}
    assert own["disk_mb"] > 0
    assert own["reopen"]["resident_mb"] > 0
    assert peer["reopen"] == "nothing persists"
    assert own["commit"]
    assert "OPENBLAS_CORETYPE" in document["machine"]["unset_for_measured_processes"]


def test_a_replacement_costs_one_fsync(measured: tuple[Path, str]) -> None:
    counted = read(measured[0])["systems"]["triptych"]["fsyncs"]
    if isinstance(counted, str):
        pytest.skip(counted)
    assert counted["replace"] == 1.0


def test_ratios_are_printed(measured: tuple[Path, str]) -> None:
    said = measured[1]
    assert "| keyword p50, ms |" in said
    assert "×)" in said
    assert "generated-120.json" in said
    assert "| … as a share of a scan |" in said


def test_what_has_been_measured_is_not_measured_again(measured: tuple[Path, str]) -> None:
    said = measure(measured[0], "rank-bm25")
    assert "as measured before" in said
    assert "triptych" in read(measured[0])["systems"]


def test_a_result_of_changed_sources_or_of_a_failure_does_not_stand(tmp_path: Path) -> None:
    machine = {"processor": "one", "cores": 1, "python": "3"}
    results = storing.Results(tmp_path, {"name": "small", "chunks": 1}, machine)
    system = systems.system_of("rank-bm25")
    known = storing.provenance("rank-bm25", system)
    for numbers, stands in [
        (known, True),
        ({**known, "harness": "another"}, False),
        ({**known, "failed": "ingest: exit 1: no"}, False),
        ({**known, "failed": "ingest: took more than 9 s"}, True),
        ({"skipped": "not installed"}, False),
    ]:
        results.put("rank-bm25", numbers, systems.NAMES)
        assert results.stands("rank-bm25", system) is stands
    other = storing.Results(tmp_path, {"name": "small", "chunks": 1}, {**machine, "cores": 2})
    assert other.systems == {}


def test_one_chunk_a_document_stands_beside_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--chunks", "40", "--chunks-per-document", "10", "1", "--only", "rank-bm25"]
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    compared = tmp_path / "compared.md"
    compared.write_text("# Compared\n")
    monkeypatch.setattr(program, "PAGE", page)
    monkeypatch.setattr(program, "COMPARISON", compared)
    monkeypatch.setattr(plot, "OUT", tmp_path / "plot.svg")
    monkeypatch.setattr(
        sys, "argv", ["peers.py", *arguments, "--results", str(tmp_path), "--write"]
    )
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        program.main()
    finally:
        signal.signal(signal.SIGTERM, terminate)
    described = {}
    for path in tmp_path.glob("*.json"):
        document = json.loads(path.read_text())
        assert "failed" not in document["systems"]["rank-bm25"]
        assert document["systems"]["rank-bm25"]["delete"]["missed"] == 0
        described[path.name] = document["corpus"]
    assert {name: about["chunks"] for name, about in described.items()} == {
        "generated-40.json": 40,
        "generated-1-a-document-40.json": 40,
    }
    assert described["generated-40.json"]["documents"] == 4
    assert described["generated-1-a-document-40.json"]["documents"] == 40
    heading = "|  | 40 chunks, generated | 40 chunks, generated-1-a-document |"
    assert heading in capsys.readouterr().out
    assert heading in page.read_text()
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")


def test_a_page_holds_the_last_tables_of_each_machine(
    measured: tuple[Path, str], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nBefore.\n")
    document = read(measured[0])
    for cores, peer in [(1, "first"), (2, "second"), (1, "third")]:
        machine = {**document["machine"], "cores": cores}
        found = {
            peer if name == "rank-bm25" else name: n for name, n in document["systems"].items()
        }
        table.write(page, [{**document, "machine": machine, "systems": found}])
    page.write_text(page.read_text() + "\nAfter.\n")
    table.write(page, [{**document, "machine": {**document["machine"], "cores": 2}}])
    text = page.read_text()
    assert text.startswith("# Page\n\nBefore.\n")
    assert text.endswith("\nAfter.\n")
    heads = [row for row in text.splitlines() if row.startswith("|  | triptych |")]
    assert heads == ["|  | triptych | third |", "|  | triptych | rank-bm25 |"]


def test_the_median_of_several_rounds_stands(measured: tuple[Path, str]) -> None:
    rounds = [{"p50": 3, "said": "a", "lanes": {"x": n}} for n in (1, 5, 2)]
    assert storing.median_of(rounds) == {"p50": 3, "said": "a", "lanes": {"x": 2}}
    assert storing.median_of([{"failed": "once"}, {"p50": 1}]) == {"failed": "once", "p50": 1}


def test_another_tree_is_measured_by_its_sources(tmp_path: Path) -> None:
    elsewhere = import_module("harness.machine").environment(tmp_path)["PYTHONPATH"]
    assert str(tmp_path / "knowledge") in elsewhere
    assert str(BENCH) in elsewhere


def test_what_is_no_checkout_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["peers.py", "--chunks", "40", "--tree", str(tmp_path)])
    with pytest.raises(SystemExit):
        program.main()
    assert "a checkout of it" in capsys.readouterr().err


def test_the_plot_shows_every_system(measured: tuple[Path, str], tmp_path: Path) -> None:
    document = read(measured[0])
    larger = json.loads(json.dumps(document))
    larger["corpus"]["chunks"] = 1200
    drawn = plot.draw([larger, document])
    root = ET.fromstring(drawn)
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"triptych", "rank-bm25", "Hybrid search, p50"} <= set(texts)
    assert any(text and text.startswith("120 → 1,200 chunks") for text in texts)


class TestCorpus:
    def test_generated_text_is_the_same_every_time(self, tmp_path: Path) -> None:
        about = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            about.append(corpora.prepare(tmp_path / name, chunks=30, text=None))
        assert about[0] == about[1]
        assert about[0]["chunks"] == 30
        for file in ("corpus.jsonl", "edits.json", "about.json"):
            one, two = ((tmp_path / name / file).read_bytes() for name in ("one", "two"))
            assert one == two

    def test_queries_are_of_frequent_and_of_rare_words(self, tmp_path: Path) -> None:
        corpora.prepare(tmp_path, chunks=300, text=None)
        feed = corpora.Feed(tmp_path, corpora.Given())
        chunks = [
            set(contract.plain_terms(chunk.text))
            for document in feed.documents()
            for chunk in document.chunks
        ]

        def holders(kind: str) -> list[int]:
            words = {word for text, _ in feed.asked[kind] for word in text.split()}
            return [sum(word in chunk for chunk in chunks) for word in words]

        assert all(len(text.split()) == 8 for asked in feed.asked.values() for text, _ in asked)
        assert min(holders("frequent")) > 300 / 20
        assert set(holders("rare")) == {2}

    def test_real_text_is_cut_as_triptych_cuts_it(self, tmp_path: Path) -> None:
        import triptych

        (tmp_path / "text").mkdir()
        (tmp_path / "corpus").mkdir()
        page = "# Title\n\nFirst words.\n\n## Part\n\n" + "More words of it. " * 80
        (tmp_path / "text" / "page.md").write_text(page)
        (tmp_path / "text" / "note.txt").write_text("Plain words.\n\nAnd others.\n")
        (tmp_path / "text" / "left out.bin").write_text("not text")
        about = corpora.prepare(tmp_path / "corpus", chunks=1000, text=tmp_path / "text")
        fed = list(corpora.Feed(tmp_path / "corpus", corpora.Given()).documents())
        assert [document.name for document in fed] == ["note.txt", "page.md"]
        with triptych.open("memory://", embedder=corpora.Given()) as kb:
            for document in fed:
                kb.put_document("x", document.name, document.content)
                stored = list(kb.chunks.iter_chunks("x", document.name))
                assert [chunk.content for chunk in stored] == [c.text for c in document.chunks]
        assert about["chunks"] == sum(len(document.chunks) for document in fed)

    def test_edits_hold_their_needle_in_one_chunk(self, tmp_path: Path) -> None:
        corpora.prepare(tmp_path, chunks=100, text=None)
        feed = corpora.Feed(tmp_path, corpora.Given())
        for edit in feed.edits:
            assert sum(edit.needle in chunk.text for chunk in edit.document.chunks) == 1
        assert len({edit.needle for edit in feed.edits}) == len(feed.edits) == 5


class TestOracle:
    @pytest.fixture
    def corpus(self, tmp_path: Path) -> Path:
        corpora.prepare(tmp_path, chunks=60, text=None)
        return tmp_path

    def test_exact_bm25_is_the_formula(self, corpus: Path) -> None:
        feed = corpora.Feed(corpus, corpora.Given())
        chunks = [chunk for document in feed.documents() for chunk in document.chunks]
        terms = [contract.plain_terms(chunk.text) for chunk in chunks]
        stats = corpus_stats(terms)
        queries = [text for text, _ in feed.asked["mixed"]]
        exact = oracle.ExactBM25(corpus, queries, contract.plain_terms, contract.plain_terms)
        for number, query in enumerate(queries[:20]):
            want = [score_text(contract.plain_terms(query), text, stats) for text in terms]
            assert exact.scores(number, 1.2, 0.75).tolist() == pytest.approx(want)

    def test_a_wrong_ranking_is_reported(self, corpus: Path) -> None:
        feed = corpora.Feed(corpus, corpora.Given())
        chunks = [chunk for document in feed.documents() for chunk in document.chunks]
        queries = [text for text, _ in feed.asked["mixed"][:5]]
        exact = oracle.ExactBM25(corpus, queries, contract.plain_terms, contract.plain_terms)
        ranked = []
        for number in range(len(queries)):
            scores = exact.scores(number, 1.2, 0.75)
            ranked.append([(chunks[at].id, 0) for at in (-scores).argsort(kind="stable")])
        assert exact.agreement([hits[:10] for hits in ranked], (1.2, 0.75)) == 1.0
        assert exact.agreement([hits[10:20] for hits in ranked], (1.2, 0.75)) < 0.5
        assert exact.agreement([hits[:1] * 10 for hits in ranked], (1.2, 0.75)) == 0.1
        assert oracle.wrong_texts(corpus, {"keyword": [ranked[0][:3]]}) == 3

    def test_exact_vectors_are_the_nearest(self, corpus: Path) -> None:
        feed = corpora.Feed(corpus, corpora.Given())
        chunks = [chunk for document in feed.documents() for chunk in document.chunks]
        rows = [vector for _, vector in feed.asked["mixed"][:5]]
        exact = oracle.ExactVectors(corpus, rows, corpora.Given())
        ranked = [
            sorted(chunks, key=lambda chunk, row=row: -float(chunk.vector @ row)) for row in rows
        ]
        found = [[(chunk.id, corpora.key_of(chunk.text)) for chunk in order] for order in ranked]
        assert exact.agreement([hits[:10] for hits in found]) == 1.0
        assert exact.agreement([hits[30:40] for hits in found]) == 0.0
        assert exact.agreement([[] for _ in found]) == 0.0

    def test_of_equal_scores_any_is_right(self) -> None:
        assert oracle.share([3.0, 2.0, 2.0], [3.0, 2.0]) == 1.0
        assert oracle.share([3.0, 1.9], [3.0, 2.0]) == 0.5
        assert oracle.share([], []) == 1.0


class TestSystems:
    def test_every_name_has_its_module(self) -> None:
        for name in systems.NAMES:
            system = systems.system_of(name)
            assert issubclass(system, contract.System)
            assert system.setup
            assert system.updates
            assert set(system.lanes) <= {"keyword", "vector", "hybrid"}

    def test_what_is_not_installed_is_named(self) -> None:
        class Absent(systems.system_of("rank-bm25")):  # type: ignore[misc]  # a class made at run time
            modules: ClassVar[tuple[str, ...]] = ("json", "no_such_module.part")

        assert running.missing(Absent) == "no_such_module.part"
        assert running.missing(systems.system_of("triptych")) is None


def test_the_brief_table_has_a_row_for_each_system_and_none_for_variants(
    measured: tuple[Path, str],
) -> None:
    document = read(measured[0])
    own = document["systems"]["triptych"]
    shown = table.brief([{**document, "systems": {**document["systems"], "triptych-pure": own}}])
    rows = [row.split()[1] for row in shown.splitlines() if row.startswith("| ")][2:]
    assert rows == ["triptych", "rank-bm25"]
    assert table.brief([{**document, "systems": {"triptych": own}}]) == ""
