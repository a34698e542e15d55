"""Answers from a knowledge base: a question, its context, a model, and citations that are checked.

`Service.ask` and `Service.ask_stream` answer; these are the records they use.
"""

from triptych.answering.options import AskOptions
from triptych.answering.prompt import AnswerPrompt
from triptych.answering.records import (
    Abstention,
    Answer,
    AnswerReceipt,
    AnswerSentence,
    CitedSource,
)
from triptych.answering.replay import MissingPiece, Replay
from triptych.answering.streaming import AnswerStream

__all__ = [
    "Abstention",
    "Answer",
    "AnswerPrompt",
    "AnswerReceipt",
    "AnswerSentence",
    "AnswerStream",
    "AskOptions",
    "CitedSource",
    "MissingPiece",
    "Replay",
]
