"""The local search index: segments replayed from the truth, exact BM25, vectors.

Built like a log-structured merge tree (O'Neil et al., 1996). A *segment* is an immutable set of
units of one field of one dataset: postings, lengths, int8 vectors, memory-mapped from a file or in
memory. What changed in the truth since the files were written is the *delta*: a few small segments
in memory. A search takes a snapshot, a tuple of segments each with its dead units, and needs no
lock; a change swaps in a new one. Nothing here is the truth: the folder can be deleted at any time.
"""

from triptych.runtime.lazy import lazy_exports

__all__, __getattr__, __dir__ = lazy_exports(__name__, __file__)
