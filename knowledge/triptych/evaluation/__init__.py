"""Evaluation: how well a knowledge base finds, and how far the numbers can be trusted.

`evaluate` asks a Service the questions of a `Collection` (`read_beir`, `read_golden`) and scores
what it finds; `compare` sets two evaluations side by side. The parts are pure functions, for use
on rankings from anywhere: metrics, intervals, tests.
"""

from triptych._internal.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
