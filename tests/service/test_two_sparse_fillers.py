"""Two Services that fill one store at once: every sparse vector is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import triptych
from triptych.errors import CancelledError
from triptych.service import Service, ServiceOptions
from triptych_backends.filesystem import FilesStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.fakes import FakeSparseEncoder


class Slow(FakeSparseEncoder):
    """Takes long enough for another to begin."""

    def encode(self, texts: Sequence[str], *, kind: Any) -> Any:
        found = super().encode(texts, kind=kind)
        time.sleep(0.02 * len(texts))
        return found


@pytest.mark.parametrize("kind", [SqliteStore, FilesStore])
def test_each_text_is_encoded_and_by_each_of_them_once(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "kb"
    contents = {f"{number}.md": f"Owl number {number}." for number in range(40)}
    with Service(kind.open(path)) as kb:
        kb.put_documents("d", contents)
    encoders = [Slow(), Slow()]
    errors: list[BaseException] = []

    def fill(encoder: Slow) -> None:
        try:
            options = ServiceOptions(sparse_encoder=encoder, embed_concurrency=2)
            with Service(kind.open(path), options=options) as kb:
                kb.embed_pending("d")
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=fill, args=(encoder,)) for encoder in encoders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert {text for encoder in encoders for text in encoder.texts} == set(contents.values())
    assert all(len(encoder.texts) == len(set(encoder.texts)) for encoder in encoders)
    with Service(kind.open(path), options=ServiceOptions(sparse_encoder=Slow())) as kb:
        assert kb.stats("d")[0].further_pending == 0
        assert len(kb.search("owl", dataset_id="d", mode="sparse", top_k=50).hits) == 40
        assert kb.doctor().findings == ()


def test_what_was_encoded_before_the_deadline_is_kept(tmp_path: Path) -> None:
    options = ServiceOptions(sparse_encoder=Slow(), embed_concurrency=1)
    with Service(SqliteStore.open(tmp_path / "kb.db"), options=options) as kb:
        contents = {f"{number}.md": f"Owl number {number}." for number in range(200)}
        kb.put_documents("d", contents, embed="later")
        with triptych.deadline(1.5), pytest.raises(CancelledError):
            kb.embed_pending("d")
        left = kb.stats("d")[0].further_pending
        assert 0 < left < 200
        done = kb.embed_pending("d")
        assert done.encoded <= left
        assert kb.stats("d")[0].further_pending == 0
        encoder = kb.options.sparse_encoder
        assert isinstance(encoder, Slow)
        assert set(contents.values()) <= set(encoder.texts)


def test_a_bulk_put_that_is_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    encoder = Slow()
    options = ServiceOptions(sparse_encoder=encoder, embed_concurrency=1)
    with Service(SqliteStore.open(tmp_path / "kb.db"), options=options) as kb:
        contents = {f"{number}.md": f"Owl number {number}." for number in range(150)}
        with triptych.deadline(1.5), pytest.raises(CancelledError):
            kb.put_documents("d", contents)
        before = len(encoder.texts)
        assert kb.search("owl", dataset_id="d", mode="bm25", top_k=200).hits
        report = kb.put_documents("d", contents)
        assert report.unchanged == 150
        assert report.encoded == len(encoder.texts) - before
        assert kb.stats("d")[0].further_pending == 0
