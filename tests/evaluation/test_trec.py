"""TREC files: what is written is read again, in the same order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.examples import examples
from triptych.errors import NotFoundError, ValidationError
from triptych_evaluation import MalformedFileError, read_qrels, read_run, write_qrels, write_run

pytestmark = pytest.mark.property

ids = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1, max_size=4
)
scores = st.sampled_from([0.0, -0.0, 1.0, 1.00000001, 0.99999999, 0.5, 1e-45]) | st.floats(
    -1e30, 1e30
)
runs = st.dictionaries(ids, st.dictionaries(ids, scores, min_size=1, max_size=12), max_size=3)
one_folder = settings(
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@one_folder
@given(runs)
def test_a_run_keeps_its_order(tmp_path: Path, run: dict[str, dict[str, float]]) -> None:
    """Scores never rise down a ranking; names go up in ties, as in Triptych."""
    ranked = {
        query: sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))
        for query, found in run.items()
    }
    write_run(tmp_path / "run.txt", ranked, tag="mine")
    again = read_run(tmp_path / "run.txt")
    assert list(again) == list(ranked)
    for query, ranking in ranked.items():
        assert [name for name, _ in again[query]] == [name for name, _ in ranking]
        for (_, before), (_, after) in zip(ranking, again[query], strict=True):
            assert after <= before
            assert after == pytest.approx(before, rel=1e-5, abs=1e-40)
    write_run(tmp_path / "again.txt", again, tag="mine")
    assert (tmp_path / "again.txt").read_bytes() == (tmp_path / "run.txt").read_bytes()


@one_folder
@given(st.dictionaries(ids, st.dictionaries(ids, st.integers(-3, 9), min_size=1), max_size=4))
def test_judgements_are_read_as_written(tmp_path: Path, judged: dict[str, dict[str, int]]) -> None:
    write_qrels(tmp_path / "qrels.txt", judged)
    assert read_qrels(tmp_path / "qrels.txt") == judged


def test_scores_that_differ_are_written_as_they_are(tmp_path: Path) -> None:
    write_run(tmp_path / "run.txt", {"q": [("a", 0.032786), ("b", 0.03), ("c", 0.03)]})
    lines = (tmp_path / "run.txt").read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["q Q0 a 1 0.032786 triptych", "q Q0 b 2 0.03 triptych"]
    assert lines[2].startswith("q Q0 c 3 0.0299999")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("q Q0 d 1 0.5 t\nq Q0 d 1\n", 2, "4 columns"),
        ("\nq Q0 d 1 high t\n", 2, "'high' is not a finite number"),
        ("q Q0 d 1 nan t\n", 1, "'nan' is not"),
        ("q Q0 d 1 1 t\nq Q0 d 2 1 t\n", 2, "comes twice"),
        ("q Q0 \udcff 1 1 t\n", 1, "not UTF-8"),
    ],
)
def test_a_bad_line_of_a_run_is_named(text: str, line: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(MalformedFileError, match=said) as caught:
        read_run(tmp_path / "run.txt")
    assert caught.value.line == line


def test_a_bad_line_of_judgements_is_named(tmp_path: Path) -> None:
    for text, said in (("q 0 d 1\nq 0 d x\n", "'x' is not"), ("q 0 d 1\nq 0 d 1\n", "twice")):
        (tmp_path / "qrels.txt").write_text(text, encoding="utf-8")
        with pytest.raises(MalformedFileError, match=said) as caught:
            read_qrels(tmp_path / "qrels.txt")
        assert caught.value.line == 2
    with pytest.raises(NotFoundError):
        read_qrels(tmp_path / "none.txt")


@pytest.mark.parametrize(
    "ranking",
    [
        [("a b", 1.0)],
        [("", 1.0)],
        [("a", 1.0), ("a", 0.5)],
        [("a", float("nan"))],
        [("a", float("inf"))],
        [("a", 1e39)],
    ],
)
def test_what_a_run_file_cannot_hold_is_refused(
    ranking: list[tuple[str, float]], tmp_path: Path
) -> None:
    with pytest.raises(ValidationError):
        write_run(tmp_path / "run.txt", {"q": ranking})
    assert not (tmp_path / "run.txt").exists()
    with pytest.raises(ValidationError):
        write_qrels(tmp_path / "qrels.txt", {"q": {"a b": 1}})
