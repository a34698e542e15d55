"""The impact of a change in a Git checkout, read by the program ``git``; no store is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from triptych.errors import NotAvailableError, NotFoundError, ParseError, ValidationError
from triptych.parsing import decode_text
from triptych_impact.changes import Changed
from triptych_impact.findings import LEAST, Impact, impact
from triptych_impact.sources import Source

# Nothing of the checkout's configuration is run, no lock is taken, nothing is fetched.
_GIT: Final = (
    *("git", "--no-pager", "--no-optional-locks", "--no-replace-objects", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never"),
)
_ENVIRONMENT: Final = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
}  # fmt: skip
_LARGEST: Final = 1_000_000
_NONE: Final = "0" * 40
_FILES: Final = ("100644", "100755")


class GitReader:
    """Reads trees of a checkout; each file is read once, whatever trees it is in."""

    def __init__(self, folder: Path, *, bare: bool = False) -> None:
        self.folder = folder
        self._sources: dict[tuple[str, str], Source | None] = {}
        self._blobs: subprocess.Popen[bytes] | None = None
        if not bare:
            self.folder = folder / self._run("rev-parse", "--show-cdup").strip("\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._blobs is not None:
            self._blobs.communicate()
            self._blobs = None

    def commit(self, revision: str) -> str:
        """The commit that a revision names.

        Raises:
            NotFoundError: it names none.
        """
        try:
            return self._run(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            ).strip()
        except ValidationError:
            raise NotFoundError(
                f"{revision!r} names no commit of {str(self.folder)!r}: a shallow clone lacks old "
                "ones (`git fetch --unshallow`)"
            ) from None

    def range(self, text: str) -> tuple[str, str | None]:
        """The old and the new commit of ``OLD..NEW``, ``OLD...NEW`` or ``OLD``.

        Three dots begin where NEW left OLD. A side that is left out is HEAD. With OLD alone, the
        new state is that of the files on disk: None.
        """
        if ".." not in text:
            return self.commit(text), None
        dots = "..." if "..." in text else ".."
        old, new = (self.commit(each or "HEAD") for each in text.split(dots, 1))
        if dots == "..":
            return old, new
        try:
            return self._run("merge-base", old, new).strip(), new
        except ValidationError:
            raise NotFoundError(
                f"{text!r} have no commit in common here: a shallow clone lacks old ones "
                "(`git fetch --unshallow`; in CI, check out with the whole history)"
            ) from None

    def documents(self, new: str | None) -> list[Source]:
        """The documents of a commit, or those on disk that Git does not ignore."""
        if new is None:
            return [each for name in self._on_disk() if (each := self._file(name))]
        listed = self._run("ls-tree", "-r", "-z", "--full-tree", new).split("\0")
        split = (each.partition("\t") for each in listed if each)
        found = (
            self._blob(name, fields.split()[2])
            for fields, _, name in split
            if fields.split()[0] in _FILES
        )
        return [each for each in found if each is not None]

    def changed(self, old: str, new: str | None) -> Iterator[Changed]:
        """The documents that differ; those on disk by their names, without a look for renames."""
        if new is None:
            there = {each.name: each for each in self.documents(None)}
            for name, blob in self._listed(old).items():
                before = self._blob(name, blob)
                after = there[name].text if name in there else None
                if before is not None and before.text != after:
                    yield Changed(name=name, old=before.text, new=after)
            return
        told = iter(self._run("diff-tree", "-r", "-z", "-M", "--raw", old, new).split("\0"))
        for line in told:
            if not line.startswith(":"):
                continue
            mode, new_mode, blob, new_blob, status = line[1:].split()
            name, renamed = next(told), next(told) if status[0] in "RC" else ""
            if {mode, new_mode} <= {*_FILES, "000000"}:
                was, now = (
                    None if each == _NONE else self._blob(name, each) for each in (blob, new_blob)
                )
                if (was or blob == _NONE) and (now or new_blob == _NONE):
                    yield Changed(
                        name=name,
                        old=was.text if was and status[0] != "C" else None,
                        new=now.text if now else None,
                        renamed=renamed,
                    )

    def _listed(self, commit: str) -> Mapping[str, str]:
        listed = self._run("ls-tree", "-r", "-z", "--full-tree", commit).split("\0")
        split = (each.partition("\t") for each in listed if each)
        return {n: f.split()[2] for f, _, n in split if f.split()[0] in _FILES}

    def _on_disk(self) -> Sequence[str]:
        args = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        return [each for each in self._run(*args).split("\0") if each]

    def _file(self, name: str) -> Source | None:
        path = self.folder / name
        # No link is followed, nor one to a folder above.
        if path.resolve() != self.folder.resolve() / name or not path.is_file():
            return None
        if path.stat().st_size > _LARGEST:
            return None
        return _source(name, path.read_bytes())

    def _blob(self, name: str, blob: str) -> Source | None:
        """A file of a tree; None if it is no text, or larger than a million bytes."""
        if (name, blob) not in self._sources:
            if self._blobs is None:
                self._blobs = self._start("cat-file", "--batch")
            pipe, answers = self._blobs.stdin, self._blobs.stdout
            assert pipe is not None
            assert answers is not None
            pipe.write(f"{blob}\n".encode())
            pipe.flush()
            head = answers.readline().split()
            if len(head) != 3:
                raise ValidationError(
                    f"{name!r} is not in the checkout, which lacks the object {blob}: fetch it "
                    "whole (`git fetch --refetch`)"
                )
            size = int(head[2])
            data = answers.read(size + 1)[:-1]
            self._sources[name, blob] = None if size > _LARGEST else _source(name, data)
        return self._sources[name, blob]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        try:
            return subprocess.Popen(
                [*_GIT, *arguments],
                cwd=self.folder,
                env=environment | _ENVIRONMENT,
                stdout=subprocess.PIPE,
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except FileNotFoundError:
            if not self.folder.is_dir():
                raise NotFoundError(f"there is no folder {str(self.folder)!r}") from None
            raise NotAvailableError("the program `git` is not installed") from None

    def _run(self, *arguments: str) -> str:
        with self._start(*arguments) as process:
            told, error = process.communicate()
        if process.returncode:
            said = error.decode(errors="replace").strip() or f"it ended with {process.returncode}"
            raise ValidationError(f"git {arguments[0]} failed in {str(self.folder)!r}: {said}")
        return told.decode(errors="surrogateescape")


def _source(name: str, data: bytes) -> Source | None:
    """A document in any encoding that a sync reads; None if it is no text."""
    try:
        decoded = decode_text(data, name)
    except ParseError:
        return None
    return None if decoded is None else Source(name, decoded.text)


def git_impact(
    folder: Path | str, revisions: str, *, top_k: int = 20, least: float = LEAST
) -> Impact:
    """Return what the change between two commits may have made untrue in the new one.

    ``revisions`` is ``OLD..NEW``, ``OLD...NEW``, or ``OLD`` for the files on disk.

    Raises:
        NotFoundError: the folder or a commit does not exist.
        NotAvailableError: ``git`` is not installed.
        ValidationError: the folder is no checkout, or an argument is out of its range.
    """
    with GitReader(Path(folder)) as reader:
        old, new = reader.range(revisions)
        changed = list(reader.changed(old, new))
        return impact(changed, reader.documents(new), top_k=top_k, least=least)
