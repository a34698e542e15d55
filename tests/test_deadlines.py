"""A deadline bounds what runs inside its block, in this context alone."""

import math
import threading

import pytest

from triptych import CancelledError, ValidationError, deadline, deadlines


def test_without_a_deadline_nothing_is_checked() -> None:
    deadlines.check()
    assert deadlines.remaining() is None


def test_a_passed_deadline_raises_and_says_what_to_do() -> None:
    with deadline(0), pytest.raises(CancelledError, match=r"during embedding.*call again"):
        deadlines.check("embedding")
    deadlines.check("embedding")


def test_nested_deadlines_only_tighten() -> None:
    with deadline(5), deadline(1000):
        left = deadlines.remaining()
        assert left is not None
        assert left <= 5


def test_cancelling_from_another_thread_ends_the_block() -> None:
    with deadline() as outer, deadline(100) as inner:
        assert math.isinf(outer.remaining)
        deadlines.check()
        thread = threading.Thread(target=outer.cancel)
        thread.start()
        thread.join()
        assert inner.cancelled
        with pytest.raises(CancelledError, match="was cancelled"):
            deadlines.check()


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_deadline_must_be_a_duration(seconds: float) -> None:
    with pytest.raises(ValidationError), deadline(seconds):
        pass
