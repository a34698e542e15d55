"""Text analysis: the analyzer of all backends, and helpers that use it."""

from triptych.text.analyzer import ANALYZER_VERSION, AUTO, Analyzer, get_analyzer, languages
from triptych.text.labels import BESIDE, LABELLED_K1, TEXT_WEIGHT, headings_in, label_of, titles_of
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
    "AUTO",
    "BESIDE",
    "LABELLED_K1",
    "TEXT_WEIGHT",
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
    "headings_in",
    "label_of",
    "languages",
    "matches",
    "score_text",
    "snippet",
    "titles_of",
]
