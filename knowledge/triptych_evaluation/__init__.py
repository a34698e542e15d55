"""Evaluation of search and answer quality, with confidence intervals and significance tests.

`evaluate` runs the questions of a `Collection` (`read_beir`, `read_golden`) on a Service and scores
the results; `compare` compares two evaluations. Metrics, intervals and tests are pure functions,
which also work on rankings of other systems.
"""

from triptych.runtime import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
