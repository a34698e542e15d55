"""What several tests do to the files of the JSON example."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def full_disk(store: object) -> Iterator[None]:
    """No file can take another's place, which fails every write of a JSON store."""

    def full(*_: object) -> None:
        raise OSError("no space left")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.replace", full)
        yield
