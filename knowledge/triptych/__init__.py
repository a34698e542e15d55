"""Triptych: a layered knowledge base that a Python program embeds.

Start with `open`, which returns a `KnowledgeBase`. The stub ``__init__.pyi`` lists the public
names, each with the module that defines it. A name is imported when it is first used, so that
``import triptych`` costs next to nothing.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)

__version__ = "0.1.0"
