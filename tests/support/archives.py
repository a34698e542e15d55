"""Archives that nobody wrote."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from triptych.copies.archive_format import Archive
from triptych.copies.copy import copy_store
from triptych.errors import TriptychError
from triptych_backends.memory import MemoryStore

Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def write_members(path: Path, members: Members, **options: Any) -> Path:
    """Write an archive, its digests made to fit."""
    manifest = json.loads(members["manifest.json"])
    manifest["members"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != "manifest.json"
    }
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, data in {**members, "manifest.json": json.dumps(manifest).encode()}.items():
            file.writestr(name, data)
    return path


def refused(path: Path) -> TriptychError:
    """The error of an archive, from which nothing was copied."""
    target = MemoryStore()
    with pytest.raises(TriptychError) as raised, Archive(path) as archive:
        copy_store(archive, target)
    assert list(target.documents.list_datasets()) == []
    return raised.value
