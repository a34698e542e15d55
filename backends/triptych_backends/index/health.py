"""Whether a dataset's published index is of use, seen without a search and without repairing."""

from __future__ import annotations

import os
from collections.abc import Callable

from triptych.records import HealthCheck
from triptych_backends.index.change_log import ChangeLog, TextAnalyzer
from triptych_backends.index.dataset import PUBLISH_AT, is_of_log
from triptych_backends.index.folder import Folder
from triptych_backends.index.storage import DamagedError

_ANEW = "the next search builds it from the documents"


def check_index(
    dataset: str,
    folder: Folder,
    feed: ChangeLog,
    analyzers: Callable[[str], TextAnalyzer],
    *,
    writes: bool,
) -> HealthCheck:
    """What the next search will find in ``folder``. ``writes``: whether it may be written."""

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
        made_as = (analyzers(profile.language).signature, profile.space, profile.sparse)
        if published.made_as != made_as:
            return found("was made for another analyzer or model", f"nothing needs doing: {_ANEW}")
        if not is_of_log(feed, published, head):
            return found("belongs to another state of the store", f"nothing needs doing: {_ANEW}")
    behind = len(feed.changes(dataset, published.seq if published else 0))
    if published is None and behind >= PUBLISH_AT:
        return found("is missing", f"nothing needs doing: {_ANEW}, which takes a while")
    return found(f"is sound and {behind} changes behind, which the next search reads")
