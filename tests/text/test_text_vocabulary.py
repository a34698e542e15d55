"""tiktoken's vocabulary: found, fetched when somebody asks, and never at a call."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from triptych.errors import NotAvailableError
from triptych.installation import install_command
from triptych.text import tokens

FAKE = b"".join(base64.b64encode(bytes([i])) + b" %d\n" % i for i in range(256))


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose every cache is in ``tmp_path``, and where `FAKE` is the vocabulary."""
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setattr(tokens.tempfile, "gettempdir", lambda: str(tmp_path / "temp"))
    monkeypatch.setattr(tokens, "ENCODING_SHA256", hashlib.sha256(FAKE).hexdigest())
    return tmp_path


def keep(folder: Path, content: bytes = FAKE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / tokens._FILE_NAME
    path.write_bytes(content)
    return path


def test_the_vocabulary_is_found_where_tiktoken_keeps_it(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tokens.find_vocabulary() is None
    kept = keep(caches / "temp" / "data-gym-cache")
    assert tokens.find_vocabulary() == kept
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(caches / "mine"))
    assert tokens.find_vocabulary() == kept
    mine = keep(caches / "mine")
    assert tokens.find_vocabulary() == mine


@pytest.mark.skipif(sys.platform != "linux", reason="the folder for caches of Linux")
def test_the_vocabulary_is_found_where_fetch_keeps_it(caches: Path) -> None:
    kept = keep(caches / "caches" / "triptych" / "tiktoken")
    assert tokens.find_vocabulary() == kept
    assert tokens.fetch_vocabulary() == kept


def test_a_damaged_vocabulary_is_none(caches: Path) -> None:
    """tiktoken would delete it and download another at the next call."""
    keep(caches / "temp" / "data-gym-cache", FAKE[:-1])
    assert tokens.find_vocabulary() is None


def test_loading_leaves_the_environment_as_it_was(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Tiktoken:
        @staticmethod
        def get_encoding(name: str) -> str:
            seen.append((name, os.environ["TIKTOKEN_CACHE_DIR"]))
            return "encoding"

    monkeypatch.setitem(sys.modules, "tiktoken", Tiktoken)
    kept = keep(caches / "temp" / "data-gym-cache")
    assert tokens.load_encoding() == "encoding"
    assert seen == [("o200k_base", str(kept.parent))]
    assert "TIKTOKEN_CACHE_DIR" not in os.environ


def test_fetching_without_tiktoken_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(NotAvailableError, match=re.escape(install_command(extra="tokens"))):
        tokens.fetch_vocabulary()


def test_a_failed_download_says_where_a_copy_may_be_put(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tiktoken:
        @staticmethod
        def get_encoding(name: str) -> None:
            raise ConnectionError("no network")

    monkeypatch.setitem(sys.modules, "tiktoken", Tiktoken)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(caches / "mine"))
    with pytest.raises(NotAvailableError, match="ConnectionError") as failed:
        tokens.fetch_vocabulary()
    assert str(caches / "mine" / tokens._FILE_NAME) in str(failed.value)


@pytest.mark.process
def test_counting_tokens_opens_no_connection(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    code = (
        "import sys\n"
        "asked = []\n"
        "def look(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'socket.gethostbyname'):\n"
        "        asked.append(event)\n"
        "sys.addaudithook(look)\n"
        "import triptych\n"
        "with triptych.open('memory://', embedder=None) as kb:\n"
        "    docs = kb.dataset('d')\n"
        "    docs.put('a.md', 'The kettle boils.')\n"
        "    first, second = docs.context('kettle', 60), docs.context('kettle', 60)\n"
        "assert first.counter == second.counter == 'estimate', first.counter\n"
        "assert 'triptych admin fetch tokens' in ' '.join(first.warnings), first.warnings\n"
        "assert second.warnings == (), second.warnings\n"
        "assert not asked, asked\n"
    )
    empty = {"TIKTOKEN_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    environment = {k: v for k, v in os.environ.items() if k != "XDG_CACHE_HOME"} | empty
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
