"""Where a store is: what a URL or path says, before anything is opened.

When nobody says, it is in this folder, in one above it, or the user's own.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from triptych.errors import ValidationError
from triptych.records import check_text
from triptych.resources.urls import query_of, shown_url, split_url, url_options

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)

_URL_LIKE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter is a drive

_KNOWN = ("memory", "sqlite", "files")
_SERVERS = ("http", "https")
_DATABASES = ("postgresql", "postgresql+psycopg", "postgres")
_SEARCHED = "qdrant"

_BESIDE = (
    *("-wal", "-wal.owner", "-shm", "-journal", ".index", ".qdrant.lock"),
    *(".results", ".results-journal"),
)
"""What SQLite, the search index and the semantic cache put beside a database, by the end of its
name."""


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

    A store in a folder ``.triptych`` counts as lying where that folder is, and one that a link
    leads to where it is itself.
    """
    if location.path is None:
        return None
    parent = Path(os.path.realpath(location.path)).parent
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
        raise ValidationError("':memory:' would be a file name: write memory://")
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


def _truth_of(url: str) -> str | None:
    """The store that keeps what ``url`` searches in Qdrant, None where it names none."""
    return dict(url_options(url)).get("truth")


def _searched(url: str) -> Location:
    """A store that is searched in Qdrant lies where the store lies that keeps everything."""
    truth = _truth_of(url)
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
    truth = _truth_of(url) if found[1].lower() == _SEARCHED else None
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
            f"{_told(url)} names a host, but SQLite stores are files: write "
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
            f"{_told(url)} names a host, but a folder is local: write "
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
            f"{_told(url)} is in the home of an unknown user: write the path"
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


STORE_FOLDER = ".triptych"
STORE_FILE = "kb.db"

_FILES_MARK = "store.json"
"""What a store of plain files has in its own folder of the same name."""

_IGNORE = "# Made by triptych: a store is not a part of the work beside it.\n*\n"


def find_store(directory: Path) -> str | None:
    """The URL of the nearest store in ``directory`` or above it, None where there is none.

    In each folder these count, in this order: ``.triptych/kb.db``, a store of plain files, and
    ``kb.db``, where older versions put it. Above ``directory`` only what belongs to the user
    counts, so that nobody else leads a command to a store of theirs.
    """
    directory = directory.absolute()
    for folder in (directory, *directory.parents):
        found = store_in(folder)
        if found is not None and (folder == directory or _belongs_to_us(folder, found)):
            return found
    return None


def user_store(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own store, which serves where no other is found."""
    return _user_folder("XDG_DATA_HOME", ".local/share", environ) / STORE_FILE


def user_config_file(environ: Mapping[str, str] | None = None) -> Path:
    """The user's own settings, below those of a folder."""
    return _user_folder("XDG_CONFIG_HOME", ".config", environ) / "config.toml"


def make_store_folder(file: Path) -> None:
    """Make the folder of a store's file, if it is one of Triptych's own: no other is made.

    A ``.triptych`` ignores itself for Git.

    Raises:
        OSError: it cannot be made.
    """
    folder = file.parent
    if folder.name == STORE_FOLDER:
        if folder.is_symlink():
            raise OSError(errno.ELOOP, "it is a link, and no store is made behind it", str(folder))
        folder.mkdir(exist_ok=True)
        # Not through a link, which may lead to nothing yet.
        with suppress(FileExistsError), open(folder / ".gitignore", "x", encoding="utf-8") as made:
            made.write(_IGNORE)
    elif file == user_store():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def store_in(folder: Path) -> str | None:
    """The URL of the store that belongs to ``folder`` itself, None for none."""
    own = folder / STORE_FOLDER
    if (own / STORE_FILE).is_file():
        return str(own / STORE_FILE)
    if (own / _FILES_MARK).is_file():
        return f"files://{folder.as_posix()}"
    return str(folder / STORE_FILE) if (folder / STORE_FILE).is_file() else None


def is_own(folder: Path, *inside: Path) -> bool:
    """Whether the folder belongs to the user, and what is ``inside`` to the user or the system; on
    a system without owners each does."""
    if not hasattr(os, "getuid"):
        return True
    user = os.getuid()
    try:
        others = {each.stat().st_uid for each in inside} - {user, 0}
        return folder.stat().st_uid == user and not others
    except OSError:
        return False


def _belongs_to_us(folder: Path, url: str) -> bool:
    """Whether the folder and the store in it, which `store_in` found, are the user's."""
    file = folder / STORE_FILE if url == str(folder / STORE_FILE) else folder / STORE_FOLDER
    inside = [file, file / STORE_FILE] if (file / STORE_FILE).is_file() else [file]
    return is_own(folder, *inside)


def _user_folder(variable: str, fallback: str, environ: Mapping[str, str] | None) -> Path:
    """By the XDG rules; without the variable, where each system keeps such things."""
    environ = os.environ if environ is None else environ
    given = environ.get(variable, "")
    # A relative path is to be ignored, says the specification.
    if given and Path(given).is_absolute():
        return Path(given, "triptych")
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or _home() / "AppData/Local", "triptych")
    if sys.platform == "darwin":
        return _home() / "Library/Application Support/triptych"
    return _home() / fallback / "triptych"


def _home() -> Path:
    """The user's home; where the system knows none, as of a container's user, the root."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.sep)
