"""Where a store is: what a URL or path says, before anything is opened."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import attrs

from triptych._internal.urls import query_of, shown_url, split_url, url_options
from triptych.errors import ValidationError
from triptych.records import check_text

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

_URL_LIKE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive

_KNOWN = ("memory", "sqlite", "files")
_SERVERS = ("http", "https")
_DATABASES = ("postgresql", "postgresql+psycopg", "postgres")
_SEARCHED = "qdrant"

_BESIDE = ("-wal", "-wal.owner", "-shm", "-journal", ".index", ".qdrant.lock")
"""What SQLite and the search index put beside a database, by the end of its name."""


@attrs.frozen(kw_only=True, slots=True)
class Location:
    """A scheme, and the absolute path of the store's file or folder where the scheme has one, or
    the address of a server: of Triptych's own, or of a database."""

    scheme: str
    path: Path | None = None
    address: str = attrs.field(default="", repr=shown_url)

    def __str__(self) -> str:
        if self.address:
            return shown_url(self.address)
        if self.path is None:
            return f"{self.scheme}://"
        return str(self.path) if self.scheme == "sqlite" else f"{self.scheme}://{self.path}"


def is_server(url: str) -> bool:
    """Whether ``url`` is the address of a server, not of a store."""
    return url.lower().startswith(("http://", "https://"))


def base_of(location: Location) -> Path | None:
    """The folder a store lies in, None for a store in memory.

    A store in a folder ``.triptych`` counts as lying where that folder is.
    """
    if location.path is None:
        return None
    parent = location.path.parent
    return parent.parent if parent.name == ".triptych" else parent


def state_folder(location: Location) -> Path | None:
    """Where a sync into this store keeps its state: beside it. None for a store in memory."""
    return None if location.path is None else location.path.with_name(f"{location.path.name}.sync")


def store_paths(location: Location) -> tuple[Path, ...]:
    """The files and folders of the store and of its syncs, be they there or not."""
    path, state = location.path, state_folder(location)
    if path is None or state is None:
        return ()
    beside = [path.with_name(path.name + end) for end in _BESIDE if location.scheme != "files"]
    return (path, state, *beside)


def parse_location(url: str) -> Location:
    """What ``url`` names: a URL, or a path for SQLite.

    Raises:
        ValidationError: it is invalid, or its scheme is unknown.
    """
    check_text(url, "the store's URL or path")
    if url == ":memory:":
        raise ValidationError("':memory:' would be a file of that name: write memory://")
    if not url.strip() or "\0" in url:
        raise ValidationError(f"{_told(url)} names no store: give a path such as ./kb.db, or a URL")
    found = _URL.fullmatch(url)
    if found is None:
        _refuse_half_url(url)
        return Location(scheme="sqlite", path=_file(_at_home(url, url), url))
    scheme, rest = found[1].lower(), found[2]
    if scheme == _SEARCHED:
        return _searched(url)
    if scheme in _DATABASES:
        return Location(scheme="postgresql", address=url)
    if scheme in _SERVERS:
        if "@" in rest:
            raise ValidationError(
                f"{_told(url)} carries a user or a password: give a server's key in "
                "TRIPTYCH_API_KEY"
            )
        return Location(scheme=scheme, address=url)
    if scheme not in _KNOWN:
        raise ValidationError(
            f"no store is known by {scheme}://: use a path such as ./kb.db, or one of "
            + ", ".join(f"{known}://" for known in (*_KNOWN, "postgresql", _SEARCHED, *_SERVERS))
        )
    if scheme == "memory":
        if rest:
            raise ValidationError(f"memory:// takes nothing after it, not {shown_url(rest)!r}")
        return Location(scheme="memory")
    if scheme == "files":
        return Location(scheme="files", path=_folder(url, rest))
    return Location(scheme="sqlite", path=_sqlite_file(url, rest))


def truth_of(url: str) -> str | None:
    """The store that keeps what ``url`` searches in Qdrant, None where it names none.

    Raises:
        ValidationError: it is not a URL.
    """
    return dict(url_options(url)).get("truth")


def _searched(url: str) -> Location:
    """A store that is searched in Qdrant lies where the store lies that keeps everything."""
    truth = truth_of(url)
    if not truth:
        raise ValidationError(
            f"{_told(url)} names no store that keeps the documents: add truth=, such as "
            "qdrant://localhost:6333?truth=kb.db"
        )
    kept = parse_location(truth)
    if kept.scheme not in ("sqlite", "postgresql"):
        raise ValidationError(
            f"{_told(url)} names {shown_location(truth)!r} as the store that keeps the documents: "
            "give one in SQLite or PostgreSQL"
        )
    return Location(scheme=_SEARCHED, address=url, path=kept.path)


def shown_location(url: str) -> str:
    """``url`` as it may be shown: a path as it is, a URL without passwords."""
    return shown_url(url) if _URL_LIKE.match(url) else url


def _told(url: str) -> str:
    return repr(shown_location(url))


def relative_to(url: str, directory: Path) -> str:
    """``url`` with the relative path of a SQLite file or a folder taken from ``directory``."""
    found = _URL.fullmatch(url)
    if found is None:
        return str(directory / _at_home(url, url))
    truth = truth_of(url) if found[1].lower() == _SEARCHED else None
    if truth:
        parts = split_url(url)
        options = {**dict(url_options(url)), "truth": relative_to(truth, directory)}
        return parts._replace(query=query_of(options.items())).geturl()
    if found[1].lower() == "sqlite" and found[2].startswith("/") and found[2] != "/":
        return f"sqlite:///{(directory / found[2][1:]).as_posix()}"
    if found[1].lower() == "files" and found[2].startswith("."):
        path = (directory / found[2]).absolute().as_posix()
        return f"files://{path if path.startswith('/') else f'/{path}'}"
    return url


def _refuse_half_url(text: str) -> None:
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() in (*_KNOWN, *_DATABASES, _SEARCHED):
        fixed = (
            "memory://"
            if scheme.lower() == "memory"
            else f"{scheme}:///{shown_url(rest.lstrip('/'))}"
        )
        if scheme.lower() == "files" and not rest.startswith("/"):
            fixed = f"files://./{shown_url(rest)}"
        raise ValidationError(f"{shown_url(text)!r} is neither a path nor a URL: write {fixed}")


def _sqlite_file(url: str, rest: str) -> Path:
    if "?" in rest:
        raise ValidationError(f"{_told(url)} has options after '?': give them as settings instead")
    if not rest.startswith("/"):
        raise ValidationError(
            f"{_told(url)} names a host, which SQLite has not: write "
            f"sqlite:///{shown_url(rest)} for a path from here, sqlite:////{shown_url(rest)} "
            "for one from the root"
        )
    if rest[1:] in ("", ":memory:"):
        raise ValidationError(f"{_told(url)} names no file: use memory:// for a store in memory")
    return _file(Path(rest[1:]), url)


def _folder(url: str, rest: str) -> Path:
    """As in a file URL, what follows the host, which there is none of, is absolute."""
    if not re.match(r"/|\.\.?(/|$)|~", rest):
        raise ValidationError(
            f"{_told(url)} names a host, which a folder has not: write "
            f"files://./{shown_url(rest)} for a path from here, files:///{shown_url(rest)} for "
            "one from the root"
        )
    if re.match(r"/[A-Za-z]:", rest) and os.name == "nt":
        rest = rest[1:]
    path = _at_home(rest, url)
    if path == Path(path.anchor or "."):
        raise ValidationError(f"{_told(url)} is not a folder for only a store: name one in it")
    path = _looked_up(path, url)
    if path.is_file():
        raise ValidationError(
            f"{_told(url)} is a file: name a folder, or write sqlite:/// for SQLite"
        )
    return path


def _at_home(text: str, url: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValidationError(
            f"{_told(url)} is in the home of somebody whom this system does not know: write the "
            "path"
        ) from error


def _file(path: Path, url: str) -> Path:
    if url.endswith(("/", os.sep)):
        raise ValidationError(
            f"{_told(url)} names a folder: name a file in it, such as {url}kb.db, or write "
            "files:///… for a store of plain files"
        )
    path = _looked_up(path, url)
    if path.is_dir():
        raise ValidationError(
            f"{_told(url)} is a directory: name a file in it, such as kb.db, or write "
            f"files://{path.as_posix()} for a store of files"
        )
    return path


def _looked_up(path: Path, url: str) -> Path:
    path = path.absolute()
    try:
        path.exists()
    except OSError as error:
        raise ValidationError(
            f"{shown_location(url)[:60]!r}… cannot be a path here ({error.strerror}): give a "
            "shorter path"
            if error.errno == errno.ENAMETOOLONG
            else f"{_told(url)} cannot be looked up ({error.strerror}): check the path and its "
            "rights"
        ) from error
    return path
