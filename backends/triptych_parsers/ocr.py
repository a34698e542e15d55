"""Reading the text of pictures with RapidOCR: of scanned pages, and of picture files.

Its models know English and other languages in Latin letters, Chinese and Japanese.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.parsing import omission, one_line, words
from triptych.records import Omission
from triptych_parsers.worker import Reading, allow_more_time

SIGNATURE = "ocr/1"
"""Part of the signature of a parser that reads pictures: raise it with the version of rapidocr
in pyproject.toml, whose models it stands for."""

MAX_SIDE = 2000
"""Pixels of the longer side of a picture that is read; larger ones are made smaller. Of an A4 page
this is 170 dpi."""
_MOST_SCALE = 300 / 72
"""Pixels of a point, at most: a small page gains nothing by more than 300 dpi."""
_FEWEST_PIXELS = 8
"""Of a side; no letter fits into less."""
_FOUND_WITHIN = 1280
"""Pixels of the longer side in which lines are looked for; they are read in the full picture."""
SURE = 0.8
"""The confidence from which on a line is taken. Of the words of lines below it, a fifth was right,
from 0.8 to 0.95 a half, above it 96 of 100 (noisy English pages, 7 to 11 points)."""

WELL = 0.9
"""The confidence of a page below which it is named with the document: a third of its words is
wrong."""


@attrs.frozen
class Line:
    """A line, or the part of one, in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float
    text: str
    confidence: float


@attrs.frozen
class Picture:
    """What is read in a picture: lines in the order of reading, and the confidence (0 to 1), the
    mean over all characters; ``unsure`` are the lines left out."""

    text: str = ""
    confidence: float = 0.0
    unsure: tuple[str, ...] = ()


def read_pages(
    reading: Reading, pages: Iterable[tuple[int, Callable[[], NDArray[np.uint8]]]]
) -> dict[int, str]:
    """The text of each page in which there is some, by its number.

    A page is given by its number and the function that draws it, in BGR. How sure its text is
    becomes a note of ``reading``, or an omission, as do lines that are left out and pages for which
    there was no time. The lowest confidence is its metadata ``ocr_confidence``.
    """
    most = reading.limits.ocr_seconds
    allow_more_time(most)
    end = time.monotonic() + most
    texts: dict[int, str] = {}
    told: list[tuple[int, str, float]] = []
    unsure: list[Omission | None] = []
    for number, draw in pages:
        if time.monotonic() > end:
            told.append((number, f"not read: {most:g} seconds were over (ocr_seconds)", 0))
            continue
        found = read_picture(draw())
        if found.confidence:
            texts[number] = found.text
            told.append((number, "read by character recognition", found.confidence))
            lines = words(" ".join(found.unsure))
            unsure.append(
                omission(f"page {number}", lines, "character recognition is unsure of them")
            )
    for said, lowest in _by_run(told):
        if lowest < WELL:
            reading.omissions.append(said)
        else:
            reading.notes.append(f"{reading.name!r}: {said}")
    reading.omissions += filter(None, unsure)
    if texts:
        lowest = min(confidence for _, _, confidence in told if confidence)
        reading.metadata["ocr_confidence"] = round(lowest, 2)
    return texts


def _by_run(told: Sequence[tuple[int, str, float]]) -> Iterable[tuple[Omission, float]]:
    """What is said of pages, of neighbours with like confidence together, and their lowest."""
    for (_, what, _), run in groupby(
        enumerate(told), key=lambda at: (at[1][0] - at[0], at[1][1], round(at[1][2], 1))
    ):
        pages = [page for _, page in run]
        first, last, lowest = pages[0][0], pages[-1][0], min(each[2] for each in pages)
        place = f"page {first}" if first == last else f"pages {first}-{last}"
        reason = f"{what}, confidence {lowest:.2f}" if lowest else what
        yield Omission(place=place, words=0, reason=reason), lowest


def drawn(page: Any) -> NDArray[np.uint8]:
    """A page of pypdfium2, as it is shown, in BGR."""
    scale = min(MAX_SIDE / max(1.0, *page.get_size()), _MOST_SCALE)
    picture: NDArray[np.uint8] = page.render(scale=scale).to_numpy().copy()
    return picture


def read_picture(picture: NDArray[np.uint8]) -> Picture:
    """The text of a picture in BGR, of shape (height, width, 3), that may stand on its side or
    upside down.

    Raises:
        ModuleNotFoundError: rapidocr is not installed.
    """
    engine = _engine()  # first: a missing package is an error for any picture
    if min(picture.shape[:2]) < _FEWEST_PIXELS or not np.ptp(picture):
        return Picture()
    lines = _lines(engine, picture)
    found = _picture(lines)
    tall = sum(line.bottom - line.top > line.right - line.left for line in lines)
    turns = (1, 3) if 2 * tall > len(lines) else (2,) if 0 < found.confidence < SURE else ()
    if not turns:
        return found
    turned = (_lines(engine, np.ascontiguousarray(np.rot90(picture, turn))) for turn in turns)
    best = max(map(_picture, turned), key=lambda each: each.confidence)
    # Lines on their side are read one by one, but in no order.
    return best if best.confidence >= min(SURE, found.confidence) else found


@cache
def _engine() -> Any:
    rapidocr = import_module("rapidocr")  # it has no types
    models = Path(str(rapidocr.__file__)).parent / "models"
    options = {
        "Global.log_level": "critical",
        "Global.text_score": 0.0,
        "Global.use_cls": False,  # it turns good lines upside down
        "Global.max_side_len": MAX_SIDE,
        "EngineConfig.onnxruntime.intra_op_num_threads": 1,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
        # With the paths of its models, it never looks for them on the network.
        "Det.model_path": str(models / "PP-OCRv6_det_small.onnx"),
        "Det.limit_type": "max",
        "Det.limit_side_len": _FOUND_WITHIN,
        "Rec.model_path": str(models / "PP-OCRv6_rec_small.onnx"),
        "Rec.rec_batch_num": 1,  # a batch is filled up to its longest line
    }
    return rapidocr.RapidOCR(params=options)


def _lines(engine: Any, picture: NDArray[np.uint8]) -> list[Line]:
    found = engine(picture)
    if found.txts is None:
        return []
    corners = np.asarray(found.boxes, dtype=float)  # (lines, 4, 2), clockwise from the top left
    across = corners[:, 1] - corners[:, 0]
    wide = across[across[:, 0] > 5 * (corners[:, 3, 1] - corners[:, 0, 1])]
    skew = float(np.median(wide[:, 1] / wide[:, 0])) if len(wide) else 0.0
    y = corners[:, :, 1] - skew * corners[:, :, 0]
    edges = (corners[:, :, 0].min(1), y[:, :2].mean(1), corners[:, :, 0].max(1), y[:, 2:].mean(1))
    places = np.stack(edges, 1).tolist()
    return [
        Line(left, top, right, bottom, one_line(text), float(score))
        for (left, top, right, bottom), text, score in zip(
            places, found.txts, found.scores, strict=True
        )
        if text.strip()
    ]


def _picture(lines: Sequence[Line]) -> Picture:
    characters = sum(len(line.text) for line in lines)
    if not characters:
        return Picture()
    confidence = sum(line.confidence * len(line.text) for line in lines) / characters
    sure = [line for line in lines if line.confidence >= SURE]
    unsure = tuple(line.text for line in lines if line.confidence < SURE)
    return Picture(written(sure), confidence, unsure)


def written(lines: Sequence[Line]) -> str:
    """The text of ``lines``: columns one after the other, cells of one row on one line, and an
    empty line between paragraphs."""
    return "\n\n".join(map(_by_rows, _blocks(lines)))


_FEWEST = 4
"""Lines of a column."""
_FILLED = 0.6
"""Of a column's width, what half of its lines have at least: the cells of a table have less."""
_ACROSS = 0.2
"""Of all lines, those that may stand across two columns, such as titles."""


def _blocks(lines: Sequence[Line]) -> list[Sequence[Line]]:
    """``lines`` in blocks, in the order of reading: what stands across the page, and between that
    the columns from left to right."""
    gutter = _gutter(lines)
    if gutter is None:
        return [lines] if lines else []
    blocks: list[Sequence[Line]] = []
    ordered = sorted(lines, key=lambda line: line.top)
    for across, run in groupby(ordered, key=lambda line: line.left < gutter < line.right):
        band = list(run)
        left = [line for line in band if line.right <= gutter]
        right = [line for line in band if line.left >= gutter]
        blocks += [band] if across else [*_blocks(left), *_blocks(right)]
    return blocks


def _gutter(lines: Sequence[Line]) -> float | None:
    """Where the space between two columns of text is; None without columns."""
    if len(lines) < 2 * _FEWEST:
        return None
    start, end = min(line.left for line in lines), max(line.right for line in lines)
    places = np.linspace(start + (end - start) / 4, end - (end - start) / 4, 51)
    across = [sum(line.left < at < line.right for line in lines) for at in places]
    gutter = float(places[across.index(min(across))])
    left = [line.right - line.left for line in lines if line.right <= gutter]
    right = [line.right - line.left for line in lines if line.left >= gutter]
    if min(len(left), len(right)) < _FEWEST or min(across) > _ACROSS * len(lines):
        return None
    filled = median(left) > _FILLED * (gutter - start) and median(right) > _FILLED * (end - gutter)
    return gutter if filled else None


def _by_rows(lines: Sequence[Line]) -> str:
    """The text of one block: lines side by side on one line, an empty line between paragraphs."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: line.top + line.bottom):
        last = rows[-1][0] if rows else None
        middle = (line.top + line.bottom) / 2
        if last is not None and middle < last.bottom - (last.bottom - last.top) / 4:
            rows[-1].append(line)
        else:
            rows.append([line])
    tops = [min(line.top for line in row) for row in rows]
    steps = [below - above for above, below in pairwise(tops)]
    usual = median(steps) if steps else 0
    pieces = []
    for row, step in zip(rows, [0, *steps], strict=True):
        pieces.append("\n" if step > 1.5 * usual else "")
        pieces.append(" ".join(each.text for each in sorted(row, key=lambda line: line.left)))
        pieces.append("\n")
    return "".join(pieces).strip("\n")
