"""A document's old versions: in order, readable, and each as it was put."""

from __future__ import annotations

from collections.abc import Iterator

from triptych.contracts import VersionReader
from triptych.errors import CancelledError
from triptych.records import DocumentInfo
from triptych.signatures import content_sha256

__all__ = ["failed_versions"]


def failed_versions(info: DocumentInfo, reader: VersionReader) -> Iterator[tuple[str, str]]:
    """The checks that the history of the document ``info`` fails, with what fails them."""
    dataset, name = info.dataset_id, info.name
    try:
        versions = reader.versions(dataset, name)
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001 - whatever a damaged row ends with, it is unreadable
        yield "history.unreadable", name
        return
    numbers = [each.version for each in versions]
    # Without any, the document was deleted meanwhile.
    if numbers and (numbers[0] != info.version or numbers != sorted(set(numbers), reverse=True)):
        yield "history.order", name
    for old in versions:
        if old.version != info.version and not _is_whole(old, reader):
            yield "history.unreadable", f"{name} version {old.version}"


def _is_whole(old: DocumentInfo, reader: VersionReader) -> bool:
    try:
        document = reader.get_version(old.dataset_id, old.name, old.version)
    except CancelledError:
        raise
    except Exception:  # noqa: BLE001 - as above
        return False
    return document is not None and content_sha256(document.content) == old.content_sha256
