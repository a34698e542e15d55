"""Contexts within a token budget, answers of a language model, and verifying them.

`Service.context` packs passages; `Service.ask` and `Service.ask_stream` have a model answer from
them, with citations that are checked. These are the records that they use.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
