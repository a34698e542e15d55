"""What a qdrant:// URL says, and a Qdrant that is away."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")

import triptych
from triptych.errors import StoreError, ValidationError
from triptych_factory import parse_location
from triptych_factory.locations import relative_to, store_paths
from triptych_qdrant import parse_url


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_url_says_where_and_how() -> None:
    found = parse_url(
        "qdrant://h:6334/mine?truth=kb.db&api_key=hidden&tls=true&grpc=1&grpc_port=7&timeout=2.5"
        "&exact=true&fallback=local"
    )
    assert (found.host, found.port, found.prefix, found.api_key) == ("h", 6334, "mine", "hidden")
    assert (found.tls, found.grpc, found.grpc_port) == (True, True, 7)
    assert (found.timeout, found.exact, found.falls_back) == (2.5, True, True)
    assert "hidden" not in repr(found)
    plain = parse_url("qdrant://h?truth=kb.db")
    assert (plain.port, plain.prefix, plain.tls, plain.grpc) == (6333, "triptych", False, False)
    assert (plain.exact, plain.falls_back) == (False, False)
    assert (plain.shard_number, plain.replication_factor) == (None, None)
    spread = parse_url("qdrant://h?truth=kb.db&shard_number=6&replication_factor=2")
    assert (spread.shard_number, spread.replication_factor) == (6, 2)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("qdrant://h", "truth="),
        ("qdrant://?truth=kb.db", "names no host"),
        ("qdrant://u:hidden@h?truth=kb.db", "api_key"),
        ("qdrant://h:port?truth=kb.db", "port"),
        ("qdrant://h:0?truth=kb.db", "port"),
        ("qdrant://[::1?truth=kb.db&api_key=hidden", "brackets"),
        ("qdrant://h?truth=kb.db&api_key=hidden#part&tls=true", "%23"),
        ("qdrant://h?truth=kb.db&api_key=hidden&api_key=hidden2", "api_key' twice"),
        ("qdrant://h?truth=kb.db&grpc_port=0.5", "grpc_port must be a whole number"),
        ("qdrant://h?truth=kb.db&grpc_port=65536", "grpc_port must be a whole number"),
        ("qdrant://h?truth=kb.db&shard_number=0", "shard_number must be a whole number"),
        ("qdrant://h?truth=kb.db&replication_factor=x", "replication_factor must be a whole"),
        ("qdrant://h/a/b?truth=kb.db", "cannot name collections"),
        ("qdrant://h?truth=kb.db&colour=hidden", "colour"),
        ("qdrant://h?truth=kb.db&tls=maybe", "tls is true or false"),
        ("qdrant://h?truth=kb.db&timeout=0", "timeout must be"),
        ("qdrant://h?truth=kb.db&fallback=never", "fallback is none or local"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        parse_url(url)
    assert "hidden" not in str(caught.value)


def test_an_address_of_ipv6_has_its_brackets(tmp_path: Path) -> None:
    found = parse_url("qdrant://[::1]:1/mine?truth=kb.db&timeout=1")
    assert (found.host, found.port, found.where) == ("[::1]", 1, "[::1]:1")
    for grpc in ("true", "false"):
        url = f"qdrant://[::1]:1?grpc_port=1&grpc={grpc}&truth={quote(str(tmp_path / 'kb.db'))}"
        with triptych.open(url, embedder="hash") as kb:
            kb.put_document("d", "a", "salmon")
            with pytest.raises(StoreError, match="start it, or check its address"):
                kb.search("salmon", dataset_id="d", mode="vector")


@pytest.mark.parametrize("name", ["a+b.db", "a b.db", "a%b.db", "a&b#c.db"])
def test_a_path_in_a_url_is_the_one_that_was_quoted(tmp_path: Path, name: str) -> None:
    url = f"qdrant://h/mine?tls=true&truth={quote(name)}&api_key=ab+cd%2F%2B"
    assert (parse_url(url).truth, parse_url(url).api_key) == (name, "ab+cd/+")
    moved = relative_to(url, tmp_path)
    assert parse_url(moved).truth == str(tmp_path / name)
    assert (parse_url(moved).api_key, parse_url(moved).tls) == ("ab+cd/+", True)
    assert parse_location(moved).path == tmp_path / name


def test_a_plus_sign_in_a_url_is_itself() -> None:
    assert parse_location("qdrant://h?truth=a+b.db").path == Path("a+b.db").absolute()


@pytest.mark.parametrize(
    "url", ["qdrant://[::1?truth=kb.db", "qdrant://h?truth=kb.db#x", "qdrant://h?truth=a&truth=b"]
)
def test_a_location_that_is_no_url_is_refused(url: str, tmp_path: Path) -> None:
    for read in (parse_location, lambda url: relative_to(url, tmp_path)):
        with pytest.raises(ValidationError):
            read(url)


def test_the_store_lies_where_its_truth_lies(tmp_path: Path) -> None:
    url = "qdrant://h?truth=kb.db&api_key=hidden"
    moved = relative_to(url, tmp_path)
    location = parse_location(moved)
    assert (location.scheme, location.path) == ("qdrant", tmp_path / "kb.db")
    assert tmp_path / "kb.db.qdrant.lock" in store_paths(location)
    assert "hidden" not in f"{location} {location!r}"
    with pytest.raises(ValidationError, match="SQLite or PostgreSQL"):
        parse_location("qdrant://h?truth=memory://")
    secret = quote("postgresql://u:hidden@h/kb", safe="")
    assert "hidden" not in f"{parse_location(f'qdrant://h?truth={secret}')!r}"


def test_a_search_without_qdrant_raises_and_nothing_is_lost(tmp_path: Path, nobody: str) -> None:
    url = f"qdrant://{nobody}?truth={quote(str(tmp_path / 'kb.db'))}&tls=true&api_key=hidden"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "a", "the salmon river")
        with pytest.raises(StoreError, match=f"Qdrant at {nobody} does not answer") as caught:
            kb.search("salmon", dataset_id="d", mode="vector")
        assert "hidden" not in str(caught.value)
        words = kb.search("salmon", dataset_id="d", mode="bm25")
        assert ([hit.doc_name for hit in words], words.warnings) == (["a"], ())
        both = kb.search("salmon", dataset_id="d", mode="hybrid")
        assert [hit.doc_name for hit in both] == ["a"]
        assert f"Qdrant at {nobody} does not answer" in both.warnings[0]
        document = kb.get_document("d", "a")
        assert document is not None
        assert document.content == "the salmon river"


def test_the_local_index_answers_with_a_warning_where_that_was_chosen(
    tmp_path: Path, nobody: str
) -> None:
    url = f"qdrant://{nobody}?truth={quote(str(tmp_path / 'kb.db'))}&fallback=local"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "a", "the salmon river")
        for mode in ("vector", "hybrid"):
            result = kb.search("salmon", dataset_id="d", mode=mode)
            assert [hit.doc_name for hit in result.hits] == ["a"]
            (warned,) = (text for text in result.warnings if f"Qdrant at {nobody}" in text)
            assert "searched without Qdrant" in warned


@pytest.mark.skipif(
    "QDRANT_URL" not in os.environ,
    reason="QDRANT_URL names no server of Qdrant, such as qdrant://localhost:6333",
)
def test_a_real_server_ranks_as_memory_does(tmp_path: Path) -> None:
    from triptych_backends.memory import MemoryStore
    from triptych_backends.sqlite import SqliteStore
    from triptych_qdrant import ClientCollections, QdrantStore
    from triptych_testing import Harness, assert_backends_rank_alike

    found = parse_url(f"{os.environ['QDRANT_URL']}/test-{os.getpid()}?truth=kb.db")
    collections = ClientCollections(found.connect, found.where)
    truth = SqliteStore.open(tmp_path / "kb.db", background_index=False)
    store = QdrantStore(truth, collections, prefix=found.prefix, exact=True)
    try:
        assert_backends_rank_alike(
            Harness(open=MemoryStore), Harness(open=lambda: store), tolerance=2.5e-6
        )
    finally:
        for name in collections.names():
            if name.startswith(f"{found.prefix}-"):
                collections.drop(name)
        collections.close()
