"""What the doctor finds, and what it did about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs


@attrs.frozen(kw_only=True, slots=True)
class Finding:
    """One thing that is wrong, as often as it is in one place.

    Attributes:
        check: the check that found it, such as "chunks.spans".
        place: where: a dataset, the database, a file.
        detail: what is wrong.
        why: what it does to answers or to later work.
        repair: how a repair repairs it, "" where it cannot.
        remedy: what only a person can do about it, "" where a repair does.
        dataset_id: the dataset that it is in, "" where it is the whole store.
        count: how many times.
        examples: the first few of those, by name.
        derives: whether the repair makes chunks or vectors again, for which the Service must be
            of the configuration that the dataset was filled with.
    """

    check: str
    place: str
    detail: str
    why: str
    repair: str = ""
    remedy: str = ""
    dataset_id: str = ""
    count: int = 1
    examples: tuple[str, ...] = ()
    derives: bool = False

    @property
    def repairable(self) -> bool:
        """Whether a repair can fix it."""
        return bool(self.repair)

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        named = f": {', '.join(self.examples)}" if self.examples else ""
        return f"{self.check}: {self.place}: {self.detail}{times}{named}"


@attrs.frozen(kw_only=True, slots=True)
class DoctorReport:
    """What an examination found; after a repair, what is left.

    Attributes:
        findings: what is wrong now.
        repaired: what was wrong, and is no more.
        actions: what the repair did, in order.
        checked: how many documents, chunks, layers and so on were looked at.
        skipped: what could not be looked at here, and why.
        left_out: what is in no chunk, and so is not found by a search of chunks, and why.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("clean",)

    findings: tuple[Finding, ...] = ()
    repaired: tuple[Finding, ...] = ()
    actions: tuple[str, ...] = ()
    checked: Mapping[str, int] = attrs.field(factory=dict)
    skipped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return not self.findings
