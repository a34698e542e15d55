"""The doctor says which dataset's lanes hardly agree, which is no finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import fresh_shell
from support.valves import NOTES, OTHERS
from triptych.access import Access
from triptych.errors import ProviderError
from triptych.question_log import QuestionLog
from triptych_models import HashEmbedder

ALIKE = {f"{at}.md": f"The harbour number{at} lies beside a quay{at}." for at in range(30)}


class Failing(HashEmbedder):
    """Fails where a query is embedded."""

    def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        if kind == "query":
            raise ProviderError("out of order")
        return super().embed(texts, kind=kind)


def test_a_dataset_whose_lanes_hardly_agree_is_named() -> None:
    with triptych.open("memory://", embedder="hash", question_log=True) as kb:
        kb.put_documents("valves", {**NOTES, **OTHERS})
        kb.put_documents("alike", ALIKE)
        kb.put_documents("few", dict(list(NOTES.items())[:4]))
        kb.create_dataset("empty")
        report = kb.doctor()
        (advice,) = report.advice
        assert advice.startswith("dataset 'valves': its keyword and vector lanes agree on ")
        assert "`triptych eval retrieval golden.yaml`" in advice
        assert (report.clean, kb.doctor().advice) == (True, report.advice)
        assert kb.doctor(dataset_id="alike").advice == ()
        assert QuestionLog(kb.capabilities.settings).questions() == []
        hidden = kb.restricted(Access(dataset_ids=["alike"]))
        assert hidden.doctor().advice == ()


def test_without_an_embedder_that_serves_the_dataset_nothing_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    for embedder in ("hash", "none", HashEmbedder(64)):
        with triptych.open(path, embedder=embedder) as kb:
            if embedder == "hash":
                kb.put_documents("valves", {**NOTES, **OTHERS})
            report = kb.doctor()
            assert bool(report.advice) == (embedder == "hash")
            assert not any("lanes agree" in each for each in report.skipped)


def test_an_embedder_that_fails_is_reported_and_ends_nothing() -> None:
    with triptych.open("memory://", embedder=Failing()) as kb:
        kb.put_documents("valves", {**NOTES, **OTHERS})
        report = kb.doctor()
        assert report.clean
        assert report.advice == ()
        assert any("whether its lanes agree: " in each for each in report.skipped)


def test_the_command_says_it_and_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    for name, text in {**NOTES, **OTHERS}.items():
        shell.write(f"docs/{name}", text)
    assert shell("put", "docs", "--quiet").code == 0
    ran = shell("doctor")
    assert ran.code == 0
    assert "its keyword and vector lanes agree on" in ran.err
    assert len(shell("doctor", "--json").json["advice"]) == 1


def test_of_many_datasets_some_are_asked_and_the_others_named() -> None:
    with triptych.open("memory://", embedder="hash") as kb:
        for at in range(21):
            kb.create_dataset(f"{at:02}")
        kb.put_documents("20", {**NOTES, **OTHERS})
        report = kb.doctor()
        (said,) = [each for each in report.skipped if "lanes agree" in each]
        assert said.startswith("1 dataset: ")
        assert said.endswith("'20'")
        assert (report.advice, len(kb.doctor(dataset_id="20").advice)) == ((), 1)
