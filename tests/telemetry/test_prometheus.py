"""Metrics for Prometheus: what is exposed, by whom, for whom."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import triptych
from support.asgi import Client
from support.servers import Served, started
from triptych import Service, telemetry
from triptych.access import Access
from triptych_adapters.wire.errors import Exit
from triptych_server.http import create_app
from triptych_server.keys import KeyStore, authenticator
from triptych_server.telemetry import PrometheusObserver, StoreFigures
from triptych_server.telemetry.metrics import FIGURES, METRICS

SECRET = "Zanzibar"


def values(text: str) -> dict[str, float]:
    """Every sample of an exposition, its labels summed up."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="hash") as service:
        yield service


@pytest.fixture
def observer(kb: Service) -> Iterator[PrometheusObserver]:
    made = PrometheusObserver(figures=StoreFigures(kb, seconds=0))
    stop = telemetry.observe(made)
    yield made
    stop()


def test_what_was_done_and_what_is_stored_is_counted(
    kb: Service, observer: PrometheusObserver
) -> None:
    kb.put_documents("d", {"a.md": "Tea is hot.", "b.md": "Milk is cold."})
    kb.put_document("d", "later.md", "Sugar.", embed="later")
    kb.search("tea", dataset_id="d")
    kb.search("tea", dataset_id="d", mode="bm25")
    with pytest.raises(triptych.NotFoundError):
        kb.search("tea", dataset_id="none")
    found = values(observer.exposition().decode())
    assert found["triptych_search_duration_seconds_count"] == 3
    assert found["triptych_search_lane_duration_seconds_count"] == 3
    assert found["triptych_documents_processed_total"] == 3
    assert found["triptych_chunks_derived_total"] == 3
    assert found["triptych_model_texts_total"] == 3  # two texts and a query
    assert found["triptych_store_documents"] == 3
    assert found["triptych_store_vectors"] == 2
    assert found["triptych_store_pending_chunks"] == 1
    assert found["triptych_store_readable"] == 1
    outcomes = {
        each["labels"]["outcome"]
        for each in observer.samples()
        if each["name"] == "triptych_search_duration_seconds_count"
    }
    assert outcomes == {"ok", "NotFoundError"}


def test_a_store_that_cannot_be_read_leaves_the_other_metrics(
    kb: Service, observer: PrometheusObserver, caplog: pytest.LogCaptureFixture
) -> None:
    kb.put_document("d", "a.md", "Tea is hot.")
    kb.close()
    found = values(observer.exposition().decode())
    assert found["triptych_store_readable"] == 0
    assert found["triptych_chunks_derived_total"] == 1
    assert "triptych_store_documents" not in found
    assert "could not be read" in caplog.text


def test_figures_are_read_again_after_a_while_only(kb: Service) -> None:
    kb.create_dataset("d")
    figures = StoreFigures(kb, seconds=3600)
    assert figures()["triptych_store_documents"] == 0
    kb.put_document("d", "a.md", "Tea is hot.")
    assert figures()["triptych_store_documents"] == 0
    assert StoreFigures(kb)()["triptych_store_documents"] == 1


def test_the_reference_names_every_metric() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/telemetry.md").read_text(encoding="utf-8")
    for each in METRICS:
        suffix = "_total" if each.kind == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in each.labels)
        assert f"| `{each.prometheus_name}{suffix}` | `{each.name}` | {labels} |" in page
    for figure in FIGURES:
        suffix = "_total" if figure.is_counter else ""
        assert f"| `{figure.name}{suffix}` |" in page


# Who sees them


def test_without_keys_this_machine_alone_sees_them(
    kb: Service, observer: PrometheusObserver
) -> None:
    app = create_app(kb, metrics=observer, hosts=("*",))

    def asked(address: str) -> int:
        async def from_there(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "client": (address, 1)}, receive, send)

        return Client(from_there)("GET", "/metrics").status_code

    assert [asked(each) for each in ("127.0.0.1", "::1", "10.0.0.7", "nobody")] == [
        200,
        200,
        403,
        403,
    ]
    assert Client(create_app(kb))("GET", "/metrics").status_code == 404


def test_a_key_to_a_part_sees_no_metric_and_a_key_to_everything_no_name(
    kb: Service, observer: PrometheusObserver
) -> None:
    kb.put_document(SECRET, f"{SECRET}.md", f"Tea is hot in {SECRET}.")
    keys = KeyStore.of(kb)
    whole = keys.add("whole")
    parts = [
        keys.add("dataset", dataset_ids=["d"]),
        keys.add("filter", where={"team": "a"}),
        keys.add("writer", dataset_ids=[SECRET], can_write=True),
    ]
    authenticate = authenticator(kb)
    client = Client(create_app(kb, authenticate=authenticate, metrics=observer))
    body = {"query": SECRET, "dataset_id": SECRET}

    def asked(token: str, method: str = "GET", url: str = "/metrics", **more: Any) -> Any:
        return client(method, url, headers={"Authorization": f"Bearer {token}"}, **more)

    assert asked(whole.token, "POST", "/v1/search", json=body).status_code == 200
    url = f"/v1/datasets/{SECRET}/documents/{SECRET}.md"
    assert asked(whole.token, "GET", url).status_code == 200
    for accept in ("text/plain", "application/json"):
        client = Client(create_app(kb, authenticate=authenticate, metrics=observer), accept=accept)
        answers = {asked(each.token).content for each in parts}
        assert len(answers) == 1
        assert {asked(each.token).status_code for each in parts} == {403}
        assert b"triptych_" not in answers.pop()
        assert client("GET", "/metrics").status_code == 401
        shown = asked(whole.token)
        assert shown.status_code == 200
        assert "triptych_search_duration_seconds_count" in shown.text
        assert SECRET.lower() not in shown.text.lower()
        assert "tk_" not in shown.text


def test_a_service_that_somebody_restricted_sees_no_metric(
    kb: Service, observer: PrometheusObserver
) -> None:
    restricted = kb.restricted(Access(dataset_ids=["d"]))
    app = create_app(kb, authenticate=lambda _: restricted, metrics=observer)
    assert Client(app)("GET", "/metrics").status_code == 403


def test_a_worker_that_makes_its_files_at_this_moment_breaks_no_exposition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    counted = PrometheusObserver()
    # Between the moment that a process makes its file and the one that gives it a length.
    (tmp_path / "counter_12345.db").touch()
    assert counted.exposition() == b""
    assert counted.samples() == []


def test_methods_and_paths_of_strangers_make_no_series(
    kb: Service, observer: PrometheusObserver
) -> None:
    client = Client(create_app(kb, metrics=observer))
    for number in range(5):
        client(f"VERB{number}", f"/nowhere/{number}")
    requests = [
        each["labels"]
        for each in observer.samples()
        if each["name"] == "triptych_http_request_duration_seconds_count"
    ]
    assert requests == [{"method": "_OTHER", "route": "", "status": "404"}]


# The processes of a server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("observed")
    with started(folder, "--write", "--workers", "2", "--metrics") as server:
        document = {"content": "# Tea\n\nTea is hot.\n"}
        httpx.put(f"{server.url}/v1/datasets/d/documents/a.md", json=document, timeout=60)
        yield server


@pytest.mark.process
def test_the_numbers_are_those_of_all_workers(server: Served) -> None:
    def searches() -> float:
        with httpx.Client() as fresh:  # a connection of its own: any worker answers
            answer = fresh.get(f"{server.url}/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return values(answer.text).get("triptych_search_duration_seconds_count", 0)

    before = searches()
    for _ in range(12):
        with httpx.Client() as fresh:
            body = {"query": "tea", "dataset_id": "d"}
            assert fresh.post(f"{server.url}/v1/search", json=body).is_success
    assert [searches() - before for _ in range(6)] == [12] * 6


@pytest.mark.doors
@pytest.mark.process
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool (Debian: prometheus)")
def test_promtool_accepts_what_is_served(server: Served) -> None:
    served_text = httpx.get(f"{server.url}/metrics").content
    check = ["promtool", "check", "metrics"]
    run = subprocess.run(check, input=served_text, capture_output=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    folder = Path(__file__).parents[2] / "examples" / "observability"
    check = ["promtool", "check", "config", str(folder / "prometheus.yml")]
    run = subprocess.run(check, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.doors
@pytest.mark.process
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no prometheus (Debian)")
def test_a_prometheus_scrapes_it_and_answers_the_dashboard(server: Served, tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "examples" / "observability"
    config = (folder / "prometheus.yml").read_text(encoding="utf-8")
    host, port = server.address
    assert "127.0.0.1:8400" in config
    config = config.replace("127.0.0.1:8400", f"{host}:{port}").replace("15s", "1s")
    (tmp_path / "prometheus.yml").write_text(config, encoding="utf-8")
    shutil.copy(folder / "alerts.yml", tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--web.listen-address={address}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
    ]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://{address}/api/v1", timeout=30) as prometheus:

            def asked(expression: str) -> list[Any]:
                answer = prometheus.get("/query", params={"query": expression}).json()
                assert answer["status"] == "success", (expression, answer)
                found: list[Any] = answer["data"]["result"]
                return found

            def scraped() -> bool:
                try:
                    return bool(asked("triptych_search_duration_seconds_count >= 1"))
                except httpx.TransportError:
                    return False  # it is not up yet

            body = {"query": "tea", "dataset_id": "d"}
            assert httpx.post(f"{server.url}/v1/search", json=body).is_success
            deadline = time.monotonic() + 60
            while not scraped():
                assert time.monotonic() < deadline
                time.sleep(0.2)
            dashboard = (folder / "grafana/dashboards/triptych.json").read_text(encoding="utf-8")
            for panel in json.loads(dashboard)["panels"]:
                for target in panel.get("targets", ()):
                    asked(target["expr"].replace("$__rate_interval", "1m"))
            assert asked("triptych_store_documents")
            groups = prometheus.get("/rules").json()["data"]["groups"]
            assert len([rule for group in groups for rule in group["rules"]]) == 6
    finally:
        running.terminate()
        running.wait(60)


@pytest.mark.process
def test_status_has_the_figures_of_the_store_and_of_the_server(server: Served) -> None:
    command = [sys.executable, "-m", "triptych_adapters.cli", "status", "--json", "--store"]
    run = subprocess.run(
        [*command, server.url], capture_output=True, text=True, cwd=server.log.parent, check=False
    )
    assert run.returncode == Exit.OK, run.stderr
    said = json.loads(run.stdout)
    assert said["figures"]["triptych_store_documents"] == 1
    assert said["figures"].keys() <= {each.name for each in FIGURES}
    counted = {each["name"]: each["value"] for each in said["server"]}
    assert counted["triptych_store_documents"] == 1
    assert counted["triptych_http_requests_under_way"] >= 1
