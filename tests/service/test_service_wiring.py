"""What a Service refuses when it is wired."""

from __future__ import annotations

from triptych import RRFRanker, Service, ServiceOptions
from triptych.search import ZScoreRanker
from triptych_backends.memory import MemoryStore


def test_the_ranker_in_use_is_the_options_or_the_one_that_ships() -> None:
    with MemoryStore() as store:
        ranker = RRFRanker(k=1)
        for options, expected in ((ServiceOptions(ranker=ranker), ranker), (None, ZScoreRanker())):
            kb = Service(store, options=options)
            assert kb.ranker == expected
