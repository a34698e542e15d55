"""TOML, within bounds."""

from __future__ import annotations

import re
import tomllib
from typing import Any

# Memory and time of tomllib grow with the square of the parts of a dotted key. A quote after a
# backslash begins no key: so each character is looked at by few attempts.
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?<![\w\\-])(?:{_PART}\.[ \t]*+){{16}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Return what ``text`` says.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML, nests too deep, or has a key of more than 16 parts.
    """
    if _DEEP_KEY.search(text):
        raise tomllib.TOMLDecodeError("a key has more than 16 parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise tomllib.TOMLDecodeError("it nests too deep") from error
