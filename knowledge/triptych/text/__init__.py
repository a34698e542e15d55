"""Text analysis: the analyzer of all backends, and helpers that use it."""

from triptych.text.analyzer import ANALYZER_VERSION, AUTO, Analyzer, get_analyzer, languages
from triptych.text.bm25 import CorpusStats, corpus_stats, score_text
from triptych.text.escapes import decode
from triptych.text.injection import Sign
from triptych.text.labels import BESIDE, LABELLED_K1, TEXT_WEIGHT, headings_in, label_of, titles_of
from triptych.text.sentences import sentence_spans, shingles, split_sentences
from triptych.text.sequence_diff import matching_blocks, unified_diff
from triptych.text.snippets import matches, snippet
from triptych.text.term_ids import Numbering
from triptych.text.tokenizers import (
    CJKTokenizer,
    SimpleTokenizer,
    Tokenizer,
    detect_tokenizer,
    extract_keywords,
)
from triptych.text.unseen import diff_lines, visible
from triptych.text.words import WORD_CHARACTER, normalize, query_terms, split_words

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
    "Sign",
    "SimpleTokenizer",
    "Tokenizer",
    "corpus_stats",
    "decode",
    "detect_tokenizer",
    "diff_lines",
    "extract_keywords",
    "get_analyzer",
    "headings_in",
    "label_of",
    "languages",
    "matches",
    "matching_blocks",
    "normalize",
    "query_terms",
    "score_text",
    "sentence_spans",
    "shingles",
    "snippet",
    "split_sentences",
    "split_words",
    "titles_of",
    "unified_diff",
    "visible",
]
