"""The embedders that ship with Triptych; each loads its model when it is first used.

`LocalEmbedder` (English, extra ``local``) and `MultilingualEmbedder` (extra
``local-multilingual``) run on this machine's CPU without a network. `HashEmbedder` knows
words only and is for tests.
"""

from triptych_backends.embedders.hashing import HashEmbedder
from triptych_backends.embedders.local import LocalEmbedder
from triptych_backends.embedders.multilingual import MultilingualEmbedder

__all__ = ["HashEmbedder", "LocalEmbedder", "MultilingualEmbedder"]
