"""A conversation in a file: a JSON list of messages."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triptych.errors import ValidationError

if TYPE_CHECKING:
    from triptych.records import Message

__all__ = ["read", "write"]


def read(path: Path) -> tuple[Message, ...]:
    """The messages in ``path``; none where there is no such file.

    Raises:
        ValidationError: the file cannot be read, holds something else, or is to be in a folder
            that is not there.
    """
    from triptych._internal.regular_files import read_regular
    from triptych.records import Message
    from triptych.records.serialization import from_dict

    try:
        text = read_regular(path).decode("utf-8")
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ValidationError(
                f"the conversation {path} cannot be written: there is no folder {path.parent}"
            ) from None
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"the conversation {path} cannot be read: {error}") from error
    try:
        return from_dict(tuple[Message, ...], json.loads(text))
    except ValueError as error:
        raise ValidationError(
            f'{path} holds no conversation, a JSON list of {{"role": …, "content": …}}: {error}'
        ) from error


def write(path: Path, messages: Sequence[Message]) -> None:
    """Put ``messages`` in place of what the file holds, whole or not at all.

    Raises:
        ValidationError: the file cannot be written.
    """
    from triptych.records.serialization import to_dict

    text = json.dumps(to_dict(tuple(messages)), ensure_ascii=False, indent=2) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ValidationError(f"the conversation {path} cannot be written: {error}") from error
