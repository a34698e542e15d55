"""The questions that bench/findability.py asks, and what counts as their answers."""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

import triptych

# The scripts are no installed package: they are imported from where they stand.
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
code, measure, pages, sets = (
    import_module(f"findable.{name}") for name in ("code", "measure", "pages", "sets")
)

SOURCE = '''\
LIMIT_OF_ORDERS = 3


class OrderError(Exception):
    pass


def cancel_order(name, count):
    """Cancel an order that was not sent. Nothing else."""
    if count > LIMIT_OF_ORDERS:
        raise OrderError(
            f"the order {name!r} has more than %d parts" % count
        )
    if not name:
        raise OrderError("an order needs a {} and {number!r}".format("name", number=count))
    raise OrderError(name)
'''
FILES = [("orders.py", SOURCE)]


def test_a_rare_name_is_asked_for_and_answered_by_every_line_that_has_it() -> None:
    spread = [(f"{at}.py", "from orders import OrderError\n") for at in range(3)]
    asked = {each.text: each.answers for each in code.identifiers("x", FILES + spread).asked}
    assert asked == {
        "LIMIT_OF_ORDERS": {"orders.py": [1, 10]},
        "cancel_order": {"orders.py": [8]},
    }


def test_an_error_is_pasted_without_blanks_and_answered_by_its_raise() -> None:
    asked = code.errors("x", FILES).asked
    found = {min(each.answers["orders.py"]): each for each in asked}
    assert sorted(found) == [11, 15]
    assert found[11].answers == {"orders.py": (11, 12, 13)}
    for each in asked:
        assert each.text.startswith("OrderError: ")
        assert not set("{}%\0") & set(each.text)
    assert "more than" in found[11].text


def test_a_description_finds_its_function_in_a_text_without_docstrings() -> None:
    made = code.described("x", FILES)
    ((asked),) = made.asked
    assert asked.text == "Cancel an order that was not sent"
    text = made.texts["orders.py"]
    assert "Cancel" not in text
    first, *_ = asked.answers["orders.py"]
    assert text.splitlines()[first - 1].startswith("def cancel_order")


def test_the_function_is_the_passage_of_a_context() -> None:
    made = code.contexts("x", FILES)
    ((name, first, last),) = made.asked[0].passages
    assert made.texts[name][first:last].startswith("def cancel_order")
    assert made.texts[name][first:last].endswith("raise OrderError(name)\n")


def test_headings_of_restructuredtext_have_levels() -> None:
    text = "====\nPage\n====\n\nOne\n---\n\ntext\n\nTwo :doc:`x`\n-----------\n"
    assert pages._markdown(text) == "# Page\n\n## One\n\ntext\n\n## Two x\n"


def test_a_set_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = code.identifiers("x", FILES)
    sets.write_set(tmp_path / "set.json", made)
    read = sets.read_set(tmp_path / "set.json")
    assert json.dumps(attrs.asdict(read)) == json.dumps(attrs.asdict(made))


@pytest.fixture
def kb():
    with triptych.open("memory://", embedder="hash") as opened:
        yield opened


def test_what_is_asked_for_by_its_name_is_found_first(kb: triptych.Service) -> None:
    found = measure.measure(kb, code.identifiers("x", FILES))
    assert found["values"]["bm25"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("lines", "value"), [([], 1.0), ([3], 1.0), ([1], 0.0)])
def test_a_chunk_answers_by_its_document_or_by_its_lines(
    kb: triptych.Service, lines: list[int], value: float
) -> None:
    kb.put_document("d", "a.md", "# One\n\nred fish\n")
    asked = sets.Asked(text="fish", answers={"a.md": lines, "b.md": []})
    hits = [
        attrs.evolve(hit, content="red fish", start_line=3)
        for hit in kb.search("fish", dataset_id="d").hits
    ]
    assert measure.reciprocal(asked, hits) == value


def test_a_question_that_the_vectors_do_not_know_is_worth_nothing_to_them() -> None:
    class English:
        signature, dimension, coverage_floor = "english", 2, 0.7

        def coverage(self, text: str) -> float:
            return float(text.isascii())

        def embed(self, texts: Sequence[str], *, kind: str) -> NDArray[np.float32]:
            return np.tile(np.array([1, 0], np.float32), (len(texts), 1))

    made = sets.QuestionSet(
        name="n",
        metric="mrr",
        texts={"a.md": "fish"},
        asked=[sets.Asked(text="鱼", answers={"a.md": []})],
    )
    with triptych.open("memory://", embedder=English()) as kb:
        assert measure.measure(kb, made)["values"]["vector"] == [0.0]


def test_a_deleted_answer_is_put_back(kb: triptych.Service) -> None:
    made = sets.QuestionSet(
        name="n",
        metric="strength",
        texts={"a.md": "red fish", "b.md": "blue bird"},
        asked=[sets.Asked(text="fish", answers={"a.md": []})],
        foreign=["stone"],
    )
    found = measure.measure(kb, made)["values"]
    assert {kind: len(words) for kind, words in found.items()} == {
        "answerable": 1,
        "foreign": 1,
        "gone": 1,
    }
    assert [each.name for each in kb.list_documents("d")] == ["a.md", "b.md"]


def test_a_context_holds_the_passage_or_not(kb: triptych.Service) -> None:
    found = measure.measure(kb, code.contexts("x", FILES))["values"]
    assert found["2000"]["held"] == [1.0]
    assert 0 < found["2000"]["tokens"][0] <= 2000
