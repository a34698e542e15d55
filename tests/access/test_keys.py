"""Keys: made once, kept as digests, seen by every process, refused alike."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import triptych
from triptych.access import Access
from triptych.errors import (
    AccessDeniedError,
    AuthenticationError,
    CorruptStoreError,
    NotAvailableError,
    NotFoundError,
    TooManyRequestsError,
    ValidationError,
)
from triptych.service import Service
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_server.keys import KeyAuthenticator, KeyStore, RateLimiter, authenticator


@pytest.fixture
def kb() -> Iterator[Service]:
    with Service(MemoryStore()) as service:
        service.put_document("kb", "a.md", "An anchor of ours.", {"team": "ours"})
        service.put_document("kb", "b.md", "An anchor of theirs.", {"team": "theirs"})
        service.put_document("zoo", "c.md", "A zebra.")
        yield service


@pytest.fixture
def keys(kb: Service) -> KeyStore:
    return KeyStore.of(kb)


@pytest.fixture
def who(kb: Service, keys: KeyStore) -> KeyAuthenticator:
    return KeyAuthenticator(kb, keys)


def bearer(token: str) -> str:
    return f"Bearer {token}"


def test_a_key_opens_what_it_allows(keys: KeyStore, who: KeyAuthenticator) -> None:
    made = keys.add("web", dataset_ids=["kb"], where={"team": "ours"})
    service = who(bearer(made.token))
    assert service.list_datasets() == ["kb"]
    assert [hit.doc_name for hit in service.search("anchor", scope="all").hits] == ["a.md"]
    with pytest.raises(AccessDeniedError, match="may only read"):
        service.put_document("kb", "a.md", "Other.")
    assert who(f"bearer   {made.token} ") is service


def test_keys_that_allow_the_same_share_a_service(keys: KeyStore, who: KeyAuthenticator) -> None:
    one, two = (keys.add(name, where={"team": "ours"}) for name in ("one", "two"))
    other = keys.add("other", where={"team": "ours"}, can_write=True)
    assert who(bearer(one.token)) is who(bearer(two.token))
    assert who(bearer(other.token)) is not who(bearer(one.token))


def test_the_secret_is_kept_nowhere_and_shown_by_nothing(kb: Service, keys: KeyStore) -> None:
    made = keys.add("web")
    secret = made.token.rpartition("_")[2]
    settings = kb.capabilities.settings
    assert settings is not None
    assert secret not in json.dumps(dict(settings.list_settings()))
    assert secret not in repr((made, made.key, keys.list()))
    assert made.key.digest not in repr(made.key)
    assert len(secret) * 4 >= 192


def test_whatever_is_wrong_with_a_key_the_error_is_one(
    keys: KeyStore, who: KeyAuthenticator
) -> None:
    good = keys.add("good")
    soon = keys.add("soon", expires_at=datetime.now(UTC) + timedelta(milliseconds=20))
    gone = keys.add("gone")
    keys.revoke(gone.key.id)
    assert keys.revoke(gone.key.id).state() == "revoked"
    wrong_secret = good.token[:-1] + ("0" if good.token[-1] != "0" else "1")
    wait = threading.Event()
    while soon.key.state() == "valid":
        wait.wait(0.005)
    bad = [
        None, "", "Bearer", "Bearer ", "Basic abc", good.token, f"Token {good.token}",
        bearer("nonsense"), bearer("tk_000000000000_" + "0" * 48), bearer(wrong_secret),
        bearer(soon.token), bearer(gone.token), bearer(good.token.upper()),
        bearer(good.token + "0"), bearer(good.token) + "\n", bearer("tk_" + "é" * 60),
        bearer("x" * 1_000_000), bearer(good.token.replace("_", "-")),
    ]  # fmt: skip
    said = set()
    for header in bad:
        if header == bearer(good.token) + "\n":
            continue  # blanks around a header's value are not part of it
        with pytest.raises(AuthenticationError) as error:
            who(header)
        said.add((str(error.value), error.value.hint, error.value.__cause__))
    assert len(said) == 1
    assert who(bearer(good.token))


def test_what_is_wrong_costs_the_same_reads(kb: Service) -> None:
    """One read of the settings, be there no key, a malformed, an unknown or a wrong one."""
    settings = kb.capabilities.settings
    assert settings is not None
    asked: list[str] = []

    class Counting:
        def get_setting(self, key: str) -> str | None:
            asked.append(key)
            return settings.get_setting(key)

        set_setting = settings.set_setting
        list_settings = settings.list_settings

    keys = KeyStore(Counting())
    made = keys.add("web")
    who = KeyAuthenticator(kb, keys)
    wrong = made.token[:-2] + "zz"
    for header in (None, bearer("tk_1"), bearer("tk_000000000000_" + "0" * 48), bearer(wrong)):
        asked.clear()
        with pytest.raises(AuthenticationError):
            who(header)
        assert len(asked) == 1


def test_a_key_keeps_to_its_rate(kb: Service, keys: KeyStore) -> None:
    now = [100.0]
    who = KeyAuthenticator(kb, keys, limiter=RateLimiter(lambda: now[0]))
    few, free = keys.add("few", requests_per_minute=3), keys.add("free")
    for _ in range(3):
        who(bearer(few.token))
    with pytest.raises(TooManyRequestsError, match="3 times a minute") as error:
        who(bearer(few.token))
    assert error.value.retry_after == pytest.approx(20)
    for _ in range(10):
        who(bearer(free.token))
    now[0] += 20
    who(bearer(few.token))
    with pytest.raises(TooManyRequestsError):
        who(bearer(few.token))
    now[0] += 3600
    for _ in range(3):
        who(bearer(few.token))
    with pytest.raises(TooManyRequestsError):
        who(bearer(few.token))


@pytest.mark.skipif(sys.platform == "win32", reason="processes count apart there")
def test_limiters_of_one_folder_count_together(tmp_path: Path) -> None:
    now = [100.0]
    one, other = (RateLimiter(lambda: now[0], shared=tmp_path) for _ in range(2))
    assert [each.take("k", 3) for each in (one, other, one)] == [0, 0, 0]
    assert [each.take("k", 3) for each in (one, other)] == [20, 20]
    now[0] += 20
    assert [each.take("k", 3) for each in (other, one)] == [0, 20]
    assert (one.take("k", 60), other.take("other", 3)) == (0, 0)  # a new rate is a full bucket


def test_a_flood_of_bad_keys_keeps_nothing(keys: KeyStore, who: KeyAuthenticator) -> None:
    made = keys.add("good")

    def flood(count: int) -> None:
        for at in range(count):
            with pytest.raises(AuthenticationError):
                who(bearer(f"tk_{at:012x}_{at:048x}"))

    flood(50)
    tracemalloc.start()
    before = tracemalloc.take_snapshot()
    flood(2_000)
    grown = tracemalloc.take_snapshot().compare_to(before, "filename")
    tracemalloc.stop()
    ours = [each for each in grown if "triptych" in each.traceback[0].filename]
    assert sum(each.size_diff for each in ours) < 20_000
    assert who(bearer(made.token))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset_ids": "kb"}, "lists the datasets"),
        ({"dataset_ids": ["a/b\0"]}, "dataset_id"),
        ({"where": {}}, "is empty"),
        ({"where": {"heading": "x"}}, "cannot use"),
        ({"where": {"$version": {"$gte": 2}}}, "cannot use"),
        ({"where": {"a": object()}}, "where"),
        ({"can_write": "yes"}, "can_write"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"requests_per_minute": 10**9}, "at most"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expired already"),
        ({"name": "x" * 201}, "at most 200"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    keys: KeyStore, given: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        keys.add(**given)  # type: ignore[arg-type]
    assert keys.list() == []


def test_a_filter_with_days_comes_back_as_it_was(keys: KeyStore) -> None:
    day = datetime(2026, 9, 1, 12, tzinfo=UTC)
    made = keys.add("web", where={"day": {"$gte": day}, "lang": {"en", "de"}})
    found = keys.get(made.key.id)
    assert found is not None
    assert found.access.tree == Access(where={"day": {"$gte": day}, "lang": ["de", "en"]}).tree or (
        found.access.tree == Access(where={"day": {"$gte": day}, "lang": ["en", "de"]}).tree
    )


def test_keys_are_of_the_whole_store(kb: Service, keys: KeyStore) -> None:
    assert authenticator(kb) is None
    keys.add("web")
    assert authenticator(kb) is not None
    with pytest.raises(NotAvailableError, match="restricted Service has no keys"):
        KeyStore.of(kb.restricted(Access(can_write=True)))
    with pytest.raises(NotFoundError, match="no key 'nope'"):
        keys.revoke("nope")
    assert keys.get("nope") is None


def test_a_key_that_is_damaged_is_named(kb: Service, keys: KeyStore) -> None:
    settings = kb.capabilities.settings
    assert settings is not None
    settings.set_setting("access/key/000000000000", '{"id": 1}', expected=None)
    with pytest.raises(CorruptStoreError, match="cannot be read"):
        keys.list()


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_another_process_sees_a_key_and_its_end_at_once(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "kb"
    opened = FilesStore.open(place) if kind == "files" else SqliteStore.open(place)
    url = f"files://{place}" if kind == "files" else str(place)
    with Service(opened) as service:
        service.put_document("kb", "a.md", "An anchor.")
        made = command(url, "add", "web", "--dataset", "kb")
        who = authenticator(service)
        assert who is not None
        assert who(bearer(made["key"])).list_datasets() == ["kb"]
        assert [each["id"] for each in command(url, "list")["keys"]] == [made["id"]]
        command(url, "revoke", made["id"])
        with pytest.raises(AuthenticationError):
            who(bearer(made["key"]))


def command(url: str, *arguments: str) -> dict[str, triptych.records.MetadataValue]:
    """What ``triptych admin keys`` prints as JSON, run in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "triptych_adapters.cli", "-s", url, "admin", "keys", *arguments,
         "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, triptych.records.MetadataValue] = json.loads(ran.stdout)
    return found
