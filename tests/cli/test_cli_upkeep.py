"""``triptych status``, ``rebuild``, ``delete``, and what every command shares."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from triptych import errors
from triptych.service import Service, ServiceOptions
from triptych_adapters.cli.session import exit_for
from triptych_adapters.wire import build_layers
from triptych_adapters.wire.errors import Exit
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_models import HashEmbedder
from triptych_testing import FakeEmbedder

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-c", "from triptych_adapters.cli import main; main()"]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/a.md", "# A\n\nApples.\n")
    shell.write("docs/b.md", "# B\n\nBread.\n")
    assert shell("put", "docs").code == 0
    return shell


def test_status_shows_sources_and_counts(shell: Shell) -> None:
    shell.write("triptych.toml", 'language = "english"')
    ran = shell("status", "--json")
    assert ran.code == 0
    assert ran.json["settings"]["language"]["source"].endswith("triptych.toml")
    assert ran.json["settings"]["embedder"] == {"value": "hash", "source": "TRIPTYCH_EMBEDDER"}
    (dataset,) = ran.json["datasets"]
    assert (dataset["dataset_id"], dataset["documents"], dataset["stale"]) == ("default", 2, 0)
    assert ran.json["problems"] == []
    assert ["embedder", "hash", "TRIPTYCH_EMBEDDER"] in shell("status").rows


def test_status_tells_of_another_embedder_and_of_none(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = shell("status", "--embedder", "none", "--json").json["problems"]
    assert len(problems) == 1
    assert "searched by keyword only" in problems[0]
    shell("put", "docs", "--dataset", "no model", "--embedder", "none")
    assert "embed --dataset 'no model'`" in shell("status", "--json").json["problems"][0]
    monkeypatch.setenv("TRIPTYCH_EMBEDER", "local")
    ran = shell("status")
    assert "TRIPTYCH_EMBEDER names no setting" in ran.err


def test_embed_adds_the_vectors_that_are_pending(shell: Shell) -> None:
    shell.write("late/a.md", "# Tea\n\nHot water on leaves.")
    ran = shell("put", "late", "--later", "--json")
    assert (ran.json["embedded"], ran.json["pending"]) == (0, 1)
    (hit,) = shell("search", "leaves", "--mode", "bm25", "--json").json["hits"]
    assert (hit["doc_name"], hit["stale"]) == ("a.md", None)
    found = shell("search", "leaves", "--json")
    assert found.json["warnings"] == [
        "1 document lacks vectors: text without one is found by keyword only; "
        "`triptych embed` adds them"
    ]
    (dataset,) = shell("status", "--json").json["datasets"]
    assert (dataset["stale"], dataset["pending"], dataset["pending_chunks"]) == (0, 1, 1)
    (problem,) = shell("status", "--json").json["problems"]
    assert "1 of 2 documents without all their vectors, and 1 chunk to embed" in problem
    report = shell("doctor", "--json").json
    assert [each["check"] for each in report["findings"]] == ["vectors.pending"]
    ran = shell("embed", "--json")
    assert ran.code == 0
    assert ran.json == {
        "schema": 1,
        "command": "embed",
        "dataset_id": None,
        "documents": 1,
        "embedded": 1,
        "reused": 0,
        "encoded": 0,
        "pending": 0,
        "failed": [],
    }
    assert shell("search", "leaves", "--json").json["warnings"] == []
    assert shell("embed", "--dataset", "default").rows[0] == ["documents", "0"]
    assert shell("doctor", "--json").json["findings"] == []
    assert shell("embed", "--embedder", "none").code != 0


def test_status_shows_the_model_the_width_and_the_count_of_vectors(shell: Shell) -> None:
    shell("rebuild")
    (dataset,) = shell("status", "--json").json["datasets"]
    (space,) = dataset["spaces"]
    assert space == {"embed_sig": dataset["config"]["embed_sig"], "dimension": 256, "vectors": 2}
    rows = shell("status").rows
    assert ["default", "2", "2", "2", "0", "0", "0", str(dataset["size"]), "auto"] in rows
    assert [dataset["config"]["embed_sig"], "default", "2", "256", ""] in rows
    shell("rebuild", "--embedder", "none")
    (dataset,) = shell("status", "--json").json["datasets"]
    assert (dataset["vectors"], dataset["spaces"]) == (0, [])


def test_chunks_that_never_get_a_vector_are_counted_with_what_to_do(shell: Shell) -> None:
    shell.write("zh/lamp.md", "# 灯塔\n\n灯塔看守人在岛上。\n\n" + "海上的船看见了光。\n" * 3)
    shell.write("zh/en.md", "# Lamps\n\nThe keeper lives on the island.\n")
    local = ("--dataset", "zh", "--embedder", "local")
    ran = shell("put", "zh", "--embedder", "local", "--dataset", "zh")
    assert ran.code == 0
    said = "has 1 chunk of 2 that will get no vector: the vocabulary of all-MiniLM-L6-v2"
    advice = "`triptych rebuild --dataset zh --embedder local-multilingual`"
    assert said in ran.err
    assert advice in ran.err
    shell.write("zh/more.md", "# More lamps\n\nAnother keeper lives on the mainland.\n")
    assert "vector" not in shell("put", "zh", *local).err  # nothing of that was written now
    shell.write("zh/lamp.md", "# 灯塔\n\n灯塔看守人在岛上很久了。\n")
    for command in (("sync", "zh", "--adopt"), ("status", "--embedder", "local"), ("doctor",)):
        ran = shell(*command, *(() if command[0] == "status" else local))
        assert ran.code == 0
        assert said.replace("of 2", "of 3") in ran.err
        assert advice in ran.err
    ran = shell("search", "灯塔 keeper of the 灯塔", *local)
    assert "rebuild --dataset NAME` with --embedder local-multilingual" in ran.err
    assert len(shell("doctor", *local, "--json").json["coverage"]) == 1
    assert shell("doctor", "--dataset", "default", "--json").json["coverage"] == []


def test_a_rebuild_that_gives_up_vectors_says_so(shell: Shell) -> None:
    assert "given up" not in shell("rebuild").err
    ran = shell("rebuild", "--embedder", "none")
    assert ran.code == 0
    assert "the 2 vectors of dataset 'default', of hash" in ran.err
    assert "given up" not in shell("rebuild", "--embedder", "none").err


def test_status_tells_of_vectors_of_another_model() -> None:
    with MemoryStore() as store:
        another = FakeEmbedder(signature="another")
        Service(store, options=ServiceOptions(embedder=another)).put_document("x", "a", "Tea.")
        ours = Service(store, options=ServiceOptions(embedder=HashEmbedder()))
        problems = "\n".join(map(str, ours.health().problems))
        assert "vectors of another, not of hash-" in problems


def test_what_fails_the_health_check_ends_long_work_before_it_begins(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    health = shell("status", "--json").json["health"]
    assert {check["status"] for check in health} == {"ok"}
    assert {check["name"] for check in health} == {
        "store",
        "index",
        "embedder",
        "dataset 'default'",
    }
    monkeypatch.setenv("TRIPTYCH_LOCK_TIMEOUT", "0.05")
    with SqliteStore.open(shell.store) as other, other.database.writing():
        ran = shell("status", "--json")
        assert ran.code == 5
        assert "lock_timeout" in ran.json["problems"][0]
        assert ran.json["datasets"]
        assert shell("rebuild").code == 5
        assert shell("put", "docs").code == 5


def test_status_counts_stale_layers_and_says_where_it_counts_none(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell("layers", "build", "--llm", "none").code == 0
    assert "everything that is stored is fresh" in shell("status").err
    shell.write("docs/a.md", "# A\n\nApricots.\n")
    assert shell("put", "docs").code == 0
    ran = shell("status", "--json")
    (problem,) = ran.json["problems"]
    assert "2 stale layers: `triptych layers build --dataset default` makes them again" in problem
    assert (ran.code, ran.json["stale_layers"]) == (0, {"default": 2})
    said = shell("status").err
    assert problem in " ".join(said.split())
    assert "is fresh" not in said
    monkeypatch.setattr(build_layers, "MOST_COUNTED", 5)
    said = shell("status").err
    assert "fresh, except perhaps layers" in said
    assert "'default' has so many layers that the stale ones were not counted" in said
    assert shell("status", "--json").json["stale_layers"] == {"default": None}


def test_status_tells_of_stale_documents_and_rebuild_repairs_them(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPTYCH_CHUNK_SIZE", "100")
    assert "2 of 2 documents stale" in shell("status", "--json").json["problems"][0]
    counts = shell("rebuild", "--json").json
    assert (counts["checked"], counts["rebuilt"], counts["failed"]) == (2, 2, [])
    assert shell("status", "--json").json["problems"] == []
    assert shell("rebuild", "--doc", "a.md", "--json").json["fresh"] == 1
    assert shell("rebuild", "--all").code == 0
    assert shell("rebuild", "--all", "--doc", "a.md").code == 2


def test_status_without_a_store_says_so_and_makes_none(shell: Shell) -> None:
    ran = shell("status", "--store", "none.db", "--json")
    assert (ran.code, ran.json["store"]["exists"]) == (0, False)
    assert not Path("none.db").exists()


def test_delete_takes_documents_and_tells_what_was_not_there(shell: Shell) -> None:
    ran = shell("delete", "a.md", "x.md", "--json")
    assert (ran.code, ran.json["deleted"], ran.json["missing"]) == (8, ["a.md"], ["x.md"])
    assert shell("delete", "a.md").code == 3
    assert [row[0] for row in shell("list").rows] == ["b.md"]
    assert shell("delete", "b.md", "--purge").code == 0


def test_a_purge_prints_its_receipt(shell: Shell) -> None:
    ran = shell("delete", "a.md", "--purge")
    assert "erased: documents 1, chunks 1" in ran.err
    assert "beyond it:\n- copies: copy again" in ran.err
    receipt, other = shell("delete", "b.md", "x.md", "--purge", "--json").json["receipts"]
    assert (receipt["name"], receipt["documents"], receipt["existed"]) == ("b.md", 1, True)
    assert (other["name"], other["documents"], other["existed"]) == ("x.md", 0, False)
    assert "receipts" not in shell("delete", "--dataset-wide", "--yes", "--json").json


def test_a_purge_that_is_repeated_succeeds_with_its_receipt(shell: Shell) -> None:
    assert shell("delete", "a.md").code == 0
    for _ in range(2):
        ran = shell("delete", "a.md", "--purge")
        assert ran.code == 0
        assert "erased all the same" in ran.err
        assert "beyond it:\n- copies" in ran.err
    assert shell("delete", "a.md").code == 3


def test_a_dataset_is_not_deleted_where_nobody_can_be_asked(shell: Shell) -> None:
    ran = shell("delete", "--dataset-wide", stdin=b"y\n")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert shell("list").code == 0
    assert shell("delete", "--dataset-wide", "--yes").code == 0
    assert shell("list", "--datasets").rows == []
    assert shell("delete", "--dataset-wide", "--yes").code == 3


@pytest.mark.parametrize("arguments", [(), ("a.md", "--dataset-wide")])
def test_delete_needs_one_thing_to_delete(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert shell("delete", *arguments).code == 2


def test_global_options_stand_before_or_behind_and_behind_wins(shell: Shell) -> None:
    assert shell("--store", "none.db", "list").code == 3
    assert shell("--store", "none.db", "list", "--store", str(shell.store)).code == 0
    assert shell("--json", "list").json["command"] == "list"


def test_an_unforeseen_failure_is_one_line_unless_asked_for_more(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write("triptych.toml", "nonsense = 1")
    ran = shell("list")
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err
    monkeypatch.setenv("TRIPTYCH_DEBUG", "1")
    assert "Traceback" in shell("list").err


def test_every_error_of_triptych_has_its_exit_code() -> None:
    meant = {
        "ValidationError": Exit.USAGE,
        "NotFoundError": Exit.NOT_FOUND,
        "ParseError": Exit.USAGE,
        "ConflictError": Exit.CONFLICT,
        "NotAvailableError": Exit.NOT_AVAILABLE,
        "AuthenticationError": Exit.FAILED,
        "AccessDeniedError": Exit.FAILED,
        "PendingReviewError": Exit.FAILED,
        "TooManyRequestsError": Exit.FAILED,
        "ModelMismatchError": Exit.MODEL,
        "StoreError": Exit.STORE,
        "StoreAwayError": Exit.STORE,
        "CorruptStoreError": Exit.STORE,
        "StoreFullError": Exit.STORE,
        "StoreLockedError": Exit.STORE,
        "SchemaVersionError": Exit.STORE,
        "ProviderError": Exit.MODEL,
        "RateLimitedError": Exit.MODEL,
        "ProviderTimeoutError": Exit.MODEL,
        "UnusableAnswerError": Exit.MODEL,
        "ProviderSetupError": Exit.MODEL,
        "SourceError": Exit.FAILED,
        "DerivationError": Exit.MODEL,
        "DeletionHeldError": Exit.CONFLICT,
        "BudgetExceededError": Exit.MODEL,
        "CancelledError": Exit.FAILED,
        "TriptychError": Exit.FAILED,
    }
    assert set(meant) == set(errors.__all__)
    for name, code in meant.items():
        more = {"reason": "empty"} if name == "UnusableAnswerError" else {}
        assert exit_for(getattr(errors, name)("x", **more)) is code


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_failure_to_report(shell: Shell, unbuffered: str) -> None:
    shell.write("big.txt", "line\n" * 200_000)
    assert shell("put", "big.txt", "--embedder", "none", "--dataset", "big").code == 0
    process = subprocess.Popen(
        [*COMMAND, "get", "big.txt", "--dataset", "big"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == Exit.BROKEN_PIPE


def test_an_interrupt_ends_with_130_and_a_line(shell: Shell) -> None:
    process = subprocess.Popen(
        [*COMMAND, "put", "-", "--name", "x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdin is not None
    # More than a pipe holds: when this returns, the command is reading.
    process.stdin.write(b"x" * 300_000)
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == Exit.INTERRUPTED
    assert err.decode().startswith("error: interrupted")


def test_help_needs_neither_numpy_nor_sqlalchemy() -> None:
    code = (
        "import sys\n"
        "from triptych_adapters.cli.app import app\n"
        "try:\n    app(['search', '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'sqlalchemy', 'onnxruntime'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
