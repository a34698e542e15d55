"""What is said from what was found: context under a budget, answers of a model, and their proof.

`Service.context` packs passages; `Service.ask` and `Service.ask_stream` have a model answer from
them, with citations that are checked. These are the records that they use.
"""

from triptych.answers.options import AnswerPrompt, AskOptions, ContextOptions
from triptych.answers.pack import ContextPack
from triptych.answers.pieces import Citation, Piece, Verification
from triptych.answers.records import (
    Abstention,
    Answer,
    AnswerReceipt,
    AnswerSentence,
    AnswerStream,
    CitedSource,
)
from triptych.answers.replay import MissingPiece, Replay
from triptych.text.tokens import ESTIMATE, TokenCounter, default_counter

__all__ = [
    "ESTIMATE",
    "Abstention",
    "Answer",
    "AnswerPrompt",
    "AnswerReceipt",
    "AnswerSentence",
    "AnswerStream",
    "AskOptions",
    "Citation",
    "CitedSource",
    "ContextOptions",
    "ContextPack",
    "MissingPiece",
    "Piece",
    "Replay",
    "TokenCounter",
    "Verification",
    "default_counter",
]
