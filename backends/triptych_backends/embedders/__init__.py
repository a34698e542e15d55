"""The built-in embedders; each loads its model at first use.

`LocalEmbedder` (English, extra ``local``) and `MultilingualEmbedder` (extra
``local-multilingual``) run on this machine's CPU without a network. `HashEmbedder` knows
words only and is for tests.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
