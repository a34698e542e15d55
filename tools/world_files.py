"""Files of others, from archives that world.toml pins: downloaded, checked, unpacked.

An archive is kept only if it has the digest of its pin, and read again on each run, so that a
second run downloads nothing. Nothing in it is run: pip and apt only find it and bring it.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import shutil
import stat
import subprocess
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, TypeAlias

import attrs

MIB = 1 << 20
MAX_DOWNLOADS = 300 * MIB
MAX_MEMBERS = 50_000
MAX_MEMBER = 64 * MIB
MAX_UNPACKED = 512 * MIB
"""The most of one archive, in bytes of the members that are unpacked."""


class WorldError(Exception):
    """The files cannot be trusted, or cannot be had; the message says why."""


class LeftOutError(Exception):
    """A package is not to be had here; the message says why."""


@attrs.frozen(kw_only=True)
class Package:
    """A pinned archive: ``kind`` is "sdist", "source" (of Debian's package) or "deb".

    ``most`` is how many files of a format are taken, by format, if not those of the defaults.
    """

    name: str
    version: str
    file: str
    sha256: str
    size: int
    kind: str = "sdist"
    most: Mapping[str, int] = attrs.field(factory=dict)


def pins(path: Path) -> tuple[list[Package], dict[str, int]]:
    """The packages in the file at ``path``, and how many files of a format each may give."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    packages = [Package(**each) for each in table["package"]]
    if sum(each.size for each in packages) > MAX_DOWNLOADS:
        raise WorldError(f"{path.name} pins more than {MAX_DOWNLOADS // MIB} MiB")
    return packages, table["most"]


# Downloads


def archive_of(package: Package, folder: Path) -> Path:
    """The archive in ``folder``, downloaded if it is not there, or is not what is pinned.

    Raises:
        LeftOutError: it cannot be had here.
        WorldError: what was downloaded is not what is pinned.
    """
    target = folder / package.file
    if target.exists() and digest(target) == package.sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        new = Path(scratch, package.file)
        (_by_pip if package.kind == "sdist" else _by_apt)(package, new)
        if (found := digest(new)) != package.sha256:
            raise WorldError(
                f"{package.file} has the SHA-256 {found}, and {package.sha256} is pinned: "
                "compare them before you pin another"
            )
        new.replace(target)
    return target


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _by_pip(package: Package, target: Path) -> None:
    """Take the sdist from where pip would: its own index, find-links, proxies and certificates.

    ``pip download`` would run the package's code, to learn what it needs.
    """
    from pip._internal.commands import create_command

    logging.getLogger("pip").setLevel(logging.ERROR)
    command: Any = create_command("download")
    options, _ = command.parse_args(["-qqq", "--no-binary", ":all:", package.name])
    try:
        with command.main_context():
            session = command.get_default_session(options)
            finder = command._build_package_finder(options, session)
            found = finder.find_all_candidates(package.name)
            links = [each.link for each in found if each.link.filename == package.file]
            if not links:
                raise LeftOutError("the package index does not have it")
            plain = {"Accept-Encoding": "identity"}
            address = links[0].url_without_fragment
            with session.get(address, stream=True, headers=plain) as got, target.open("wb") as new:
                got.raise_for_status()
                for block in got.iter_content(MIB):
                    new.write(block)
                    if new.tell() > package.size:
                        raise WorldError(f"{target.name} is larger than its pin says")
    except (LeftOutError, WorldError):
        raise
    except Exception as error:
        # pip may remember what a folder of packages held.
        gone = getattr(getattr(error, "response", None), "status_code", None) == 404
        said = " does not have it" if gone else f": {type(error).__name__}"
        raise LeftOutError(f"the package index{said}") from error


def _by_apt(package: Package, target: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise LeftOutError("apt-get is not here")
    verb = (
        ("source", "--download-only", "--tar-only") if package.kind == "source" else ("download",)
    )
    options = _apt_options(target.parents[1] / "apt")
    _apt([*options, *verb, f"{package.name}={package.version}"], target.parent)
    if not target.exists():
        raise LeftOutError("apt-get brought another file")


def _apt(words: Sequence[str], folder: Path) -> None:
    command = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        raise LeftOutError("apt-get takes longer than five minutes") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no word"]
        raise LeftOutError(f"apt-get: {said[-1].removeprefix('E: ')}")


@functools.cache
def _apt_options(folder: Path) -> tuple[str, ...]:
    """Options for lists of apt in ``folder``, of the system's sources and their source packages."""
    shutil.rmtree(folder, ignore_errors=True)
    for each in ("lists/partial", "cache/archives/partial", "sources"):
        (folder / each).mkdir(parents=True)
    system = Path("/etc/apt")
    for file in [*system.glob("sources.list"), *system.glob("sources.list.d/*.*")]:
        text = file.read_text(encoding="utf-8")
        text = re.sub(r"(?m)^Types:.*$", "Types: deb deb-src", text)
        text += "\n" + re.sub(r"(?m)^deb ", "deb-src ", text) if file.suffix == ".list" else ""
        (folder / "sources" / file.name).write_text(text, encoding="utf-8")
    places = {"State::lists": "lists", "Cache": "cache", "Etc::sourceparts": "sources"}
    options = [f"-oDir::{name}={folder / each}" for name, each in places.items()]
    options.append("-oDir::Etc::sourcelist=-")
    _apt([*options, "update"], folder)
    return tuple(options)


# Unpacking


def unpacked(package: Package, archive: Path, folder: Path, wanted: Wanted) -> list[str]:
    """Unpack into the empty ``folder``, if it is not of this archive already.

    Return what was not unpacked, and why.
    """
    mark = folder / ".unpacked"
    if mark.exists() and mark.read_text() == package.sha256:
        return []
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    refused: list[str] = []
    with _members(archive) as members:
        for name, data in checked(members, wanted, refused):
            path = folder.joinpath(*PurePosixPath(name).parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    mark.write_text(package.sha256)
    return refused


@attrs.frozen
class Member:
    """A member of an archive: what it is, and how to read it."""

    name: str
    regular: bool
    size: int
    open: Callable[[], IO[bytes] | None]


Wanted: TypeAlias = Callable[[str], bool]


def checked(
    members: Iterable[Member], wanted: Wanted, refused: list[str]
) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of regular files that are wanted and stay below the folder.

    What would leave it, links and devices are added to ``refused``, with the reason.

    Raises:
        WorldError: the archive has too many members, or they are too large.
    """
    total = 0
    for count, member in enumerate(members):
        if count >= MAX_MEMBERS:
            raise WorldError(f"an archive has more than {MAX_MEMBERS:,} members")
        name = member.name.removeprefix("./")
        if not wanted(name):
            continue
        parts, other = PurePosixPath(name).parts, PureWindowsPath(name)
        if ".." in (*parts, *other.parts) or name.startswith("/") or other.anchor or "\0" in name:
            refused.append(f"{name}: outside of the folder")
        elif not member.regular:
            refused.append(f"{name}: a link or a device")
        elif member.size > MAX_MEMBER:
            refused.append(f"{name}: more than {MAX_MEMBER // MIB} MiB")
        else:
            source = member.open()
            data = b"" if source is None else source.read(MAX_MEMBER + 1)
            total += len(data)
            if len(data) > MAX_MEMBER or total > MAX_UNPACKED:
                raise WorldError(f"an archive unpacks to more than {MAX_UNPACKED // MIB} MiB")
            yield name, data


@contextmanager
def _members(archive: Path) -> Iterator[Iterable[Member]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            yield (_zipped(packed, each) for each in packed.infolist())
    elif archive.suffix == ".deb":
        command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE) as done,
            tarfile.open(fileobj=done.stdout, mode="r|") as tar,
        ):
            yield map(functools.partial(_tarred, tar), tar)
    else:
        with tarfile.open(archive) as tar:
            yield map(functools.partial(_tarred, tar), tar)


def _tarred(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Member:
    return Member(member.name, member.isreg(), member.size, lambda: tar.extractfile(member))


def _zipped(packed: zipfile.ZipFile, member: zipfile.ZipInfo) -> Member:
    mode = member.external_attr >> 16
    regular = not member.is_dir() and (not stat.S_IFMT(mode) or stat.S_ISREG(mode))
    return Member(member.filename, regular, member.file_size, lambda: packed.open(member))
