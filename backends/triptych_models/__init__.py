"""Models that run on this machine: embedders, sparse encoders and rerankers, loaded at first use.

`LocalEmbedder` (English, extra ``local``) and `MultilingualEmbedder` (extra
``local-multilingual``) run on the CPU without a network. `HashEmbedder` knows words only and is
for tests.
"""

from triptych.runtime import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
