"""Stable ids of chunks, for stores and programs that keep chunks under an id of their own."""

from __future__ import annotations

import uuid
from typing import Final

from triptych._internal.digests import digest

_CHUNKS: Final = uuid.UUID("b6482900-31b6-52d6-af5d-00d5479f083c")
"""The namespace of chunk ids; never to be changed."""


def chunk_id(dataset_id: str, doc_name: str, input_sig: str, occurrence: int) -> str:
    """The stable id of a chunk: a UUID of version 5, unique among all chunks of a store.

    It is made of what the chunk's vector is made of (`embedding_input_sig` of title, headings and
    text) and of its document, so it changes if and only if one of these does. ``occurrence`` is
    the number of chunks before it in the document that have the same ``input_sig``.
    """
    name = digest("chunk", dataset_id, doc_name, input_sig, str(occurrence))
    return str(uuid.uuid5(_CHUNKS, name))
