"""Resolving typed names to documents, and documents to files on disk."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from triptych.errors import CorruptStoreError, NotFoundError, ParseError, ValidationError

if TYPE_CHECKING:
    from triptych.records import DocumentInfo
    from triptych.service import KnowledgeBase
    from triptych_adapters.cli.output import Output

_PLACE = re.compile(r"(?P<name>.+?):(?P<first>\d{1,9})(?P<to>-(?P<last>\d{1,9})?)?", re.DOTALL)


@attrs.frozen(kw_only=True)
class NamedDocument:
    """A document that is there, and the lines that were asked for.

    ``first`` is None for all of it, ``last`` for all from ``first`` on.
    """

    dataset_id: str
    name: str
    first: int | None = None
    last: int | None = None


def read_place(text: str) -> tuple[str, int | None, int | None]:
    """``NAME``, ``NAME:LINE``, ``NAME:FIRST-LAST`` or ``NAME:FIRST-`` as name, first and last."""
    found = _PLACE.fullmatch(text)
    if found is None:
        return text, None, None
    first, last = int(found["first"]), found["last"]
    if found["to"] is None:
        return found["name"], first, first
    return found["name"], first, None if last is None else int(last)


def dataset_in_use(service: KnowledgeBase, named: str | None) -> str:
    """The dataset that is named, else ``default``, else the only one.

    Raises:
        ValidationError: none is named, and there are several without a ``default``.
    """
    from triptych.contracts import rules

    return rules.dataset_in_use(service.list_datasets()) if named is None else named


def find_document(service: KnowledgeBase, text: str, dataset: str | None) -> NamedDocument:
    """The document that ``text`` names: by its name, its file, or as ``DATASET/NAME``.

    ``text`` may be a place in it, as a search prints it. Without ``dataset``, all are looked in.

    Raises:
        NotFoundError: there is none; the message names those that are near.
        ValidationError: it names several documents.
    """
    from triptych.contracts.rules import missing_dataset
    from triptych_adapters.near_names import did_you_mean

    datasets = list(service.list_datasets())
    if dataset is not None:
        if dataset not in datasets:
            raise missing_dataset(dataset, datasets)
        datasets = [dataset]
    place = read_place(text)
    # A name may look like a place.
    for typed, first, last in dict.fromkeys([(text, None, None), place]):
        found = list(dict.fromkeys(_documents(service, datasets, typed)))
        if len(found) > 1:
            may_be = " or ".join(repr("/".join(each)) for each in found)
            raise ValidationError(
                f"{typed!r} names several documents: give dataset and name: {may_be}"
            )
        for dataset_id, name in found:
            return NamedDocument(dataset_id=dataset_id, name=name, first=first, last=last)
    missing = "there is no" if dataset is None else f"the dataset {dataset!r} has no"
    meant = did_you_mean(service, datasets, place[0])
    error = NotFoundError(f"{missing} document {place[0]!r}{meant}")
    raise error if meant else error.hinted("`triptych list` shows the documents of a dataset")


def find_documents(
    service: KnowledgeBase, names: Sequence[str], dataset: str | None
) -> tuple[str, dict[str, str], list[str]]:
    """The documents that ``names`` name: their one dataset, what each is called in it, by what was
    typed, and what names none.

    Raises:
        ValidationError: they are of several datasets, or one names several documents.
    """
    found: dict[str, NamedDocument] = {}
    missing: list[str] = []
    for text in names:
        try:
            found[text] = find_document(service, text, dataset)
        except (NotFoundError, CorruptStoreError):  # what is damaged can be deleted
            missing.append(text)
    datasets = {each.dataset_id: text for text, each in found.items()}
    if len(datasets) > 1:
        shown = ", ".join(f"{text!r} of {dataset_id!r}" for dataset_id, text in datasets.items())
        raise ValidationError(f"name documents of one dataset at a time: here are {shown}")
    target = next(iter(datasets), None) or dataset_in_use(service, dataset)
    return target, {text: each.name for text, each in found.items()}, missing


def first_names(service: KnowledgeBase, dataset: str, where: Mapping[str, Any] | None) -> list[str]:
    """Some documents that pass a filter: enough to see whether they are of synced folders."""
    with suppress(CorruptStoreError):
        return [each.name for each in service.list_documents(dataset, where=where, limit=100)]
    return []


def _documents(
    service: KnowledgeBase, datasets: Sequence[str], text: str
) -> Iterator[tuple[str, str]]:
    """The documents that ``text`` may mean, each as its dataset and its name."""
    for each in datasets:
        for name in dict.fromkeys((text, text.removeprefix(f"{each}/"))):
            if name and _info(service, each, name):
                yield each, name
    if service.options.locate is None:
        return
    file_of = service.options.locate()
    for name in names_of_file(service, text):
        for each in datasets:
            info = _info(service, each, name)
            path = None if info is None else file_of(info)
            if path is not None and path.exists() and path.samefile(Path(text).expanduser()):
                yield each, name


def _info(service: KnowledgeBase, dataset: str, name: str) -> DocumentInfo | None:
    # Of all names that begin so, the name itself is the first.
    found = service.list_documents(dataset, prefix=name, limit=1)
    return found[0] if found and found[0].name == name else None


def names_of_file(service: KnowledgeBase, text: str) -> list[str]:
    """The names that a file on disk has below the folders that were synced."""
    from triptych.search.file_location import synced_folders

    store = service.capabilities.settings
    path = Path(text).expanduser()
    if store is None or not os.path.isfile(path):  # unlike Path.is_file, of any length
        return []
    return [
        prefix + seen.relative_to(below).as_posix()
        for folder, prefix in synced_folders(store).values()
        # The folder may have been named over a link, and so may the file.
        for seen, below in (
            (Path(os.path.abspath(path)), folder),
            (Path(os.path.realpath(path)), Path(os.path.realpath(folder))),
        )
        if seen.is_relative_to(below)
    ]


_PLUS_LINE = frozenset(
    (
        *("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "micro", "emacs", "emacsclient"),
        *("kak", "sensible-editor"),
    )
)
_USUAL = ("sensible-editor", "nano", "vim", "vi", "xdg-open", "open")
_COLON_LINE = frozenset(["subl", "zed", "hx", "helix"])
_GOTO = frozenset(["code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"])
_VIEWERS = ("xdg-open", "open", "explorer")


@attrs.define
class SourceFiles:
    """Finds the files of documents that a sync brought in.

    A document carries the key of its root; the folders of the roots are remembered beside the
    store.
    """

    service: KnowledgeBase
    _found: dict[tuple[str, str], Path | None] = attrs.field(factory=dict, init=False)
    _find: Callable[[DocumentInfo], Path | None] | None = attrs.field(default=None, init=False)

    def path(self, dataset_id: str, name: str) -> Path | None:
        """The file of a document, None where it came from none, or the file is gone."""
        place = dataset_id, name
        if place not in self._found:
            self._found[place] = self._look_up(dataset_id, name)
        return self._found[place]

    def paths(self, dataset_id: str, names: Iterable[str]) -> list[Path]:
        """The files of those documents that have one."""
        found = (self.path(dataset_id, name) for name in names)
        return [path for path in found if path is not None]

    def _look_up(self, dataset_id: str, name: str) -> Path | None:
        from triptych.service import service_of

        if self.service.options.locate is None:
            return None
        if self._find is None:
            self._find = self.service.options.locate()
        documents = service_of(self.service, "finding a file").documents
        info = documents.get_info(dataset_id, name)
        path = None if info is None else self._find(info)
        return path if path is not None and path.is_file() else None


def warn_of_next_sync(output: Output, files: Sequence[Path], *, deleted: bool) -> None:
    """Say that the next sync undoes what was done to the documents of ``files``, if any."""
    if not files:
        return
    named = shown_path(files[0]) + (" (and others)" if len(files) > 1 else "")
    output.warn(
        f"the next sync makes a document of {named} again: delete the file too, or exclude it "
        "(.triptychignore)"
        if deleted
        else f"the next sync puts back what is in the file: change {named} too"
    )


def shown_path(path: Path) -> str:
    """``path`` as short as it can be used from here: relative, or from the home folder."""
    here = Path.cwd()
    if path.is_relative_to(here):
        return str(path.relative_to(here))
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def editor_command(
    path: Path, line: int | None, environ: Mapping[str, str] | None = None
) -> list[str]:
    """The command that opens ``path`` at ``line``: by ``$VISUAL``, ``$EDITOR``, or what is found.

    Without either, it is the first of the usual editors on the ``PATH``, else what the desktop
    opens files with. An editor that is not known gets the file alone. What is no text (``line``
    is None) is for the desktop.

    Raises:
        ValidationError: neither is set, and nothing is found.
    """
    environ = os.environ if environ is None else environ
    named = "" if line is None else environ.get("VISUAL") or environ.get("EDITOR") or ""
    words = shlex.split(named)
    if not words:
        usual = _VIEWERS if line is None else _USUAL
        found = (shutil.which(each, path=environ.get("PATH", "")) for each in usual)
        words = [each for each in found if each is not None][:1]
    if not words and line is None:
        raise ValidationError(f"no viewer is found: open it yourself, {shown_path(path)}")
    if not words:
        raise ValidationError("no editor is set or found: set EDITOR, for example EDITOR=nano")
    name = Path(words[0]).name.removesuffix(".exe").lower()
    if name in _PLUS_LINE:
        return [*words, f"+{line}", str(path)]
    if name in _COLON_LINE:
        return [*words, f"{path}:{line}"]
    if name in _GOTO:
        return [*words, "--goto", f"{path}:{line}"]
    return [*words, str(path)]


def open_in_editor(path: Path, line: int) -> None:
    """Open ``path`` at ``line``, and wait for the editor; what is no text, in a viewer.

    Raises:
        ValidationError: no editor is set, or it cannot be started.
    """
    from triptych.parsing.decoder import decode_text

    is_text = True
    with suppress(OSError, ParseError):  # the editor says what is wrong with it
        is_text = decode_text(path.read_bytes(), path.name) is not None
    command = editor_command(path, line if is_text else None)
    try:
        subprocess.run(command, check=False)
    except OSError as error:
        raise ValidationError(
            f"the editor {command[0]!r} cannot be started ({error.strerror}): set EDITOR to one "
            "that is installed"
        ) from error
