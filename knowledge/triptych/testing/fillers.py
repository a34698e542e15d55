"""Several fillers of one dataset: each text is asked for once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import numpy as np
import pytest
from numpy.typing import NDArray

from triptych.contracts import Store
from triptych.records import EmbedKind, EmbedReport
from triptych.service import Service, ServiceOptions
from triptych.testing.fakes import FakeEmbedder, kept_open
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import HarnessTests, or_skip

_DOCUMENTS = 150
_SECONDS = 0.002


class SlowEmbedder(FakeEmbedder):
    """A `FakeEmbedder` that takes its time for each text."""

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        vectors = super().embed(texts, kind=kind)
        time.sleep(_SECONDS * len(texts))
        return vectors


class FillerTests(HarnessTests):
    """What fillers beside each other promise, on a store with the capability `SettingsStore`."""

    @guarantee(10)
    @pytest.mark.parametrize("later", [True, False], ids=["embed", "put"])
    def test_two_fillers_ask_for_each_text_once(self, store: Store, later: bool) -> None:
        settings = or_skip(store.capabilities.settings)
        notes = {f"n{number:03}": f"Note {number // 2}." for number in range(_DOCUMENTS)}
        embedder = SlowEmbedder()
        options = ServiceOptions(embedder=embedder)
        with ExitStack() as stack:
            one, other = (
                stack.enter_context(Service(kept_open(store), options=options)) for _ in range(2)
            )
            if later:
                one.put_documents("d", notes, embed="later")
            both = Barrier(2)

            def fill(kb: Service) -> EmbedReport:
                both.wait()
                if not later:
                    kb.put_documents("d", notes)
                return kb.embed_pending("d")

            with ThreadPoolExecutor(2) as pool:
                reports = list(pool.map(fill, (one, other)))
            (stats,) = one.stats("d")
        assert [(report.pending, report.failed) for report in reports] == [(0, ())] * 2
        assert (stats.vectors, stats.pending) == (_DOCUMENTS, 0)
        assert Counter(embedder.texts) == Counter(set(notes.values()))
        assert dict(settings.list_settings()) == {}
