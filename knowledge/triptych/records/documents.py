"""Source documents, as they are put, kept and listed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import attrs

from triptych.records.checks import (
    check_document_name,
    document_content,
    expiry,
    optional_expiry,
    optional_system_text,
    optional_version,
    provenance,
    summary_part,
    system_text,
)
from triptych.records.metadata import Metadata, optional_metadata


@attrs.frozen(kw_only=True, slots=True)
class SystemData:
    """What Triptych itself keeps of a document, apart from the user's metadata.

    ``outline`` is what a parser knows of the content (`triptych.chunking.outline`), ``sync_root``
    the `triptych.sync.SyncRoot.key` of the root that the document is of. "" is none.
    ``expires_at`` is the moment, in UTC, from which on nothing finds the document; None is never.
    """

    outline: str = attrs.field(default="", converter=system_text)
    sync_root: str = attrs.field(default="", converter=system_text)
    expires_at: datetime | None = attrs.field(default=None, converter=expiry)


@attrs.frozen(kw_only=True, slots=True)
class NewDocument:
    """A document on its way in.

    ``metadata["title"]`` is its title and ``metadata["kind"]`` its kind ("markdown", "text",
    …), where its first heading and its name's ending should not decide. ``if_version`` is the
    version it must still have in the store (0: it must not exist), None for any.

    ``metadata`` None keeps what the document has; ``{}`` empties it. Neither changes the
    document's `SystemData`, which these fields set:

    - ``outline`` is the outline of ``content``, "" for none. None keeps that of the stored
      document if its content is the same; new content begins without one.
    - ``sync_root`` names the root that the document is of from now on, "" for none. None keeps
      that of the stored document.
    - ``expires_at`` is the moment from which on nothing finds the document, "never" for none. A
      datetime without an offset is in UTC. None keeps that of the stored document.

    A stored document that has expired counts as none: a put keeps nothing of it but its place in
    the count of versions, and ``if_version`` 0 is right.
    """

    name: str = attrs.field(converter=check_document_name)
    content: str = attrs.field(converter=document_content)
    metadata: Metadata | None = attrs.field(default=None, converter=optional_metadata)
    if_version: int | None = attrs.field(default=None, converter=optional_version)
    original_sha256: str = attrs.field(default="", converter=provenance)
    parser_sig: str = attrs.field(default="", converter=provenance)
    outline: str | None = attrs.field(default=None, converter=optional_system_text)
    sync_root: str | None = attrs.field(default=None, converter=optional_system_text)
    expires_at: datetime | Literal["never"] | None = attrs.field(
        default=None, converter=optional_expiry
    )


@attrs.frozen(kw_only=True, slots=True)
class SourceDocument:
    """The lossless input: the single truth everything else is derived from.

    ``content`` is what was put, code point for code point. ``version`` grows with every
    change and never repeats for a name, not even over a delete. Where a parser made the
    content, ``original_sha256`` and ``parser_sig`` say from what and how. ``metadata`` is the
    user's, ``system`` what Triptych needs.
    """

    dataset_id: str
    name: str
    content: str
    metadata: Metadata
    version: int
    updated_at: datetime
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = SystemData()


@attrs.frozen(kw_only=True, slots=True)
class DocumentInfo:
    """A document without its content.

    ``content_sha256`` is the hex digest of the content in UTF-8, ``size`` its bytes, and
    ``input_sig`` the digest of all that chunking and embedding read of the document.
    """

    dataset_id: str
    name: str
    metadata: Metadata
    version: int
    updated_at: datetime
    content_sha256: str
    size: int
    input_sig: str
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = SystemData()


@attrs.frozen(kw_only=True, slots=True)
class DocumentSummary:
    """A document's name and its L0, as a dataset's layers are made from."""

    name: str = attrs.field(converter=summary_part)
    abstract: str = attrs.field(converter=summary_part)
