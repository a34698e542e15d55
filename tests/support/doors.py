"""What `make doors` leaves out: tests/doors.yaml, which it prints with its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

_LIST = Path(__file__).parents[1] / "doors.yaml"
_Groups = Mapping[str, Mapping[str, Sequence[str]]]


def _groups() -> _Groups:
    found: _Groups = yaml.safe_load(_LIST.read_text(encoding="utf-8"))
    return found


def excluded(door: str) -> set[str]:
    """The checks or tests of a door that are left out."""
    return {name for names in _groups()[door].values() for name in names}


def exclusions() -> Iterator[str]:
    """A line for each reason."""
    for door, reasons in _groups().items():
        for reason, names in reasons.items():
            yield f"{door}: {reason}: {', '.join(names)}"


def unlisted(skipped: Sequence[str]) -> list[str]:
    """Those of the skipped tests, by their node ids, that the list does not have."""
    known = excluded("haystack") | excluded("skipped")
    return [each for each in skipped if each.rpartition("::")[2].partition("[")[0] not in known]
