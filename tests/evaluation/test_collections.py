"""Collections in BEIR's layout and golden sets: what is read, and what is refused by line."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from triptych.errors import NotFoundError, ValidationError
from triptych_evaluation import (
    Collection,
    JudgedPassage,
    JudgedQuery,
    MalformedFileError,
    read_beir,
    read_golden,
)

CORPUS = [
    {"_id": "d1", "title": "Tea", "text": "Leaves and\u2028water.", "metadata": {}},
    {"_id": "d2", "text": "No title."},
    {"_id": "d3", "title": "", "text": ""},
]
QUERIES = [
    {"_id": "q2", "text": "what is tea"},
    {"_id": "q1", "text": "who knows"},
    {"_id": "q3", "text": "nobody judged this"},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td2\t0\nq2\td1\t2\nq2\td2\t-1\n"


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def layout(folder: Path, **changed: str) -> Path:
    files = {"corpus": lines(CORPUS), "queries": lines(QUERIES), "qrels": QRELS} | changed
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(files["corpus"], encoding="utf-8")
    (folder / "queries.jsonl").write_text(files["queries"], encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text(files["qrels"], encoding="utf-8")
    return folder


def zipped(folder: Path, inner: str) -> Path:
    file = folder.with_suffix(".zip")
    with zipfile.ZipFile(file, "w") as archive:
        for each in sorted(folder.rglob("*")):
            archive.write(each, f"{inner}{each.relative_to(folder).as_posix()}")
    return file


def read(path: Path) -> tuple[Collection, list[tuple[str, str, dict[str, str]]]]:
    collection = read_beir(path)
    assert collection.documents is not None
    found = list(collection.documents())
    assert list(collection.documents()) == found
    return collection, [(d.name, d.content, dict(d.metadata)) for d in found]


def test_a_folder_and_a_zip_file_hold_the_same(tmp_path: Path) -> None:
    folder = layout(tmp_path / "tea")
    collection, documents = read(folder)
    assert collection.name == "tea"
    assert not collection.by_suffix
    assert collection.queries == (
        JudgedQuery(
            query_id="q2", text="what is tea", grades={"d1": 2, "d2": -1}, excluded=("q2",)
        ),
        JudgedQuery(query_id="q1", text="who knows", grades={"d2": 0}, excluded=("q1",)),
    )
    assert documents == [
        ("d1", "Tea\n\nLeaves and\u2028water.", {"title": "Tea"}),
        ("d2", "No title.", {}),
        ("d3", "", {}),
    ]
    for inner in ("tea/", ""):
        assert read(zipped(folder, inner)) == (collection, documents)


def test_a_query_that_is_a_document_does_not_find_itself(tmp_path: Path) -> None:
    rows = lines([{"_id": name, "text": name} for name in ("d1", "d2")])
    judged = "d1\td2\t1\nd2\td2\t1\n"
    collection = read_beir(layout(tmp_path / "own", queries=rows, qrels=judged))
    # What is judged relevant is not a copy of the query.
    assert [query.excluded for query in collection.queries] == [("d1",), ()]


def test_another_split_and_a_file_without_a_head(tmp_path: Path) -> None:
    folder = layout(tmp_path / "tea")
    (folder / "qrels" / "dev.tsv").write_text("q1\td1\t1\n\n", encoding="utf-8")
    assert [query.query_id for query in read_beir(folder, split="dev").queries] == ["q1"]


@pytest.mark.parametrize(
    ("part", "text", "file", "line", "said"),
    [
        ("queries", '{"_id": "q1", "text": "a"}\n{nonsense\n', "queries.jsonl", 2, "not JSON"),
        ("queries", '\n["q1"]\n', "queries.jsonl", 2, "not a JSON object"),
        ("queries", '{"_id": "q1"}\n', "queries.jsonl", 1, "'text' is missing"),
        ("queries", '{"_id": 1, "text": "a"}\n', "queries.jsonl", 1, "'_id' is not a string"),
        ("queries", lines([*QUERIES, QUERIES[0]]), "queries.jsonl", 4, "comes twice"),
        ("qrels", QRELS + "q1\td1\n", "test.tsv", 5, "2 columns"),
        ("qrels", QRELS + "q1 d1 1\n", "test.tsv", 5, "1 columns"),
        ("qrels", QRELS + "q1\td1\tgood\n", "test.tsv", 5, "'good' is not a whole number"),
        ("qrels", QRELS + "q1\td1\t5000\n", "test.tsv", 5, "'5000' is beyond 1,000"),
        ("qrels", "q1\td1\tgood\n", "test.tsv", 1, "'good' is not a whole number"),
        ("qrels", QRELS + "q9\td1\t1\n", "test.tsv", 5, "'q9' is not in queries.jsonl"),
        ("qrels", QRELS + "q2\td1\t1\n", "test.tsv", 5, "judged twice"),
        ("qrels", "query-id\tcorpus-id\tscore\n", "test.tsv", 0, "no judgements"),
        ("corpus", lines([*CORPUS, CORPUS[1]]), "corpus.jsonl", 4, "comes twice"),
        ("corpus", '{"_id": "a/", "text": ""}\n', "corpus.jsonl", 1, "ends in a slash"),
        ("corpus", '{"_id": "a", "title": 3, "text": ""}\n', "corpus.jsonl", 1, "'title' is not"),
    ],
)
def test_a_bad_line_is_named(
    part: str, text: str, file: str, line: int, said: str, tmp_path: Path
) -> None:
    with pytest.raises(MalformedFileError, match=said) as caught:
        read(layout(tmp_path / "bad", **{part: text}))
    assert Path(caught.value.file).name == file
    assert caught.value.line == line
    assert str(caught.value).startswith(caught.value.file + (f":{line}: " if line else ": "))


def test_what_is_not_utf8_is_named(tmp_path: Path) -> None:
    folder = layout(tmp_path / "bad")
    (folder / "queries.jsonl").write_bytes(b'{"_id": "q1", "text": "\xff"}\n')
    with pytest.raises(MalformedFileError, match="not UTF-8") as caught:
        read_beir(folder)
    assert caught.value.line == 1


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no collection"):
        read_beir(tmp_path / "nowhere")
    folder = layout(tmp_path / "part")
    with pytest.raises(NotFoundError, match="qrels/train"):
        read_beir(folder, split="train")
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(NotFoundError, match=r"corpus\.jsonl"):
        read_beir(folder)
    with pytest.raises(NotFoundError, match=r"one corpus\.jsonl"):
        read_beir(zipped(folder, ""))
    (tmp_path / "file.zip").write_bytes(b"no zip")
    with pytest.raises(MalformedFileError, match="neither a folder nor"):
        read_beir(tmp_path / "file.zip")


def test_query_ids_are_unique() -> None:
    twice = JudgedQuery(query_id="q", text="a")
    with pytest.raises(ValidationError, match="occurs twice"):
        Collection(name="c", queries=(twice, twice))


GOLDEN = """\
name: manual
queries:
  - id: rollback
    question: How do I roll back?
    expected_files: [./guide/rollback.md, api/deploy.md]
    relevance:
      guide/rollback.md: 3
      api/old.md: 0
    passages:
      - file: guide/limits.md
        text: At most ten.
        grade: 2
    expected_answer: With deploy.
  - question: 2024
    expected_files:
      - no
"""


def golden(folder: Path, text: str) -> Collection:
    file = folder / "golden.yaml"
    file.write_text(text, encoding="utf-8")
    return read_golden(file)


def test_a_golden_set(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    assert golden(tmp_path, GOLDEN) == Collection(
        name="manual",
        by_suffix=True,
        queries=(
            JudgedQuery(
                query_id="rollback",
                text="How do I roll back?",
                grades={
                    "guide/rollback.md": 3,
                    "api/deploy.md": 1,
                    "api/old.md": 0,
                    "guide/limits.md": 2,
                },
                passages=(JudgedPassage(document="guide/limits.md", text="At most ten.", grade=2),),
                answer="With deploy.",
            ),
            # Text is text, however YAML would understand it.
            JudgedQuery(query_id="2", text="2024", grades={"no": 1}),
        ),
    )
    bare = golden(tmp_path, "- {question: q, expected_files: [a.md]}\n")
    assert bare.name == "golden"
    assert bare.queries[0].query_id == "1"


NADIR = """\
queries:
  - query: "secant formula"
    expected_files:
      - "math/trigonometry.md"
    expected_headers: ["Identities"]
    notes: "csc/sec identities"
  - query: "rate limiting"
    relevance: {"system-design/rate-limit.md": 2}
    notes:
"""


def test_a_golden_set_of_nadir_is_read_as_it_stands(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    assert golden(tmp_path, NADIR).queries == (
        JudgedQuery(query_id="1", text="secant formula", grades={"math/trigonometry.md": 1}),
        JudgedQuery(query_id="2", text="rate limiting", grades={"system-design/rate-limit.md": 2}),
    )


QUERY = "queries:\n  - question: q\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 0, "empty"),
        ("queries: [\n", 2, "not YAML"),
        ("a: \x01\n", 0, "not YAML"),
        ("just text\n", 1, "must be a mapping"),
        ("name: x\n", 1, "'queries' is missing"),
        ("queries: []\n", 1, "no queries"),
        ("queries: q\n", 1, "must be a list"),
        (QUERY, 2, "needs expected_files"),
        (QUERY + "    expected: [a]\n", 3, "no field 'expected'"),
        (QUERY + "    question: r\n", 3, "comes twice"),
        (QUERY + "    query: r\n", 2, "one only"),
        (QUERY + "    expected_files: a.md\n", 3, "must be a list"),
        (QUERY + "    expected_files:\n      - a.md\n      - [b]\n", 5, "must be text"),
        (QUERY + "    expected_files:\n      - ~\n", 4, "must be text"),
        (QUERY + "    expected_files: ['']\n", 3, "empty"),
        (QUERY + "    expected_files: ['/']\n", 3, "empty"),
        (QUERY + "    relevance:\n      a.md: high\n", 4, "'high' is not a whole number"),
        (QUERY + "    relevance:\n      a.md: 1001\n", 4, "'1001' is beyond 1,000"),
        (QUERY + "    relevance:\n      a.md: [1]\n", 4, "whole number"),
        (QUERY + "    relevance:\n      a.md: 1\n      ./a.md: 2\n", 5, "graded twice"),
        (QUERY + "    passages:\n      - file: a.md\n", 4, "needs the field 'text'"),
        ("- {question: q, id: a, relevance: {a: 1}}\n" * 2, 2, "comes twice"),
        ("- {id: a, relevance: {a: 1}}\n", 1, "needs the field 'question'"),
    ],
)
def test_a_bad_golden_set_is_refused_by_line(
    text: str, line: int, said: str, tmp_path: Path
) -> None:
    pytest.importorskip("yaml")
    with pytest.raises(MalformedFileError, match=said) as caught:
        golden(tmp_path, text)
    assert caught.value.line == line


def test_a_golden_set_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        read_golden(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    with pytest.raises(MalformedFileError, match="not UTF-8"):
        read_golden(tmp_path / "latin.yaml")
