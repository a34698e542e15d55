"""``triptych work``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for name in ("a.md", "b.md"):
        shell.write(f"docs/{name}", f"# {name}\n")
    return shell


def test_once_does_what_waits_and_says_how_much(shell: Shell) -> None:
    assert shell("put", "docs", "--later").code == 0
    ran = shell("work", "--once")
    assert ran.code == 0
    assert ran.text.startswith("default: 2 of 2 documents, 2 embedded, ")
    assert "2 documents in 1 share" in ran.err
    ran = shell("work", "--once", "--quiet")
    assert (ran.code, ran.text, ran.err) == (0, "", "")


def test_as_json_each_share_is_a_line_and_the_last_has_the_sums(shell: Shell) -> None:
    assert shell("put", "docs", "--later").code == 0
    ran = shell("work", "--once", "--json", "--dataset", "default")
    share, end = map(json.loads, ran.text.splitlines())
    assert (share["event"], share["dataset_id"], share["embedded"]) == (
        "share",
        "default",
        2,
    )
    assert end["event"] == "end"
    assert end["documents"] == 2
    assert {each["command"] for each in (share, end)} == {"work"}


def test_another_model_is_a_failure_and_is_named(shell: Shell) -> None:
    assert shell("put", "docs").code == 0
    ran = shell("--embedder", "none", "work", "--once", "--json")
    assert ran.code == 6
    assert "default: the dataset 'default' holds vectors of" in ran.err
    assert json.loads(ran.text.splitlines()[-1])["failed"][0]["dataset_id"] == "default"


def test_options_that_cannot_be_and_servers_are_refused(shell: Shell) -> None:
    assert shell("put", "docs").code == 0
    ran = shell("work", "--once", "--poll", "0")
    assert ran.code == 2
    assert "poll is a number of seconds above 0" in ran.err
    ran = shell("--store", "http://127.0.0.1:9", "work")
    assert ran.code == 7
    assert "a worker works on the store itself" in ran.err


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGTERM")
def test_it_waits_for_work_until_a_signal_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="hash") as kb:
        kb.put_document("d", "a", "one", embed="later")
        command = [sys.executable, "-m", "triptych_adapters.cli", "work", "--json"]
        with subprocess.Popen(
            [*command, "--store", str(path), "--embedder", "hash", "--poll", "0.02"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines = [json.loads(process.stdout.readline())]
            kb.put_document("d", "b", "two", embed="later")
            lines.append(json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGTERM)
            rest, said = process.communicate(timeout=60)
        assert kb.stats()[0].pending == 0
    assert [each["embedded"] for each in lines] == [1, 1]
    assert process.returncode == 0
    assert json.loads(rest)["documents"] == 2
    assert said == "waiting for work; Ctrl-C ends it\nstopped\n"
