from triptych_backends.embedders.folders import (
    OnnxEmbedder as OnnxEmbedder,
    StaticEmbedder as StaticEmbedder,
)
from triptych_backends.embedders.hashing import HashEmbedder as HashEmbedder
from triptych_backends.embedders.lazy import Lazy as Lazy
from triptych_backends.embedders.local import LocalEmbedder as LocalEmbedder
from triptych_backends.embedders.multilingual import MultilingualEmbedder as MultilingualEmbedder
from triptych_backends.embedders.shared import (
    checked_question as checked_question,
    checked_texts as checked_texts,
)
