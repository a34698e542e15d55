"""A user's model: a folder with an ONNX model and its tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from triptych.errors import NotAvailableError, ProviderError, ValidationError
from triptych_models.lazy import Lazy
from triptych_models.shared import require

ONNX_EXTRA = "local"
T = TypeVar("T")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def cpu_session(model: bytes | str, *, user: str) -> Any:
    """A session of onnxruntime with ``model``, its bytes or path, on one thread of the CPU.

    It is parallel over texts, not within one: see `TextWorkers`.

    Raises:
        NotAvailableError: the extra ``local`` is not installed.
    """
    runtime = require("onnxruntime", extra=ONNX_EXTRA, user=user)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors: it would write warnings to standard error
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class ModelFiles:
    """The files of a model, which stay as they were when the first of them was read.

    A signature is read when a store is opened, and the model at its first use: what one model made
    is never kept under the name of another.
    """

    def __init__(self, files: Callable[[], Sequence[Path]], *, user: str) -> None:
        self._files, self._user = files, user
        self._seen: list[tuple[object, ...]] | None = None

    def digest(self, files: Sequence[Path], also: bytes = b"") -> str:
        """Twelve digits of the SHA-256 of ``also`` and of some of the files.

        Raises:
            NotAvailableError: one cannot be read.
            ProviderError: one was changed since another was read.
        """
        digest = hashlib.sha256(also)
        with self.unchanged():
            for path in files:
                try:
                    with path.open("rb") as file:
                        digest.update(hashlib.file_digest(file, "sha256").digest())
                except OSError as error:
                    raise _unread(self._user, path, error) from error
        return digest.hexdigest()[:12]

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """See that the files are what they were, before and after the block.

        Raises:
            NotAvailableError: one cannot be read.
            ProviderError: one was changed.
        """
        self._compare()
        yield
        self._compare()

    def _compare(self) -> None:
        found: list[tuple[object, ...]] = []
        for path in self._files():
            try:
                stat = path.stat()
            except OSError as error:
                raise _unread(self._user, path, error) from error
            found.append((path, stat.st_ino, stat.st_size, stat.st_mtime_ns))
        self._seen = self._seen or found
        for before, after in zip_longest(self._seen, found):
            if before != after:
                raise ProviderError(
                    f"{self._user} finds {(after or before)[0]} changed since it was read: open "
                    "the store again, so that what the new model makes is kept as its own"
                )


def _unread(user: str, path: Path, error: OSError) -> NotAvailableError:
    return NotAvailableError(f"{user} cannot read {path} ({error.strerror})")


class OnnxFolder:
    """The files of a ``kind`` of model as Hugging Face has them, for the ``user`` of messages.

    ``session`` and ``digest`` (of the model and its tokenizer, 12 digits) are made at first use;
    ``also`` are further files that ``watched`` looks at.

    Raises:
        ValidationError: a file is missing.
        NotAvailableError: the extra ``local`` is not installed. From ``session``: the model is
            none of this kind. From ``digest``: a file cannot be read.
        ProviderError: from ``session`` and ``digest``: a file was changed after the first of the
            two.
    """

    def __init__(self, folder: Path, *, user: str, kind: str, also: Sequence[Path] = ()) -> None:
        self._user, self._kind = user, kind
        self.folder: Path = folder.absolute()
        self.name: str = f"{user} {self.folder.name}"
        self._path = self._found()
        for package in ("onnxruntime", "tokenizers"):
            require(package, extra=ONNX_EXTRA, user=user)
        self.watched: ModelFiles = ModelFiles(lambda: [*self.files, *also], user=user)
        self.session: Lazy[Any] = Lazy(self._load)
        self.digest: Lazy[str] = Lazy(lambda: self.watched.digest(self.files))

    def run(
        self,
        session: Any,
        inputs: Mapping[str, NDArray[np.int64]],
        what: str,
        dtype: DTypeLike | None = None,
    ) -> NDArray[Any]:
        """The model's first output for those of ``inputs`` that it takes.

        Raises:
            ProviderError: it failed on ``what``.
        """
        given = {
            each.name: inputs[each.name].astype(np.int32 if "int32" in each.type else np.int64)
            for each in session.get_inputs()
        }
        try:
            return np.asarray(session.run(None, given)[0], dtype=dtype)
        except Exception as error:  # onnxruntime's errors share no base class of their own
            raise ProviderError(f"{self.name} failed on {what} ({error})") from error

    def _found(self) -> Path:
        models = [self.folder / "model.onnx", self.folder / "onnx" / "model.onnx"]
        found = [path for path in models if path.is_file()]
        where = ""
        if not self.folder.is_dir():
            where = f"folder {self.folder}"
        elif not found or not (self.folder / "tokenizer.json").is_file():
            where = f"{'tokenizer.json' if found else 'model.onnx'} in {self.folder}"
        if where:
            raise ValidationError(
                f"there is no {where}: give a folder with the model.onnx and the tokenizer.json "
                f"of a {self._kind}"
            )
        return found[0]

    def _load(self) -> Any:
        try:
            with self.watched.unchanged():
                session = cpu_session(str(self._path), user=self._user)
        except (NotAvailableError, ProviderError):
            raise
        except Exception as error:  # onnxruntime's errors share no base class of their own
            raise NotAvailableError(
                f"{self._user} cannot load {self._path} ({error}): give the ONNX file of a "
                f"{self._kind}"
            ) from error
        names = [each.name for each in session.get_inputs()]
        if "input_ids" not in names or not set(names) <= set(_INPUTS):
            raise NotAvailableError(
                f"{self._user} cannot use {self._path}: its inputs are {', '.join(names)}, and a "
                f"{self._kind} has {', '.join(_INPUTS)}"
            )
        return session

    @property
    def files(self) -> list[Path]:
        """The files of the model and its tokenizer."""
        data = self._path.with_name(f"{self._path.name}_data")  # of a model above two gigabytes
        return [self._path, *([data] if data.exists() else ()), self.folder / "tokenizer.json"]
