"""The names of `triptych.answers`, each with the module that defines it."""

from triptych.answers.options import (
    AnswerPrompt as AnswerPrompt,
    AskOptions as AskOptions,
    ContextOptions as ContextOptions,
    PrefixOptions as PrefixOptions,
)
from triptych.answers.pack import ContextPack as ContextPack
from triptych.answers.pieces import (
    Citation as Citation,
    Piece as Piece,
    Verification as Verification,
)
from triptych.answers.prefix import ContextPrefix as ContextPrefix
from triptych.answers.records import (
    Abstention as Abstention,
    Answer as Answer,
    AnswerReceipt as AnswerReceipt,
    AnswerSentence as AnswerSentence,
    AnswerStream as AnswerStream,
    CitedSource as CitedSource,
)
from triptych.answers.replay import MissingPiece as MissingPiece, Replay as Replay
from triptych.answers.retrieval import ContextParameters as ContextParameters
from triptych.answers.search_results import (
    as_search_results as as_search_results,
    cited_passage as cited_passage,
)
from triptych.text.tokens import (
    ESTIMATE as ESTIMATE,
    TokenCounter as TokenCounter,
    default_counter as default_counter,
)
