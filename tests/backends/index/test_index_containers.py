"""Files of arrays: whatever of one is another than was written is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from triptych_backends.index.folder import read_arrays, write_arrays
from triptych_backends.index.segment import DamagedError

PAGE = 4_096


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """A file of arrays of several pages, one of them with pages of zeros, and what is in it."""
    path = tmp_path_factory.mktemp("container") / "one.arrays"
    generator = np.random.default_rng(8)
    codes = generator.integers(-127, 128, (300, 48)).astype(np.int8)
    write_arrays(
        path,
        {
            "codes": codes,
            "ids": np.sort(generator.integers(0, 9_000, 5_003)).astype(np.int32),
            "zeros": np.r_[np.zeros(2_000), 1.0, np.zeros(2_000)].astype(np.float32),
            "short": np.arange(3),
        },
    )
    assert (read_arrays(path)["codes"] == codes).all()
    return path, path.read_bytes()


def assert_found(container: tuple[Path, bytes], damaged: bytes) -> None:
    """Arrays of a damaged file are refused; only what fills up between them may be anything."""
    path, content = container
    path.write_bytes(content)
    sound = read_arrays(path)
    other = path.with_name("damaged.arrays")
    other.write_bytes(damaged)
    try:
        found = read_arrays(other)
    except DamagedError:
        return
    assert all(found[name].tobytes() == sound[name].tobytes() for name in sound)


@pytest.mark.property
@settings(deadline=None, max_examples=examples(300))
@given(place=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255))
def test_a_byte_that_is_another_is_found(container, place, bits):
    content = bytearray(container[1])
    content[int(place * len(content))] ^= bits
    assert_found(container, bytes(content))


@pytest.mark.property
@settings(deadline=None, max_examples=examples(200))
@given(one=st.integers(0, 200), other=st.integers(0, 200), size=st.sampled_from([8, 64, 512, PAGE]))
def test_parts_that_changed_places_or_are_zero_are_found(container, one, other, size):
    content = container[1]
    first, second = (each * size % (len(content) - size) // size * size for each in (one, other))
    swapped, zeroed = bytearray(content), bytearray(content)
    swapped[first : first + size] = content[second : second + size]
    swapped[second : second + size] = content[first : first + size]
    zeroed[first : first + size] = bytes(size)
    assert_found(container, bytes(swapped))
    assert_found(container, bytes(zeroed))


@pytest.mark.property
@settings(deadline=None, max_examples=examples(100))
@given(kept=st.floats(0, 1, exclude_max=True))
def test_a_file_that_is_cut_is_refused(container, kept):
    path, content = container
    other = path.with_name("cut.arrays")
    other.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(DamagedError):
        read_arrays(other)
