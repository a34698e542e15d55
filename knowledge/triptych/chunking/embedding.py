"""The text that is embedded for a chunk."""

from collections.abc import Sequence


def embedding_text(title: str | None, heading_path: Sequence[str], chunk_content: str) -> str:
    """Return what the embedder reads of a chunk: "title > heading > heading", then the chunk.

    The title is left out where it is empty or is the outermost heading; with neither title nor
    headings the chunk stands alone. A pure function of its arguments: its digest decides whether
    a chunk is embedded again.
    """
    parts = [" ".join(heading.split()) for heading in heading_path]
    name = " ".join(title.split()) if title else ""
    if name and parts[:1] != [name]:
        parts.insert(0, name)
    line = " > ".join(part for part in parts if part)
    return f"{line}\n{chunk_content}" if line else chunk_content
