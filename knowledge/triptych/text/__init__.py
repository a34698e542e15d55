"""Text analysis: the analyzer that all backends share, and small helpers on the same pieces."""

from triptych.text.analyzer import ANALYZER_VERSION, Analyzer, get_analyzer, languages
from triptych.text.snippets import matches, snippet
from triptych.text.term_ids import Numbering
from triptych.text.tokenizers import (
    CJKTokenizer,
    CorpusStats,
    SimpleTokenizer,
    Tokenizer,
    corpus_stats,
    detect_tokenizer,
    extract_keywords,
    score_text,
)
from triptych.text.words import WORD_CHARACTER

__all__ = [
    "ANALYZER_VERSION",
    "WORD_CHARACTER",
    "Analyzer",
    "CJKTokenizer",
    "CorpusStats",
    "Numbering",
    "SimpleTokenizer",
    "Tokenizer",
    "corpus_stats",
    "detect_tokenizer",
    "extract_keywords",
    "get_analyzer",
    "languages",
    "matches",
    "score_text",
    "snippet",
]
