"""The formats of the store's files: sidecars, dataset files, layers.

JSON is indented, its keys in one order and its text unescaped, so that it reads and diffs well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from triptych.errors import ValidationError
from triptych.records import (
    DatasetConfig,
    DerivedLayer,
    DerivedSig,
    Metadata,
    SourceDocument,
    SystemData,
    copy_metadata,
)
from triptych.records.metadata import metadata_from_plain, metadata_to_plain, same_metadata
from triptych.records.serialization import from_dict, to_dict
from triptych_backends.filesystem.layout import decode, fallback, fold, folder_fallback, folder_of
from triptych_backends.sql.transaction import Dataset

MOST_VERSION = 1 << 62
"""What is below it fits SQLite's integers with room to spare."""

_FENCE = "---\n"


class FormatError(Exception):
    """A file is not what the store writes there; the message says why."""


class CaseMismatchError(FormatError):
    """On a disk that ignores case the file was found under a name that differs in case."""


@attrs.frozen(kw_only=True)
class Sidecar:
    """What is known of a document besides its content. ``path`` is relative to its dataset."""

    name: str
    path: str
    sha256: str
    version: int
    updated_at: datetime
    metadata: Metadata
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = attrs.field(factory=SystemData)

    @classmethod
    def of(cls, document: SourceDocument, path: str, sha256: str = "") -> Sidecar:
        """The sidecar of a document at ``path``; ``sha256`` of its content, if it is known."""
        return cls(
            name=document.name,
            path=path,
            sha256=sha256 or hashlib.sha256(document.content.encode()).hexdigest(),
            version=document.version,
            updated_at=document.updated_at,
            metadata=copy_metadata(document.metadata),
            original_sha256=document.original_sha256,
            parser_sig=document.parser_sig,
            system=document.system,
        )

    def same(self, other: Sidecar) -> bool:
        """Whether both tell the same of the document, whenever it was put."""
        alike = attrs.evolve(self, updated_at=other.updated_at) == other
        return alike and same_metadata(self.metadata, other.metadata)

    def document(self, dataset_id: str, content: str) -> SourceDocument:
        """The document with its content."""
        return SourceDocument(
            dataset_id=dataset_id,
            name=self.name,
            content=content,
            metadata=copy_metadata(self.metadata),
            version=self.version,
            updated_at=self.updated_at,
            original_sha256=self.original_sha256,
            parser_sig=self.parser_sig,
            system=self.system,
        )


@attrs.frozen(kw_only=True)
class DatasetManifest:
    """A dataset: its folder, whether it exists, the greatest version ever deleted in it."""

    id: str
    folder: str
    live: bool = False
    deleted_version: int = 0
    config: DatasetConfig | None = None


def state_of(home: DatasetManifest | Dataset | None) -> tuple[bool, DatasetConfig | None, int]:
    """What a dataset's file and its mirror both say; None is of a dataset that is not known."""
    return (False, None, 0) if home is None else (home.live, home.config, home.deleted_version)


def dump(value: Mapping[str, Any]) -> bytes:
    """``value`` as the JSON that the store writes."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def write_sidecar(sidecar: Sidecar) -> bytes:
    """The file of a sidecar."""
    value: dict[str, Any] = {
        "name": sidecar.name,
        "path": sidecar.path,
        "sha256": sidecar.sha256,
        "version": sidecar.version,
        "updated_at": _written(sidecar.updated_at),
        "metadata": dict(sorted(metadata_to_plain(sidecar.metadata).items())),
    }
    if sidecar.original_sha256 or sidecar.parser_sig:
        value["original_sha256"] = sidecar.original_sha256
        value["parser_sig"] = sidecar.parser_sig
    value["system"] = {key: text for key, text in to_dict(sidecar.system).items() if text}
    return dump(value)


def read_sidecar(data: bytes, path: str) -> Sidecar:
    """The sidecar of the file at ``path``.

    Raises:
        FormatError: it is damaged, or another file's.
    """
    value = parse(data)
    try:
        sidecar = Sidecar(
            name=_text(value, "name"),
            path=_text(value, "path"),
            sha256=_text(value, "sha256"),
            version=_whole(value, "version", 1),
            updated_at=_time(_text(value, "updated_at")),
            metadata=metadata_from_plain(value.get("metadata") or {}),
            original_sha256=_text(value, "original_sha256", ""),
            parser_sig=_text(value, "parser_sig", ""),
            system=from_dict(SystemData, value.get("system", {})),
        )
    except ValidationError as error:
        raise FormatError(str(error)) from error
    if sidecar.path != path:
        raise _other(sidecar.path, path)(f"it is of {sidecar.path!r}, not of {path!r}")
    if sidecar.name not in (path, decode(path)) and fallback(sidecar.name) != path:
        raise FormatError(f"the name {sidecar.name!r} does not stand at {path!r}")
    return sidecar


def write_home(home: DatasetManifest) -> bytes:
    """The file of a dataset."""
    config = None if home.config is None else attrs.asdict(home.config)
    return dump(
        {
            "id": home.id,
            "folder": home.folder,
            "live": home.live,
            "deleted_version": home.deleted_version,
            "config": config,
        }
    )


def read_home(data: bytes, folder: str) -> DatasetManifest:
    """The dataset of ``folder``.

    Raises:
        FormatError: the file is damaged, or another folder's.
    """
    value = parse(data)
    config = value.get("config")
    if config is not None:
        if not isinstance(config, dict):
            raise FormatError("its config is not an object")
        config = DatasetConfig(
            chunker_sig=_text(config, "chunker_sig"),
            embed_sig=_text(config, "embed_sig", ""),
            language=_text(config, "language", "english"),
            sparse_sig=_text(config, "sparse_sig", ""),
        )
    home = DatasetManifest(
        id=_text(value, "id"),
        folder=_text(value, "folder"),
        live=value.get("live") is True,
        deleted_version=_whole(value, "deleted_version", 0),
        config=config,
    )
    known = (home.id, folder_of(home.id), folder_fallback(home.id))
    if home.folder != folder or folder not in known:
        raise _other(home.folder, folder)(f"it is of the folder {home.folder!r}, not of {folder!r}")
    return home


def write_layer(layer: DerivedLayer) -> bytes:
    """A layer as Markdown: front matter, an empty line, the text, a line break.

    Its embedding space is left out, as its vector is.
    """
    sig = layer.sig
    values: dict[str, Any] = {
        "dataset": layer.dataset_id,
        "document": layer.doc_name,
        "layer": str(layer.layer),
        "source_version": sig.source_version,
        "prompt_sig": sig.prompt_sig,
        "input_sig": sig.input_sig,
    }
    if sig.chunker_sig:
        values["chunker_sig"] = sig.chunker_sig
    front = "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items()
    )
    return f"{_FENCE}{front}{_FENCE}\n{layer.content}\n".encode()


def read_layer(data: bytes) -> DerivedLayer:
    """The layer that a file holds, without embedding space and vector.

    Raises:
        FormatError: it does not begin with the front matter that the store writes.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from error
    begin = _end_of(text, "---", 0)
    values: dict[str, Any] = {}
    while True:
        end = text.find("\n", begin)
        line = text[begin:end].rstrip("\r")
        if end < 0:
            raise FormatError("its front matter does not end")
        begin = end + 1
        if line == "---":
            break
        key, colon, value = line.partition(": ")
        try:
            values[key] = json.loads(value) if colon else None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"its front matter is damaged: {line[:60]!r}") from error
    begin = _end_of(text, "", begin)
    content = text[begin:].removesuffix("\n")
    try:
        return DerivedLayer(
            dataset_id=_text(values, "dataset"),
            doc_name=_text(values, "document"),
            layer=_text(values, "layer"),
            content=content,
            sig=DerivedSig(
                source_version=_whole(values, "source_version", 0),
                chunker_sig=_text(values, "chunker_sig", ""),
                prompt_sig=_text(values, "prompt_sig"),
                input_sig=_text(values, "input_sig"),
            ),
        )
    except ValidationError as error:
        raise FormatError(str(error)) from error


def _other(said: str, path: str) -> type[FormatError]:
    return CaseMismatchError if said != path and fold(said) == fold(path) else FormatError


def _end_of(text: str, line: str, begin: int) -> int:
    """Behind ``line`` and its line break, CRLF too."""
    for whole in (f"{line}\n", f"{line}\r\n"):
        if text.startswith(whole, begin):
            return begin + len(whole)
    raise FormatError("it has no front matter")


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object in ``data``.

    Raises:
        FormatError: there is none.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise FormatError("it is not a JSON object")
    return value


def _text(value: Mapping[str, Any], key: str, default: str | None = None) -> str:
    found = value.get(key, default)
    if not isinstance(found, str):
        raise FormatError(f"it has no {key!r}")
    try:
        found.encode()
    except UnicodeEncodeError as error:
        raise FormatError(f"its {key!r} holds a lone surrogate") from error
    return found


def _whole(value: Mapping[str, Any], key: str, least: int) -> int:
    found = value.get(key)
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found < MOST_VERSION:
        raise FormatError(f"its {key!r} is not a whole number from {least} up")
    return found


def _written(time: datetime) -> str:
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="microseconds")


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
        # In UTC the first and the last year may be left.
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise FormatError(f"{text[:40]!r} is not a time") from error
