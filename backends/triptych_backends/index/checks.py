"""Whether a search index is sound: by its files alone, or unit by unit against the truth."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych.diagnostics import Check, FindingCollector
from triptych.errors import CancelledError
from triptych.records import Finding, HealthCheck
from triptych.text import Analyzer
from triptych_backends.index.build import SegmentBuilder, TermDictionary
from triptych_backends.index.change_log import FIELDS, Field, Unit
from triptych_backends.index.dataset import PUBLISH_AT, is_of_log
from triptych_backends.index.folder import damage_named
from triptych_backends.index.local import LocalIndex
from triptych_backends.index.segment import DamagedError, Segment, SegmentReader
from triptych_backends.index.segment_checks import require_order
from triptych_backends.index.sparse_postings import unit_digests

_ANEW = "the next search builds it from the documents"


def check_index(index: LocalIndex, dataset: str, *, writes: bool) -> HealthCheck:
    """Whether a dataset's published index is of use, seen without a search and without repairing.

    ``writes``: whether its folder may be written.
    """
    folder, feed = index.folder(dataset), index.feed
    assert folder is not None

    def found(detail: str, remedy: str = "") -> HealthCheck:
        return HealthCheck(
            name="index",
            status="warning" if remedy else "ok",
            detail=f"the search index of dataset {dataset!r} {detail}",
            remedy=remedy,
        )

    try:
        published = folder.load({})
    except DamagedError as error:
        return found(f"is damaged ({error})", f"nothing needs doing: {_ANEW}")
    except OSError as error:
        return found(
            f"cannot be read ({error.strerror}), so each process builds its own in memory",
            f"give this user the rights to {folder.path}, or delete that folder",
        )
    place = next(path for path in (folder.path, *folder.path.parents) if path.exists())
    if writes and not os.access(place, os.W_OK):
        return found(
            "cannot be written, so each process builds its own in memory",
            f"give this user the right to write to {place}",
        )
    head = feed.head()
    if published is not None:
        profile = feed.profile(dataset)
        made_as = (index.analyzers(profile.language).signature, profile.space, profile.sparse)
        if published.made_as != made_as:
            return found("was made for another analyzer or model", f"nothing needs doing: {_ANEW}")
        if not is_of_log(feed, published, head):
            return found("belongs to another state of the store", f"nothing needs doing: {_ANEW}")
    behind = len(feed.changes(dataset, published.seq if published else 0))
    if published is None and behind >= PUBLISH_AT:
        return found("is missing", f"nothing needs doing: {_ANEW}, which takes a while")
    return found(f"is sound and {behind} changes behind, which the next search reads")


_OWNERS = 256
_TRIES = 5
_POSTINGS = 1 << 18
_DROPPED = "the index is dropped, and the next search builds it from the documents"

CHECKS = {
    check.name: check
    for check in (
        Check(
            "index.damaged",
            "a file of the search index is missing, fails its checksum, or is out of order",
            "the next search must read everything again, or misses words",
            repair=_DROPPED,
        ),
        Check(
            "index.missing",
            "the search index lacks stored data",
            "searches do not find it",
            repair=_DROPPED,
        ),
        Check(
            "index.surplus",
            "the search index has data that is not stored",
            "searches return too few hits, and scores count deleted data",
            repair=_DROPPED,
        ),
        Check(
            "index.words",
            "the search index has other words, headings, vectors or names than the stored data",
            "searches find documents by wrong words, and miss them by their words",
            repair=_DROPPED,
        ),
        Check(
            "index.unchecked",
            "the search index cannot be compared with the stored data, which cannot be read",
            "searches may miss documents",
            remedy="repair what else the doctor found, and run it again",
        ),
    )
}


class _Held(NamedTuple):
    """What is known of one unit: its document, its place there, a digest of all else."""

    name: str
    position: int
    digest: int


_TWICE = _Held("", -1, 0)  # a search finds both


def examine_index(index: LocalIndex, dataset: str) -> Iterator[Finding]:
    """What is wrong with the index of one dataset.

    Damage ends the examination: an index is made again of a damaged one when it is next used.
    """
    tally = FindingCollector()
    place = f"the search index of dataset {dataset!r}"
    folder = index.folder(dataset)
    if folder is not None:
        try:
            published = folder.load({})
            for views in published.fields.values() if published else ():
                for segment in (view.segment for view in views):
                    with damage_named(folder.path / str(segment.file)):
                        require_order(segment)
        except (DamagedError, OSError) as error:
            tally.add(CHECKS["index.damaged"], place, str(error), dataset_id=dataset)
            yield from tally.findings()
            return
    for field in FIELDS:
        try:
            _compare(index, dataset, field, tally, place)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a damaged row of the truth ends with
            detail = f"{field}: {error}"
            tally.add(CHECKS["index.unchecked"], place, detail, dataset_id=dataset)
    yield from tally.findings()


def _compare(
    index: LocalIndex, dataset: str, field: Field, tally: FindingCollector, place: str
) -> None:
    feed = index.feed
    for _ in range(_TRIES):
        before = feed.head()
        found = FindingCollector()
        _compare_at(index, dataset, field, found, place)
        # Of what was written meanwhile, the two saw different states.
        if not found.findings() or feed.head() == before:
            tally.extend(found.findings())
            return


def _compare_at(
    index: LocalIndex, dataset: str, field: Field, tally: FindingCollector, place: str
) -> None:
    """Page through both sides by owner: a page of units is in memory, and a number a unit."""
    feed = index.feed
    views = index.views(dataset, field)
    digests = [_digests(view.segment) for view in views]
    analyzer = index.analyzers(feed.profile(dataset).language)
    after, more = 0, True
    while more:
        owners = feed.owners(dataset, field, after, _OWNERS)
        more = len(owners) == _OWNERS
        last = owners[-1] if more else None
        held: dict[int, dict[int, _Held]] = {}
        for view, words in zip(views, digests, strict=True):
            _read(view, words, after, last, held)
        stored = _stored(feed.units(dataset, field, owners), analyzer)
        for owner in sorted({*owners, *held}):
            mine, theirs = stored.get(owner, {}), held.get(owner, {})
            name = next((one.name for one in (*mine.values(), *theirs.values())), owner)
            label = f"{field} of {name!r}"
            for check, wrong in (
                ("index.missing", mine.keys() - theirs.keys()),
                ("index.surplus", theirs.keys() - mine.keys()),
                ("index.words", {k for k in mine.keys() & theirs.keys() if mine[k] != theirs[k]}),
            ):
                if wrong:
                    tally.add(CHECKS[check], place, label, dataset_id=dataset)
        after = owners[-1] if owners else after


def _read(
    view: SegmentReader,
    digests: NDArray[np.uint64],
    after: int,
    last: int | None,
    into: dict[int, dict[int, _Held]],
) -> None:
    """The live units of the owners above `after`, up to `last` (None: to the end)."""
    segment = view.segment
    ordered = segment.owners[segment.owner_order]
    start = int(ordered.searchsorted(after, "right"))
    end = len(ordered) if last is None else int(ordered.searchsorted(last, "right"))
    names = segment.names
    for group in segment.owner_order[start:end].tolist():
        units = np.arange(segment.starts[group], segment.starts[group + 1])
        units = units[~np.isin(units, view.dead)] if len(view.dead) else units
        known = into.setdefault(int(segment.owners[group]), {})
        for unit in units.tolist():
            held = _Held(names[group], int(segment.indexes[unit]), int(digests[unit]))
            # Of a unit that is there twice, each search finds two.
            known[int(segment.keys[unit])] = (
                held if int(segment.keys[unit]) not in known else _TWICE
            )


def _stored(units: Iterator[Unit], analyzer: Analyzer) -> dict[int, dict[int, _Held]]:
    """What the truth has, as the index should hold it."""
    words = TermDictionary(analyzer)
    builder = SegmentBuilder(words, shared=True)
    for unit in units:
        known, labels = words.encode_all([unit.text]), words.encode_all([unit.label])
        builder.add([unit], *words.in_language([unit.text], known, [unit.label], labels))
    segment = builder.finish()
    found: dict[int, dict[int, _Held]] = {}
    _read(SegmentReader(segment), _digests(segment), -1, None, found)
    return found


def _digests(segment: Segment) -> NDArray[np.uint64]:
    """For each unit a digest of its words, headings, length, vector and sparse vector."""
    sums = segment.lengths.astype(np.uint64)
    for part, salt in ((segment.text, b""), (segment.headings, b"heading")):
        hashes = _hashes(part.vocabulary.words(), salt)
        for start in range(0, len(part.ids), _POSTINGS):
            end = min(start + _POSTINGS, len(part.ids))
            terms = part.offsets.searchsorted(np.arange(start, end), "right") - 1
            np.add.at(sums, part.ids[start:end], hashes[terms] * part.counts[start:end])
    sparse, count = segment.sparse, len(segment)
    if sparse:
        repeated = np.repeat(sparse.terms, np.diff(sparse.offsets))
        sums += unit_digests(repeated, sparse.ids, sparse.weights, count)
    rows = np.array([zlib.crc32(row) for row in segment.codes], np.uint32)
    for numbers in (rows, segment.row_keys.astype(np.uint32)):
        sums += unit_digests(numbers, segment.row_units, segment.scales, count)
    return sums


def _hashes(words: Sequence[str], salt: bytes) -> NDArray[np.uint64]:
    """64 bits of each word."""
    data = b"".join(
        hashlib.blake2b(word.encode(), digest_size=8, salt=salt).digest() for word in words
    )
    return np.frombuffer(data, np.uint64)
