"""A store in one JSON file: an example to copy, for some thousand chunks.

`MemoryStore` holds the datasets, decides and searches; this module keeps them: it reads the file
when the store is opened, and writes it again in each change. POSIX only, for its file lock.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from triptych import errors
from triptych.records.serialization import from_dict, to_dict
from triptych_backends.memory import DatasetState, MemoryStore


class JsonStore(MemoryStore):
    """A store in the file ``path``.

    For any number of threads, and one process at a time: a second opener gets a
    `StoreLockedError` until the first has closed the store, or has died.
    """

    def __init__(self, path: str | Path, *, history: int = 10) -> None:
        self._path = Path(path)
        with self._mapped_errors(), ExitStack() as undo:
            self._guard = undo.enter_context(open(f"{path}.lock", "wb"))
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stored: dict[str, Any] = {"datasets": {}, "settings": {}}
            if self._path.exists():
                stored = json.loads(self._path.read_bytes())
            datasets = {
                name: from_dict(DatasetState, data) for name, data in stored["datasets"].items()
            }
            settings = stored["settings"]
            super().__init__(history=history, datasets=datasets, settings=settings, save=self._save)
            undo.pop_all()

    def close(self) -> None:
        """Let another open the store. Any later call but this one raises `StoreError`."""
        super().close()
        self._guard.close()

    def _save(self, datasets: Mapping[str, DatasetState], settings: Mapping[str, str]) -> None:
        """Write the file. When this raises, the memory store undoes the change."""
        with self._mapped_errors(), open(f"{self._path}.new", "w") as file:
            file.write(json.dumps({"datasets": to_dict(datasets), "settings": dict(settings)}))
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, self._path)
            try:
                self._sync_folder()
            except OSError:
                self.close()  # whether the change lasts, the next to open will see
                raise

    def _sync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise errors.StoreLockedError(f"{self._path} is open: close it there") from error
        except OSError as error:
            raise errors.StoreError(f"{self._path} cannot be used: {error}") from error
        except ValueError as error:
            raise errors.CorruptStoreError(f"{self._path} is damaged: {error}") from error
