"""Whether the arrays of a file can be those of a segment, whatever its checksums say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych_backends.index.quantization import BLOCK, FEWEST, sign
from triptych_backends.index.segment import Segment, SortedVocabulary

Array = NDArray[Any]
_ONE_RUN = np.zeros(1, np.int64)

_KINDS = {
    "i1": "codes",
    "u1": "name_blob text.words headings.words",
    "u1 u2 u4": "text.counts headings.counts",
    "i4": "starts owner_order indexes row_units text.ids headings.ids sparse.ids",
    "u4": "lengths sparse.terms vectors",
    "f4": "scales signs.centre signs.spreads sparse.weights",
    "i8": "owners name_offsets keys row_keys signs.depth text.word_offsets text.offsets "
    "headings.word_offsets headings.offsets sparse.offsets",
    "u8": "text.prefixes headings.prefixes signs.words",
}
_PAIRS = (
    "indexes keys, lengths keys, owner_order owners, row_units codes, row_keys codes, "
    "scales codes, text.counts text.ids, headings.counts headings.ids, sparse.weights sparse.ids"
)
"""Arrays that are equally long."""
_RUNS = (
    "starts owners keys, name_offsets owners name_blob, text.offsets text.prefixes text.ids, "
    "text.word_offsets text.prefixes text.words, headings.offsets headings.prefixes headings.ids, "
    "headings.word_offsets headings.prefixes headings.words, sparse.offsets sparse.terms sparse.ids"
)
"""Offsets, what has a run of items for each of its own, and these items."""
_WITHOUT_SPARSE = {f"sparse.{name}": np.empty(0) for name in ("terms", "ids", "weights")}
_WITHOUT_SPARSE["sparse.offsets"] = np.zeros(1, np.int64)


def checked_arrays(found: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a segment, those without items in the right type and shape.

    Each number that a search takes for a place lies in the array of its place. Raises ValueError,
    which names the array that is wrong, and KeyError for one that is missing.
    """
    found = {**_WITHOUT_SPARSE, **found}
    arrays = {
        name: _of_kind(name, found[name], kinds.split())
        for kinds, names in _KINDS.items()
        for name in names.split()
    }
    for name, other in map(str.split, _PAIRS.split(",")):
        _require(len(arrays[name]) == len(arrays[other]), name)
    for name, of, items in map(str.split, _RUNS.split(",")):
        offsets, held = arrays[name], arrays[items]
        ends = offsets[:1].tolist() + offsets[-1:].tolist()
        _require(len(offsets) == len(arrays[of]) + 1 and ends == [0, len(held)], name)
        _require(bool((offsets[1:] >= offsets[:-1]).all()), name)
        if held.dtype == np.uint8:  # texts in UTF-8, none of which begins within a character
            held.tobytes().decode()
            _require(bool((held[offsets[offsets < len(held)]] & 0xC0 != 0x80).all()), name)
    units, owners, order = len(arrays["keys"]), arrays["owners"], arrays["owner_order"]
    for part in ("text", "headings"):
        prefixes = arrays[f"{part}.prefixes"]
        _require(bool((prefixes[1:] >= prefixes[:-1]).all()), f"{part}.prefixes")
    for part in ("text", "headings", "sparse"):
        require_places(arrays[f"{part}.ids"], units, f"{part}.ids", arrays[f"{part}.offsets"])
        _require(part == "sparse" or bool(arrays[f"{part}.counts"].all()), f"{part}.counts")
    require_places(arrays["row_units"], units, "row_units")
    require_places(np.sort(order), len(owners), "owner_order")
    _require_rise(owners[order], "owner_order")
    _require_rise(arrays["sparse.terms"], "sparse.terms")
    rows, width = arrays["codes"].shape
    _require(arrays["vectors"].shape == ((rows, width + 1) if rows else (0, 0)), "vectors")
    _check_signs(arrays)
    return arrays


def _of_kind(name: str, array: Array, kinds: Sequence[str]) -> Array:
    dimensions = 2 if name in ("codes", "signs.words", "vectors") else 1
    if not array.size:
        return np.empty((0,) * dimensions, kinds[0])
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    _require(kind in kinds and array.dtype.isnative and array.ndim == dimensions, name)
    # Rows are of unit length, and what is far beyond would overflow in a search.
    most = np.inf if name == "sparse.weights" else 1e6
    _require(kind[0] != "f" or bool((np.abs(array) < most).all()), name)
    return array


def _check_signs(arrays: Mapping[str, Array]) -> None:
    rows, depths = len(arrays["signs.spreads"]), arrays["signs.depth"].tolist()
    width = arrays["codes"].shape[1] if rows else 0
    _require(rows in (0, len(arrays["codes"])), "signs.spreads")
    _require(arrays["signs.words"].shape == (-(-width // 64), rows), "signs.words")
    _require(len(arrays["signs.centre"]) == width, "signs.centre")
    _require(len(depths) == bool(rows) and all(FEWEST <= n <= rows for n in depths), "signs.depth")


def _require(holds: bool, name: str) -> None:
    if not holds:
        raise ValueError(f"{name!r} is not that of a segment")


def _require_rise(values: Array, name: str, runs: NDArray[np.int64] = _ONE_RUN) -> None:
    rises = values[1:] > values[:-1]
    rises[runs[(runs > 0) & (runs < len(values))] - 1] = True
    _require(bool(rises.all()), name)


def require_places(
    places: Array, count: int, name: str, runs: NDArray[np.int64] = _ONE_RUN
) -> None:
    """Raise ValueError unless these are places of so many items, and rise in each of the runs."""
    _require(places.ndim == 1 and places.dtype.kind in "iu", name)
    _require(not len(places) or bool(places.min() >= 0 and places.max() < count), name)
    _require_rise(places, name, runs)


def require_order(segment: Segment) -> None:
    """Raise ValueError where a search by halves, or a tie, would go astray: this takes a while."""
    for vocabulary in (segment.text.vocabulary, segment.headings.vocabulary):
        assert isinstance(vocabulary, SortedVocabulary)
        sound = SortedVocabulary.of(sorted(set(vocabulary.words())))
        _require(np.array_equal(sound.blob, vocabulary.blob), "words")
        _require(np.array_equal(sound.prefixes, vocabulary.prefixes), "prefixes")
    for at in range(0, len(segment.vectors), BLOCK):
        segment.exact_rows(np.arange(at, min(at + BLOCK, len(segment.vectors))))
    groups = list(zip(segment.names, segment.owners.tolist(), strict=True))
    _require(groups == sorted(groups), "name_blob")
    if segment.signs:
        sound_signs = sign(segment.codes, segment.scales, segment.signs.centre)
        _require(np.array_equal(sound_signs[0], segment.signs.words), "signs.words")
        _require(np.allclose(sound_signs[1], segment.signs.spreads, rtol=1e-3), "signs.spreads")
