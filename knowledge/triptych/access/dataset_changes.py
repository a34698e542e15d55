"""The changes of several datasets, as those of a store that has no others."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import attrs

from triptych.contracts import ChangeReader
from triptych.records import ChangeCursor, ChangePage, DocumentChange

__all__ = ["DatasetsChanges"]

_NOWHERE = f"no-dataset-{secrets.token_hex(16)}"
"""The name of no dataset: where none is asked for, the log is read all the same."""


@attrs.frozen(eq=False)
class DatasetsChanges:
    """A `ChangeReader` of the datasets ``names``; the cursors are those of ``reader``.

    Each dataset is read by itself: what the log no longer knows of others (after a purge of
    theirs, say) lets nobody begin again here.
    """

    reader: ChangeReader
    names: Sequence[str]

    def change_head(self) -> str:
        """See `ChangeReader.change_head`. It moves with every dataset of the store."""
        return self.reader.change_head()

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`. A dataset that is not among these does not exist."""
        asked = [name for name in self.names if dataset_id in (None, name)] or [_NOWHERE]
        run = self._run(asked, since, limit)
        reset = run is None
        while run is None:
            since = None
            run = self._run(asked, since, limit)
        more = run.cut
        if not more and since is not None and since.until is not None:
            # A run ended that began earlier: there may be another, with changes of others alone.
            following = self._run(asked, run.end, limit if not run.changes else 1)
            if not run.changes and following is not None:
                run, more = following, following.cut
            else:
                more = following is None or bool(following.changes)
        cursor = run.changes[-1].cursor if run.cut else str(run.end)
        return ChangePage(changes=tuple(run.changes), cursor=cursor, reset=reset, more=more)

    def _run(self, asked: Sequence[str], since: ChangeCursor | None, limit: int) -> _Run | None:
        """The changes after ``since`` up to one end of the log; None to begin at the beginning."""
        start = since
        end = None if since is None or since.until is None else _end(since)
        found: list[tuple[int, DocumentChange]] = []
        cuts: list[int] = []
        for name in asked:
            page = self.reader.read_changes(start, dataset_id=name, limit=limit)
            if page.reset:
                return None
            last = ChangeCursor.parse(page.cursor)
            if end is None:
                # The others are read up to the same end, whatever is committed meanwhile.
                end = _end(last)
                base = 0 if start is None else start.number
                start = ChangeCursor(number=base, mark=end.mark, base=base, until=end.number)
            numbered = [(ChangeCursor.parse(each.cursor).number, each) for each in page.changes]
            # A dataset without a change up to the end shows what came after it.
            found += [each for each in numbered if each[0] <= end.number]
            if last.until == end.number:
                cuts.append(last.number)
        assert end is not None  # at least one was read
        found.sort(key=itemgetter(0))
        # Where one page is cut, what another dataset has after that place is of the next page.
        shown = [change for number, change in found if not cuts or number <= min(cuts)]
        return _Run(shown[:limit], end, bool(cuts) or len(shown) > limit)


class _Run(NamedTuple):
    changes: list[DocumentChange]
    end: ChangeCursor
    cut: bool


def _end(cursor: ChangeCursor) -> ChangeCursor:
    return ChangeCursor(number=cursor.marked, mark=cursor.mark)
