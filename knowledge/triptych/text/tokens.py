"""Counting tokens with tiktoken, or estimating them.

tiktoken downloads a vocabulary at its first use, and by default keeps it in the folder for
temporary files. A program that counts tokens should neither wait for a network nor depend on
one, so nothing here downloads but `fetch_vocabulary`.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits, punctuation
from typing import Any, Final

import attrs
import regex

from triptych.errors import NotAvailableError, ValidationError
from triptych.installation import lacking

ENCODING: Final = "o200k_base"
"""The vocabulary that tiktoken is asked for."""

ENCODING_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""The SHA-256 of its file. tiktoken has the same one, and downloads again what differs."""

_VARIABLE: Final = "TIKTOKEN_CACHE_DIR"
_ADDRESS: Final = f"https://openaipublic.blob.core.windows.net/encodings/{ENCODING}.tiktoken"
# tiktoken names a file it keeps by the SHA-1 of its address.
_FILE_NAME: Final = hashlib.sha1(_ADDRESS.encode(), usedforsecurity=False).hexdigest()


def find_vocabulary() -> Path | None:
    """The file of the vocabulary, None if it is not on this machine or is damaged.

    Looks where tiktoken keeps it (TIKTOKEN_CACHE_DIR, DATA_GYM_CACHE_DIR, the folder for
    temporary files) and where `fetch_vocabulary` does.
    """
    for folder in _folders():
        path = folder / _FILE_NAME
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == ENCODING_SHA256:
                return path
        except OSError:
            continue
    return None


def load_encoding() -> Any | None:
    """tiktoken's encoding, None if its vocabulary is not on this machine. Never downloads.

    Raises:
        ImportError: tiktoken is not installed.
    """
    tiktoken = importlib.import_module("tiktoken")
    path = find_vocabulary()
    if path is None:
        return None
    with _kept_in(path.parent):
        return tiktoken.get_encoding(ENCODING)


def fetch_vocabulary() -> Path:
    """Download the vocabulary unless it is on this machine; the path of its file.

    It is kept in TIKTOKEN_CACHE_DIR, else in the user's folder for caches.

    Raises:
        NotAvailableError: tiktoken is not installed, or the download failed.
    """
    try:
        tiktoken = importlib.import_module("tiktoken")
    except ImportError as error:
        raise lacking("tiktoken is not installed", "tokens") from error
    found = find_vocabulary()
    if found is not None:
        return found
    given = os.environ.get(_VARIABLE)
    folder = Path(given) if given else _own_folder()
    try:
        with _kept_in(folder):
            tiktoken.get_encoding(ENCODING)
    except Exception as error:  # whatever tiktoken's network layer raises
        raise NotAvailableError(
            f"tiktoken's vocabulary {ENCODING} could not be downloaded from {_ADDRESS} "
            f"({type(error).__name__}): try again with a network, or copy that file to "
            f"{folder / _FILE_NAME}"
        ) from error
    return folder / _FILE_NAME


def _folders() -> Iterator[Path]:
    # The variables are tiktoken's own; "" switches its cache off.
    for variable in (_VARIABLE, "DATA_GYM_CACHE_DIR"):
        if given := os.environ.get(variable):
            yield Path(given)
    yield _own_folder()
    yield Path(tempfile.gettempdir()) / "data-gym-cache"


def _own_folder() -> Path:
    """Where `fetch_vocabulary` keeps it: unlike the folder for temporary files, it stays."""
    home = Path.home()
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        caches = home / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return caches / "triptych" / "tiktoken"


@contextmanager
def _kept_in(folder: Path) -> Iterator[None]:
    """Let tiktoken look in ``folder`` and nowhere else; it can be told by its variable only."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


MOST_CHARACTERS: Final = 16
"""A text of more than so many characters for each of n tokens is estimated above n."""


@cache
def _pieces() -> regex.Pattern[str]:
    # One alternative for each way in which byte-pair vocabularies split text; the order decides. A
    # single blank is part of the word after it. Compiled at its first use: that takes a while.
    return regex.compile(
        r" ?(?P<lower>[a-z]+)"
        r"|(?P<word>\p{Latin}+)"
        r"|(?P<wide>[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}])"
        r"|(?P<digits>[0-9]+)"
        r"|(?P<blank>[^\S\r\n]+)"
        r"|(?P<lines>[\r\n]+)"
        r"|(?P<marks>[!-/:-@\[-`{-~]+)"
        r"|(?P<alphabet>[\p{Cyrillic}\p{Greek}])"
        r"|(?P<letter>[\p{L}\p{M}])"
        r"|(?P<other>.)",
        regex.V1 | regex.DOTALL,
    )


@cache
def _texts(is_ascii: bool) -> Callable[[str], list[str]]:
    """Finds what `_pieces` matches, without saying what it is: all at once."""
    if is_ascii:  # twice as fast
        return re.compile(
            r" ?[a-z]+|[A-Za-z]+|[0-9]+|[ \t\v\f]+|[\r\n]+|[!-/:-@\[-`{-~]+|.", re.DOTALL
        ).findall
    return regex.compile(
        r" ?[a-z]+|\p{Latin}+|[0-9]+|[^\S\r\n]+|[\r\n]+|[!-/:-@\[-`{-~]+|.",
        regex.V1 | regex.DOTALL,
    ).findall


def estimate_tokens(text: str) -> int:
    """About how many tokens a language model's tokenizer makes of ``text``; "" has none.

    Without a vocabulary, from how byte-pair vocabularies split text. Meant to be rather too high
    than too low: over English and Chinese documentation and Python it is 1.1 to 1.7 times what
    four vocabularies in use count, and lower than theirs in one of a hundred passages at most. A
    Latin word is a token, and another for every four letters beyond six; a Chinese, Japanese or
    Korean character is one and a quarter; two digits are one; rows of punctuation and indents
    are one or more; other scripts count by their bytes in UTF-8.

    Text that is added at the end never makes it lower. It is at most the bytes in UTF-8, and a
    twentieth more for a long row of capitals. A text that is cut anywhere but in or before a word,
    or in a run of blanks, is not estimated above the sum of its pieces.
    """
    parts = [text]
    if text.isascii():
        shape = text.translate(_SHAPES)
        # Where a piece begins for certain: no shape has a "z".
        if "  " not in shape and "\t" not in shape:
            shape = shape.replace(" ", "z ")
        for last in "aA0":
            shape = shape.replace(last + "!", last + "z!")
        parts = shape.split("z")
    return math.ceil(round(sum(map(_COSTS.__getitem__, parts)), 6))


class _Costs(dict[str, float]):
    """About how many tokens each text is; texts repeat their words."""

    def __missing__(self, text: str) -> float:
        pieces = _texts(text.isascii())(text)
        cost = _cost(text) if len(pieces) == 1 else sum(map(self.__getitem__, pieces))
        if len(self) >= 1 << 14:
            self.clear()
        if len(text) <= 32:
            self[text] = cost
        return cost


_COSTS: Final = _Costs()
_SHAPES: Final = str.maketrans(
    f"{ascii_lowercase}{ascii_uppercase}{digits}{punctuation}\v\f",
    f"{'a' * 26}{'A' * 26}{'0' * 10}{'!' * 32}\t\t",
)
"""Makes the shape of a text in ASCII: pieces of one shape cost the same, and words have few."""


def _cost(piece: str) -> float:
    if piece.isascii() and piece.islower() and piece.lstrip(" ").isalpha():  # most of a text
        return 1 if len(piece) < 7 else 1 + (len(piece) - 6) / 4
    found = _pieces().match(piece)
    assert found is not None
    kind, length = found.lastgroup, found.end() - found.start()
    if kind == "lower":
        return 1 if length < 7 else 1 + (length - 6) / 4
    if kind == "word":
        # Capitals and accents break words up: HTTPSConnection, Übergröße.
        breaks = sum(map(str.isupper, piece[1:]))
        accents = 0 if piece.isascii() else sum(not each.isascii() for each in piece)
        return 1 + max(0, length - 5) / 4 + 0.8 * (breaks + accents)
    if kind == "wide":
        return 1.25
    if kind == "digits":
        return -(-length // 2)
    if kind == "blank":
        return (length > 1) + length // 16
    if kind == "lines":
        return 1 + length // 4
    if kind == "marks":
        return length if length < 3 else 1 + length / 2
    if kind == "alphabet":
        return 0.7
    return len(piece.encode("utf-8", "surrogatepass")) * (0.57 if kind == "letter" else 0.7)


def high_token_estimate(text: str) -> int:
    """A third of the UTF-8 bytes, rounded up, at least 1: for limits that are better not reached.

    English has about 4.5 bytes a token, code 3, Chinese 3 to 4: seldom too low, and a hundred
    times as fast as `estimate_tokens`.
    """
    return max(-(-len(text.encode("utf-8", "surrogatepass")) // 3), 1)


@attrs.frozen(kw_only=True, slots=True)
class TokenCounter:
    """Something that counts the tokens of a text.

    ``name`` says what counts, as `ContextPack.counter` shows it; ``exact`` is False for an
    estimate; ``warning`` is what the caller should know about it, "" for nothing.
    """

    name: str
    count: Callable[[str], int] = attrs.field(repr=False, eq=False)
    exact: bool = True
    warning: str = ""


ESTIMATE: Final = TokenCounter(name="estimate", count=estimate_tokens, exact=False)
"""Counts as `estimate_tokens` does."""

_LOCK: Final = threading.Lock()
_found: list[TokenCounter] = []


def default_counter() -> TokenCounter:
    """tiktoken's `ENCODING` where tiktoken and its vocabulary are there, else `ESTIMATE`.

    Never asks the network. Where tiktoken is installed and its vocabulary is not on this machine,
    the first answer of a process has a warning that says how to fetch it; later ones do not
    repeat it.
    """
    with _LOCK:
        if not _found:
            counter = _load()
            _found.append(attrs.evolve(counter, warning=""))
            return counter
        return _found[0]


def _load() -> TokenCounter:
    try:
        encoding = load_encoding()
    except ImportError:
        return ESTIMATE
    if encoding is None:
        return attrs.evolve(
            ESTIMATE,
            warning=(
                f"tokens are estimated: tiktoken is installed, but its vocabulary {ENCODING} is "
                "not on this machine; `triptych admin fetch tokens` downloads it once"
            ),
        )

    def count(text: str) -> int:
        # Text that looks like a special token is text here.
        return len(encoding.encode(text, disallowed_special=()))

    return TokenCounter(name=f"tiktoken {ENCODING}", count=count)


def as_counter(counter: Any) -> TokenCounter:
    """``counter`` as a `TokenCounter`: itself, a function from text to a number, or None for
    `default_counter`.

    What a function answers is checked at every call.

    Raises:
        ValidationError: it is none of these.
    """
    if counter is None:
        return default_counter()
    if isinstance(counter, TokenCounter):
        return attrs.evolve(counter, count=_checked(counter.name, counter.count))
    if not callable(counter):
        raise ValidationError(
            f"counter is a function from text to its number of tokens, not {counter!r:.60}"
        )
    name = str(getattr(counter, "__qualname__", type(counter).__qualname__))
    return TokenCounter(name=name, count=_checked(name, counter))


def _checked(name: str, count: Callable[[str], Any]) -> Callable[[str], int]:
    def checked(text: str) -> int:
        answer = count(text)
        if isinstance(answer, bool) or not isinstance(answer, int) or answer < 0:
            raise ValidationError(
                f"the counter {name} must answer a whole number from 0 up, not {answer!r:.60}"
            )
        return answer

    return checked
