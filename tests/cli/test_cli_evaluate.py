"""``triptych eval``: what is put, shown, written and refused."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from triptych_evaluation import read_evaluation, read_qrels, read_run

WORDS = ("kettle", "broker", "ledger", "violin")
GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"
GOLDEN = """\
queries:
  - id: limits
    question: how many requests per second
    expected_files: [guide.md]
    passages: [{file: guide.md, text: Ten requests per second.}]
  - id: tea
    question: kettle & <leaves>
    relevance: {tea.md: 2}
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    corpus = [{"_id": word, "title": word, "text": f"About a {word}."} for word in WORDS]
    queries = [{"_id": f"q-{word}", "text": f"what is a {word}"} for word in WORDS]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        shell.write(f"tea/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    judged = "".join(f"q-{word}\t{word}\t1\n" for word in WORDS)
    shell.write("tea/qrels/test.tsv", f"query-id\tcorpus-id\tscore\n{judged}")
    return shell


def test_a_collection_is_put_searched_and_scored(shell: Shell, tmp_path: Path) -> None:
    ran = shell("eval", "retrieval", "--beir", "tea", "--output", "out.json")
    assert ran.code == 0, ran.err
    assert "warning: 4 queries are few" in ran.err
    # Piped: mode, metric, mean and interval, in numbers alone.
    rows = {(row[0], row[1]): row[2:] for row in ran.rows}
    assert rows["bm25", "ndcg@10"] == ["1.000000", "1.000000", "1.000000"]
    assert {mode for mode, _ in rows} == {"bm25", "vector", "hybrid"}
    found = read_evaluation(tmp_path / "out.json")
    assert found.collection == "tea"
    assert found.query_ids == tuple(f"q-{word}" for word in WORDS)
    assert not (tmp_path / "kb.db").exists()


def test_on_a_terminal_there_is_a_table_with_a_mode_a_column(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    ran = shell("eval", "retrieval", "--beir", "tea", "--no-color", "--metrics", "mrr")
    assert ran.code == 0, ran.err
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", ran.text)
    title, head, *rows = [" ".join(line.split()) for line in text.splitlines()]
    assert title == "tea: 4 queries, by document"
    assert head == "bm25 vector hybrid"
    assert rows[0].startswith("mrr 1.0000 [1.0000, 1.0000] ")
    assert rows[1].startswith("ms a search, p50 / p99 ")
    assert "hybrid" in ran.err  # the bar


def test_json_on_stdout_is_all_there_is(shell: Shell, tmp_path: Path) -> None:
    command = ("eval", "retrieval", "--beir", "tea", "--modes", "bm25", "--k", "1,3")
    for ran in (shell("--json", *command), shell(*command, "--json")):
        assert ran.code == 0, ran.err
        assert ran.json["command"] == "eval retrieval"
        assert ran.json["modes"]["bm25"]["metrics"]["recall@3"]["mean"] == 1
        assert ran.json["configuration"]["depth"] == 3
    # What stdout gave is what compare takes.
    (tmp_path / "a.json").write_bytes(ran.out)
    assert shell("eval", "compare", "a.json", "a.json").code == 0


def test_a_store_that_is_named_keeps_the_collection(shell: Shell) -> None:
    arguments = ("eval", "retrieval", "--beir", "tea", "--store", "kept.db", "--modes", "bm25")
    assert shell(*arguments).code == 0
    assert shell("list", "--datasets", "--store", "kept.db").text.split() == ["tea"]
    assert shell(*arguments).code == 0
    assert shell(*arguments, "--dataset", "other").code == 0
    assert shell("list", "--datasets", "--store", "kept.db").text.split() == ["other", "tea"]


def test_an_id_that_no_document_can_have_is_refused_by_line(shell: Shell) -> None:
    row = json.dumps({"_id": "bad/", "title": "", "text": "x"})
    shell.write("bad/corpus.jsonl", row + "\n")
    shell.write("bad/queries.jsonl", json.dumps({"_id": "q", "text": "x"}) + "\n")
    shell.write("bad/qrels/test.tsv", "q\tbad/\t1\n")
    ran = shell("eval", "retrieval", "--beir", "bad")
    assert ran.code == 2
    assert "corpus.jsonl:1: " in ran.err


@pytest.fixture
def golden(shell: Shell) -> Shell:
    pytest.importorskip("yaml")
    shell.write(
        "docs/guide.md", "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"
    )
    shell.write("docs/tea.md", "# Tea\n\nA kettle and <leaves>.\n")
    shell.write("golden.yaml", GOLDEN)
    assert shell("put", "docs").code == 0
    return shell


def test_a_golden_set_is_asked_of_the_store(golden: Shell, tmp_path: Path) -> None:
    ran = golden(
        *("eval", "retrieval", "golden.yaml", "--granularity", "chunk"),
        *("--modes", "bm25,hybrid", "--metrics", "recall@1,evidence@500", "--runs", "runs"),
    )
    assert ran.code == 0, ran.err
    assert ran.rows == [
        [mode, metric, *["1.000000"] * 3]
        for mode in ("bm25", "hybrid")
        for metric in ("recall@1", "evidence@500")
    ]
    run = read_run(tmp_path / "runs" / "bm25.run")
    assert run["limits"][0][0] == "guide.md#1"
    assert read_qrels(tmp_path / "runs" / "qrels.txt")["tea"] == {"tea.md": 2}


class Checker(HTMLParser):
    """Notes what a page would fetch or run, and whether its elements are balanced."""

    VOID = frozenset({"meta", "br", "rect", "path", "polyline"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)
        if tag in {"script", "link", "img", "iframe"}:
            self.wrong.append(tag)
        self.wrong += [name for name, _ in attrs if name in {"src", "href"} or name[:2] == "on"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")


def checked(file: Path) -> tuple[str, set[str]]:
    page = file.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.wrong == []
    assert checker.open == []
    assert not re.search(r"https?:|url\(|@import", page)
    assert "prefers-color-scheme:dark" in page
    assert "nan" not in page.lower().replace("nance", "")
    return page, checker.seen


def test_the_report_is_one_page_that_needs_nothing(golden: Shell, tmp_path: Path) -> None:
    file = golden.write("golden.yaml", GOLDEN.replace("id: tea", "id: 'a<b>&c'"))
    ran = golden(
        *("eval", "retrieval", str(file), "--granularity", "chunk"),
        *("--html", "report.html", "--output", "out.json"),
    )
    assert ran.code == 0, ran.err
    page, seen = checked(tmp_path / "report.html")
    assert {"svg", "rect", "polyline", "table"} <= seen
    assert page.count("<svg") == 5  # means, recall, evidence, two modes against keyword search
    assert "a&lt;b&gt;&amp;c" in page
    assert "<b>" not in page
    for said in ("Recall at depth", "Evidence by tokens returned", "hybrid less bm25", "ndcg@10"):
        assert said in page
    ran = golden("eval", "compare", "out.json", "out.json", "--html", "compared.html")
    assert ran.code == 0, ran.err
    assert "p (Holm)" in checked(tmp_path / "compared.html")[0]


def test_two_evaluations_are_compared(shell: Shell, tmp_path: Path) -> None:
    asked = ("eval", "retrieval", "--beir", "tea")
    first = shell(*asked, "--modes", "bm25,vector", "--output", "a.json")
    assert first.code == 0, first.err
    rows = (tmp_path / "tea" / "queries.jsonl").read_text().replace("what is a kettle", "broker")
    shell.write("tea/queries.jsonl", rows)
    assert shell(*asked, "--output", "b.json").code == 0

    ran = shell("eval", "compare", "a.json", "b.json", "--metrics", "recall@1", "--modes", "bm25")
    assert ran.code == 0, ran.err
    assert [row[:5] for row in ran.rows] == [["recall@1", "bm25", "1.0000", "0.7500", "-0.2500"]]
    assert ran.rows[0][-2:] == ["0", "1"]
    ran = shell("eval", "compare", "a.json", "b.json", "--modes", "bm25", "--by-query", "recall@1")
    assert ran.rows == [["q-kettle", "bm25:bm25", "-1.000000", "what is a kettle"]]
    ran = shell("--json", "eval", "compare", "a.json", "b.json", "--modes", "bm25:hybrid")
    assert ran.json["differences"][0]["mode_b"] == "hybrid"
    assert set(ran.json["queries"]) == {f"q-{word}" for word in WORDS}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["retrieval"], 2, "one of the two"),
        (["retrieval", "--beir", "tea", "g.yaml"], 2, "one of the two"),
        (["retrieval", "--beir", "nowhere"], 3, "no collection"),
        (["retrieval", "--beir", "tea", "--split", "dev"], 3, "qrels/dev.tsv"),
        (["retrieval", "--beir", "tea", "--k", "ten"], 2, "whole numbers"),
        (["retrieval", "--beir", "tea", "--k", "0"], 2, "a cutoff"),
        (["retrieval", "--beir", "tea", "--metrics", "f1"], 2, "no metric 'f1'"),
        (["retrieval", "--beir", "tea", "--modes", "psychic"], 2, "psychic"),
        (["retrieval", "--beir", "tea", "--html", "no/where.html"], 2, "there is no folder"),
        (["retrieval", "--beir", "tea", "--modes", "vector", "--embedder", "none"], 7, "embedder"),
        (["compare", "tea/queries.jsonl", "none.json"], 2, "queries.jsonl:2"),
        (["compare", "none.json", "none.json"], 3, "none.json"),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: list[str], code: int, said: str, shell: Shell, tmp_path: Path
) -> None:
    ran = shell("eval", *arguments)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert ran.out == b""
    assert not (tmp_path / "kb.db").exists()


def calibration_golden() -> str:
    there = "".join(
        f"  - {{question: what is the {word}{at}, expected_files: [{word}{at}.md]}}\n"
        for word in WORDS
        for at in range(3)
    )
    absent = "".join(
        f"  - {{question: why does chapter {at} quote nobody{at}, answerable: false}}\n"
        for at in range(11)
    )
    return f"queries:\n{there}{absent}"


def test_a_calibration_is_shown_and_kept_when_asked_for(shell: Shell) -> None:
    for word in WORDS:
        for at in range(3):
            shell.write(f"docs/{word}{at}.md", f"# The {word}{at}\n\nIt hangs in a chapter.\n")
    shell.write("golden.yaml", calibration_golden())
    assert shell("put", "docs", "--quiet").code == 0
    ran = shell("eval", "calibrate", "golden.yaml")
    assert ran.code == 0, ran.err
    rows = {row[0]: row[1:] for row in ran.rows}
    assert set(rows) == {"bm25", "vector", "bm25+vector"}
    assert float(rows["bm25"][0]) > 0.9
    assert "nothing was kept" in ran.err
    assert not json.loads(shell("search", "violin2", "--json").out)["evidence"]["calibrated"]
    ran = shell("eval", "calibrate", "golden.yaml", "--save", "--json")
    answer = json.loads(ran.out)
    assert (answer["dataset_id"], answer["saved"], answer["missed"]) == ("default", True, 0)
    assert answer["calibration"]["answered"] == 12
    found = json.loads(shell("search", "what is the violin2", "--json").out)
    assert (found["evidence"]["level"], found["evidence"]["calibrated"]) == ("strong", True)
    lost = json.loads(shell("search", "why does a chapter quote", "--json").out)
    assert lost["hits"]
    assert lost["evidence"]["level"] == "none"


def test_a_golden_set_without_unanswerable_questions_does_not_calibrate(shell: Shell) -> None:
    shell.write("docs/guide.md", GUIDE)
    shell.write("golden.yaml", "- {question: ten requests, expected_files: [guide.md]}\n")
    assert shell("put", "docs", "--quiet").code == 0
    ran = shell("eval", "calibrate", "golden.yaml")
    assert ran.code == 2
    assert "a calibration needs 10 or more" in ran.err


def test_questions_without_an_answer_are_listed_written_and_cleared(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell.write("docs/guide.md", GUIDE)
    assert shell("put", "docs", "--quiet").code == 0
    assert shell("search", "zebra", "--mode", "bm25").code == 0
    ran = shell("eval", "log")
    assert (ran.code, ran.out) == (0, b"")
    assert "question_log = true" in ran.err
    monkeypatch.setenv("TRIPTYCH_QUESTION_LOG", "true")
    shell("search", "zebra crossing", "--mode", "bm25", "--quiet")
    ((_, *row),) = shell("eval", "log").rows
    assert row == ["1", "nothing", "default", "zebra crossing", ""]
    (logged,) = json.loads(shell("eval", "log", "--json").out)["questions"]
    assert logged["text"] == "zebra crossing"
    assert shell("eval", "log", "--golden", "unanswered.yaml", "--clear").code == 0
    assert 'question: "zebra crossing"' in (tmp_path / "unanswered.yaml").read_text()
    assert json.loads(shell("eval", "log", "--json").out)["questions"] == []


def shore(shell: Shell) -> None:
    for word in WORDS:
        shell.write(f"docs/{word}.md", f"# About\n\nThe {word} is in the house.\n")
    rows = "".join(
        f"- {{question: is the {word} at home {at}, expected_files: [{word}.md]}}\n"
        for word in WORDS
        for at in range(3)
    )
    shell.write("golden.yaml", rows)
    assert shell("put", "docs", "--quiet").code == 0


def test_pipelines_are_scored_beside_the_modes(shell: Shell, tmp_path: Path) -> None:
    shore(shell)
    tables = '[pipelines.words]\nmode = "bm25"\n[pipelines.few]\npostprocessors = ["mmr"]\n'
    shell.write("triptych.toml", tables)
    asked = ("eval", "retrieval", "golden.yaml", "--modes", "bm25", "--metrics", "ndcg@10")
    named = ("--pipeline", "words", "--pipeline", "few")
    ran = shell(*asked, *named, "--output", "out.json", "--html", "out.html", "--runs", "runs")
    assert ran.code == 0, ran.err
    assert [row[:2] for row in ran.rows] == [[each, "ndcg@10"] for each in ("bm25", "words", "few")]
    assert ran.rows[0][2:] == ran.rows[1][2:]
    assert "without the postprocessors of the pipeline 'few'" in ran.err
    assert (tmp_path / "runs" / "words.run").exists()
    assert "words" in checked(tmp_path / "out.html")[0]
    answer = json.loads((tmp_path / "out.json").read_text())
    assert answer["configuration"]["pipelines"]["few"]["postprocessors"] == ["MMR"]
    ran = shell("eval", "compare", "out.json", "out.json", "--modes", "bm25:words")
    assert {(row[1], row[4]) for row in ran.rows} == {("bm25:words", "+0.0000")}
    # Without --modes, beside all of them; also over a collection in memory.
    ran = shell("eval", "retrieval", "golden.yaml", "--pipeline", "words", "--json")
    assert list(ran.json["modes"]) == ["bm25", "vector", "hybrid", "words"]
    ran = shell("eval", "retrieval", "--beir", "tea", "--pipeline", "words", "--json")
    assert ran.json["modes"]["words"]["metrics"]["ndcg@10"]["mean"] == 1
    ran = shell(*asked, "--pipeline", "wordz")
    assert (ran.code, ran.out) == (3, b"")
    assert "no pipeline is called 'wordz': did you mean 'words'?" in ran.err
    ran = shell(*asked, "--pipeline", "other")
    assert "there are words, few" in ran.err
    ran = shell(*asked, "--pipeline", "few", "--pipeline", "few")
    assert (ran.code, ran.out) == (2, b"")


def test_questions_that_failed_are_listed_and_granularities_that_differ_named(shell: Shell) -> None:
    for at, word in enumerate(WORDS):
        others = "".join(f"## {each}\n\nThe {each} again. " for each in WORDS if each != word)
        parts = f"## Part\n\nThe {word} is in the house.\n" * (at + 1) + others * at
        shell.write(f"docs/{word}.md", f"# About\n\n{parts}")
    rows = "".join(
        f"- {{question: is the {word} at home, expected_files: [{word}.md]}}\n" for word in WORDS
    )
    lost = "- {question: where is the zebra, expected_files: [gone.md]}\n"
    shell.write("golden.yaml", rows + lost)
    assert shell("put", "docs", "--quiet").code == 0
    asked = ("golden.yaml", "--output")
    ran = shell("eval", "retrieval", *asked, "a.json")
    assert ran.code == 0, ran.err
    assert "hybrid: nothing relevant among the first 10 for" in ran.err
    assert "where is the zebra" in ran.err
    assert shell("eval", "retrieval", *asked, "b.json", "--granularity", "chunk").code == 0
    ran = shell("eval", "compare", "a.json", "b.json")
    assert "the granularities differ: document and chunk" in ran.err


def test_questions_that_nobody_reviewed_are_pointed_out(shell: Shell) -> None:
    shore(shell)
    shell.write(
        "golden.yaml",
        "reviewed: false\nqueries:\n- {question: the kettle, expected_files: [kettle.md]}\n",
    )
    ran = shell("eval", "retrieval", "golden.yaml", "--modes", "bm25")
    assert "1 of 1 questions are not reviewed" in ran.err
