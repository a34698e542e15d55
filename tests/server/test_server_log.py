"""What the log of ``triptych serve`` says to whoever operates it, and what it never says."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import triptych
from support.cli_run import fresh_shell
from support.provider_server import ProviderServer, Reply, as_json, serving as provider
from support.servers import Served, started
from support.sync_folder import until
from support.two_workers import workers_of
from triptych_server.keys import KeyStore

pytestmark = pytest.mark.process

LOCAL = {"X-Forwarded-For": "127.0.0.1, 203.0.113.9"}
FREE = threading.Event()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """A language model of the server, which answers once `FREE` is set."""
    FREE.clear()
    words = as_json({"choices": [{"message": {"content": "It is hot [1]."}}]})
    with provider(lambda asked: Reply(body=words.body, headers=words.headers, hold=FREE)) as server:
        monkeypatch.setenv("TRIPTYCH_LLM", "openai:judge")
        monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("TRIPTYCH_LLM_API_KEY", "sk-provider-4711")
        yield server
        FREE.set()


def logged(server: Served, event: str) -> list[dict[str, Any]]:
    return [line for line in server.lines() if line["event"] == event]


def fill(folder: Path) -> tuple[str, str]:
    """A store with a document and a key; the key and its id."""
    with triptych.open(folder / "kb.db", embedder="hash") as kb:
        kb.put_document("d", "tea.md", "Tea is hot.")
        made = KeyStore.of(kb).add("reader")
        return made.token, made.key.id


@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_a_life_of_a_server_is_in_its_log_and_no_secret(
    tmp_path: Path, model: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:proxypass@127.0.0.1:9")
    monkeypatch.setenv("TRIPTYCH_RERANKER", "tei:http://127.0.0.1:9")
    key, name = fill(tmp_path)
    with started(tmp_path, "--workers", "2") as server:
        pid = server.process.pid
        for header in (None, f"Bearer {key}", f"Bearer {key[:-4]}0000", "Basic dTpwdw=="):
            given = {"Authorization": header} if header else {}
            url = f"{server.url}/v1/datasets?token=secretquery"
            httpx.get(url, headers={**given, **LOCAL, "X-Request-Id": "mine"}, timeout=60)
        until(lambda: len(logged(server, "request")) == 4)
        until(lambda: len(workers_of(pid)) == 2)
        one, _ = workers_of(pid)
        os.kill(one, signal.SIGKILL)
        until(lambda: logged(server, "a worker died") != [])
        new = {*workers_of(pid)}
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""
        (start,) = logged(server, "start")
        assert start["version"] == triptych.__version__
        assert start["store"].endswith("kb.db")
        assert (start["datasets"], start["keys"], start["workers"]) == (1, 1, 2)
        assert (start["address"], start["write"]) == (server.url, False)
        assert start["embedder"].startswith("hash")
        assert start["llm"] == f"openai/judge at {httpx.URL(model.url).netloc.decode()}"
        assert start["reranker"] == "tei at 127.0.0.1:9"
        requests = logged(server, "request")
        assert [each["key"] for each in requests] == ["-", name, name, "-"]
        assert [each["status"] for each in requests] == [401, 400, 401, 401]
        assert {each["client"] for each in requests} == {"127.0.0.1"}
        assert {each["request_id"] for each in requests} == {"mine"}
        assert all(each["ms"] > 0 and each["pid"] != pid for each in requests)
        (died,) = logged(server, "a worker died")
        assert (died["level"], died["worker"], died["signal"]) == ("warning", one, "SIGKILL")
        assert (died["replacement"] in new, died["deaths"]) == (True, 1)
        assert [each["signal"] for each in logged(server, "signal")] == ["SIGTERM"]
        assert server.lines()[-1]["event"] == "stopped"
        text = server.log.read_text(encoding="utf-8")
        secrets = (key.rpartition("_")[2], "proxypass", "sk-provider", "secretquery", "dTpwdw")
        assert [each for each in secrets if each in text] == []


@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_workers_that_die_again_and_again_are_an_error(tmp_path: Path) -> None:
    with started(tmp_path, "--write", "--workers", "2") as server:
        for number in range(1, 6):
            until(lambda: len(workers_of(server.process.pid)) == 2)
            os.kill(workers_of(server.process.pid)[0], signal.SIGKILL)
            until(lambda so=number: sum("deaths" in each for each in server.lines()) == so)
        deaths = [each for each in server.lines() if "deaths" in each]
        assert [each["level"] for each in deaths] == ["warning"] * 4 + ["error"]
        assert deaths[-1]["event"] == "workers die again and again"


@pytest.mark.parametrize("ends", [True, False])
def test_a_stop_says_how_many_requests_it_finished_and_broke_off(
    ends: bool, tmp_path: Path, model: ProviderServer
) -> None:
    key, _ = fill(tmp_path)
    with started(tmp_path, "--workers", "1") as server:
        asked = {"question": "Is tea hot?", "dataset_id": "d"}
        headers = {"Authorization": f"Bearer {key}"}
        ask = sender(lambda: httpx.post(f"{server.url}/v1/ask", json=asked, headers=headers))
        until(lambda: len(model.asked) == 1)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: logged(server, "stop") != [])
        if not ends:
            server.process.send_signal(signal.SIGINT)
            until(lambda: logged(server, "stopped") != [])
        FREE.set()
        assert server.process.wait(60) == 0
        ask.join()
        (stop,), (stopped,) = logged(server, "stop"), logged(server, "stopped")
        assert (stop["signal"], stop["under_way"]) == ("SIGTERM", 1)
        assert (stopped["finished"], stopped["broken_off"]) == (ends, not ends)
        assert stopped["level"] == ("info" if ends else "warning")
        assert [each["status"] for each in logged(server, "request")] == [200 if ends else 0]


def sender(send: Callable[[], object]) -> threading.Thread:
    def sent() -> None:
        try:
            send()
        except httpx.HTTPError:
            """The server was stopped."""

    thread = threading.Thread(target=sent)
    thread.start()
    return thread


def test_only_a_trusted_proxy_says_where_a_request_comes_from(tmp_path: Path) -> None:
    with started(tmp_path, "--write", "--workers", "1", "--trusted-proxy", "127.0.0.0/8") as server:
        own = {"X-Forwarded-Proto": "https", "Origin": server.url.replace("http:", "https:")}
        assert httpx.get(f"{server.url}/v1/live", headers={**LOCAL, **own}).status_code == 200
        for none in ("Bearer sk-4711", "fe80::1%sk-4711", "unknown", ""):
            httpx.get(f"{server.url}/v1/live", headers={"X-Forwarded-For": none})
        httpx.get(f"{server.url}/v1/live", headers={"X-Forwarded-For": "[2001:db8::1]:7"})
        until(lambda: len(logged(server, "request")) == 6)
        clients = [each["client"] for each in logged(server, "request")]
        assert clients == ["203.0.113.9", *4 * ["127.0.0.1"], "2001:db8::1"]


@pytest.mark.parametrize("wrong", ["*", "proxy.example", "10.0.0.1/8"])
def test_a_proxy_is_named_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    ran = shell("serve", "--write", "--port", "0", "--trusted-proxy", wrong)
    assert (ran.code, "the address of no proxy" in ran.err) == (2, True)


def test_the_password_of_a_store_is_not_logged(tmp_path: Path, postgres_url: str) -> None:
    url = postgres_url.replace("@", ":passw0rd@", 1)
    assert "passw0rd" in url
    with started(tmp_path, "--write", "--workers", "1", store=url) as server:
        (start,) = logged(server, "start")
        assert start["store"].startswith("postgresql+psycopg://***@")
        assert "passw0rd" not in server.log.read_text(encoding="utf-8")
