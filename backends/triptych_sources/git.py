"""A Git repository, by the program git."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self
from urllib.parse import quote, urlsplit

from triptych import deadlines
from triptych.errors import NotAvailableError, SourceError, ValidationError
from triptych.sync import Fetched, SourceEntry
from triptych.text import visible

_TRANSPORTS: Final = ("https", "http", "ssh", "git", "file")
_SCP = re.compile(r"\w[\w.-]*@\w[\w.-]*:[^:]\S*")
_REVISION = re.compile(r"(?!.*(\.\.|//|@\{))[\w][\w./+@-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# Nothing of a repository is run, nobody is asked, and the mirror is kept small by being made again.
_SAFE: Final = tuple(
    part
    for setting in (
        f"core.hooksPath={os.devnull}",
        *("core.fsmonitor=false", "core.askPass=", "credential.interactive=false"),
        *("fetch.recurseSubmodules=false", "fetch.unpackLimit=1", "fetch.showForcedUpdates=false"),
        *("http.followRedirects=false", "http.lowSpeedLimit=1000", "http.lowSpeedTime=60"),
        *("gc.auto=0", "maintenance.auto=false"),
    )
    for part in ("-c", setting)
)
_KEPT_VARIABLES: Final = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
_REF: Final = "refs/triptych/synced"
_MOST_PACKS: Final = 40
_POINTER: Final = b"version https://git-lfs.github.com/spec/v1\n"
_POINTER_SIZES: Final = range(len(_POINTER), 1024)
_FORGES = re.compile(r"(^|\.)(github|gitlab)\.")


def is_git(location: str) -> bool:
    """Whether ``location`` names a Git repository by its form."""
    url = location.partition("#")[0]
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme.startswith("git+") or scheme in ("ssh", "git", "file"):
        return True
    return bool(_SCP.fullmatch(url)) if not scheme else url.rstrip("/").endswith(".git")


class GitSource:
    """The files of a Git repository at a revision, as a source.

    ``git`` fetches the commit alone (depth 1) into a bare mirror; later only what changed. Objects
    are read from there, and no file is checked out. The user's own Git configuration, credential
    helpers and SSH keys apply; hooks and interactive prompts do not. Submodules, links and files in
    Git LFS are skipped. A document's ``source_revision`` is the commit at which it was read, and
    ``source_url`` links to that: to the file's page on GitHub and GitLab, else
    ``URL#COMMIT:PATH``.
    """

    def __init__(
        self, location: str, *, mirror: Path | None = None, timeout: float = 600.0
    ) -> None:
        """Set the repository; nothing is fetched yet.

        Args:
            location: its URL (``https://…``, ``ssh://…``, ``git://…``, ``file:///…`` or
                ``user@host:path``), then ``#`` and a branch, a tag or a whole commit id; without
                one, the default branch. ``git+`` may stand in front.
            mirror: the folder for the mirror, which may be deleted at any time. None uses a
                temporary folder in each sync, which then fetches everything if the commit changed.
            timeout: the seconds for one call of ``git``.

        Raises:
            ValidationError: the location is invalid, or contains a password.
        """
        url, mark, revision = location.removeprefix("git+").partition("#")
        _check_url(url)
        if mark and not _REVISION.fullmatch(revision):
            raise ValidationError(
                f"{revision!r:.80} is no branch, tag or commit: write URL#BRANCH, as in "
                "https://host/owner/repository.git#main"
            )
        self.location: str = url + mark + revision
        self._url, self._wanted = url, revision or "HEAD"
        self._kept, self._timeout = mirror, timeout
        self._mirror: Path | None = mirror
        self._ref = self._commit = ""
        self._blobs: dict[str, str] = {}
        self._reader: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._commit, self._blobs = "", {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if self._kept is None and self._mirror is not None:
            shutil.rmtree(self._mirror, ignore_errors=True)
            self._mirror = None

    def revision(self) -> str:
        """Return the id of the commit, or of its tag: one call of ``git ls-remote``.

        Raises:
            SourceError: the repository is away or gone, or has no such revision.
            NotAvailableError: the program git is not installed.
        """
        if _COMMIT.fullmatch(self._wanted):
            self._ref = self._wanted
            return self._wanted
        listed = self._git("ls-remote", "--quiet", "--", self._url, self._wanted).decode()
        rows = (line.partition("\t") for line in listed.splitlines())
        refs = {ref: commit for commit, _, ref in rows}
        wanted = self._wanted
        for ref in (wanted, f"refs/{wanted}", f"refs/tags/{wanted}", f"refs/heads/{wanted}"):
            if ref in refs:
                self._ref = ref
                return refs[ref]
        missing = "no commit yet" if wanted == "HEAD" else f"no branch or tag {wanted!r}"
        raise SourceError(f"the repository {self._url} has {missing}: check the revision after '#'")

    def list(self) -> Iterator[SourceEntry]:
        """Yield the files of the commit, after fetching it.

        Raises:
            SourceError: it cannot be fetched or read.
        """
        with self._lock:
            revision = self.revision()
            try:
                listed = self._fetched(revision)
            except SourceError:
                # The repository is there, so the mirror may be damaged, as by a kill: make another.
                if self._mirror is None or not self._mirror.exists():
                    raise
                self._remove_mirror()
                listed = self._fetched(revision)
            self._blobs = {}
        for line in listed.split(b"\0")[:-1]:
            about, _, path = line.partition(b"\t")
            mode, kind, blob, size = about.decode("ascii").split()
            name = path.decode("utf-8", "surrogateescape")
            if kind == "commit":
                yield SourceEntry(name=name, skip="a submodule")
            elif mode == "120000":
                yield SourceEntry(name=name, skip="a link")
            elif int(size) in _POINTER_SIZES and self._read(blob).startswith(_POINTER):
                yield SourceEntry(name=name, skip="a Git LFS pointer")
            else:
                self._blobs[name] = blob
                yield SourceEntry(name=name, revision=blob, size=int(size))

    def fetch(self, name: str, known: str) -> Fetched:
        """Return the bytes of a file.

        Raises:
            SourceError: the commit has no such file, or it cannot be read.
        """
        with self._lock:
            if not self._blobs:
                for _ in self.list():
                    pass
            if name not in self._blobs:
                raise SourceError(f"{self.location} has no file {name!r} at {self._commit}")
            return Fetched(
                data=self._read(self._blobs[name]),
                url=_link(self._url, self._commit, name),
                revision=self._commit,
            )

    def _fetched(self, revision: str) -> bytes:
        """The list of the files of the commit, which is in the mirror then."""
        self._close()
        if self._mirror is not None and _packs(self._mirror) > _MOST_PACKS:
            self._remove_mirror()
        if self._mirror is None:
            self._mirror = Path(tempfile.mkdtemp(prefix="triptych-git-"))
        if not (self._mirror / "objects").is_dir():
            self._mirror.parent.mkdir(parents=True, exist_ok=True)
            form = "sha256" if len(revision) == 64 else "sha1"
            options = ("--quiet", "--bare", "--template=", f"--object-format={form}")
            self._git("init", *options, "--", str(self._mirror))
        try:
            self._commit = self._resolve(revision)
        except SourceError:
            wanted = f"+{self._ref}:{_REF}"
            options = ("fetch", "--no-tags", "--no-write-fetch-head", "--quiet")
            try:
                self._local(*options, "--depth=1", "--", self._url, wanted)
            except SourceError as error:
                if "shallow" not in str(error):  # what a server of plain files cannot do
                    raise
                self._local(*options, "--", self._url, wanted)
            self._commit = self._resolve(_REF)
        return self._local("ls-tree", "-r", "-z", "-l", "--full-tree", self._commit)

    def _resolve(self, revision: str) -> str:
        options = ("--verify", "--quiet", "--end-of-options")
        found = self._local("rev-parse", *options, f"{revision}^{{commit}}")
        return found.decode("ascii").strip()

    def _local(self, *arguments: str) -> bytes:
        return self._git(f"--git-dir={self._mirror}", *arguments)

    def _remove_mirror(self) -> None:
        self._close()
        assert self._mirror is not None
        shutil.rmtree(self._mirror, ignore_errors=True)

    # The program

    def _git(self, *arguments: str) -> bytes:
        """What git prints.

        Raises:
            SourceError: it failed, or took too long.
        """
        deadlines.check("reading a Git repository")
        seconds = min(self._timeout, deadlines.remaining() or self._timeout)
        with _started(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                printed, said = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                deadlines.check("reading a Git repository")
                raise SourceError(
                    f"git did not end in {seconds:g} seconds for {self.location}: try again, or "
                    "see whether the repository is too large"
                ) from None
            except BaseException:
                _kill(process)
                raise
        if process.returncode:
            raise SourceError(f"{self.location} cannot be read by git: {_reason(said)}")
        return bytes(printed)

    def _read(self, blob: str) -> bytes:
        """The bytes of an object in the mirror."""
        with self._lock:
            if self._reader is None:
                arguments = (f"--git-dir={self._mirror}", "cat-file", "--batch")
                self._reader = _started(
                    arguments, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=-1
                )
            asked, answers = self._reader.stdin, self._reader.stdout
            assert asked is not None
            assert answers is not None
            try:
                asked.write(blob.encode("ascii") + b"\n")
                asked.flush()
                return _object(answers, blob)
            except (OSError, ValueError) as error:
                self._close()
                raise SourceError(
                    f"the mirror of {self.location} is damaged ({error}): sync again"
                ) from error

    def _close(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
            if reader is not None:
                with reader, suppress(OSError):
                    reader.kill()


def _check_url(url: str) -> None:
    scheme, mark, rest = url.partition("://")
    shown = repr(url[:80].rpartition("@")[2] if "@" in url else url[:80])
    if not url.isprintable() or any(letter.isspace() for letter in url):
        raise ValidationError(f"{shown} contains characters that no address has")
    if not mark:
        if not _SCP.fullmatch(url):
            raise ValidationError(f"{shown} names no repository: write https://host/owner/name.git")
        return
    if scheme not in _TRANSPORTS or not rest.strip("/") or rest.startswith("-"):
        raise ValidationError(
            f"{shown} is no address of a repository: it begins with one of "
            f"{', '.join(f'{each}://' for each in _TRANSPORTS)}, or is user@host:path"
        )
    parts = urlsplit(url)
    if parts.password or (parts.username and scheme != "ssh"):
        raise ValidationError(
            f"{shown} contains a user or a password, which the store would keep: leave it out, and "
            "let a credential helper of Git give it (`git config credential.helper`)"
        )


def _environment() -> Mapping[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key in _KEPT_VARIABLES or key.startswith("GIT_SSL_")
    }
    kept.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=20")
    return kept | {
        "GIT_ALLOW_PROTOCOL": ":".join(_TRANSPORTS),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "LC_ALL": "C",
    }


def _started(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            ["git", *_SAFE, *arguments],
            stdout=subprocess.PIPE,
            env=_environment(),
            start_new_session=True,
            **options,
        )
    except FileNotFoundError as error:
        raise NotAvailableError(
            "a Git repository is read by the program git, which is not installed: install it"
        ) from error


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End git and what it started."""
    with suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _reason(said: bytes) -> str:
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return visible("; ".join(lines[:3])[:400]) or "it said nothing"


def _object(answers: IO[bytes], blob: str) -> bytes:
    head = answers.readline().split()
    if len(head) != 3 or head[0] != blob.encode("ascii"):
        raise ValueError(f"the object {blob} is missing")
    size = int(head[2])
    data = answers.read(size + 1)
    if len(data) != size + 1:
        raise ValueError(f"the object {blob} is cut off")
    return data[:-1]


def _packs(mirror: Path) -> int:
    return len(list((mirror / "objects" / "pack").glob("*.pack")))


def _link(url: str, commit: str, name: str) -> str:
    """A link to a file at a commit."""
    path = quote(name, safe="/", errors="surrogateescape")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in ("http", "https") and _FORGES.search(host):
        return f"{url.rstrip('/').removesuffix('.git')}/blob/{commit}/{path}"
    return f"{url}#{commit}:{path}"
