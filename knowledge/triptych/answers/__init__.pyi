"""The names of `triptych.answers`, each with the module that defines it."""

from triptych._internal.thoughts import json_text as json_text
from triptych.answers.options import (
    ASK_DEFAULTS as ASK_DEFAULTS,
    CONTEXT_DEFAULTS as CONTEXT_DEFAULTS,
    FORM_DEFAULTS as FORM_DEFAULTS,
    AnswerPrompt as AnswerPrompt,
    AskOptions as AskOptions,
    ContextOptions as ContextOptions,
    PrefixOptions as PrefixOptions,
    ProofPolicy as ProofPolicy,
)
from triptych.answers.pack import (
    ContextPack as ContextPack,
    ContextReceipt as ContextReceipt,
    Fate as Fate,
    ReceiptPiece as ReceiptPiece,
    ReceiptQuery as ReceiptQuery,
)
from triptych.answers.pieces import (
    FORMATS as FORMATS,
    Citation as Citation,
    Piece as Piece,
    Verification as Verification,
    new_mark as new_mark,
    render_piece as render_piece,
)
from triptych.answers.prefix import ContextPrefix as ContextPrefix
from triptych.answers.proof import prove as prove
from triptych.answers.records import (
    Abstention as Abstention,
    Answer as Answer,
    AnswerReceipt as AnswerReceipt,
    AnswerSentence as AnswerSentence,
    AnswerStream as AnswerStream,
    CitedSource as CitedSource,
    Claim as Claim,
    ClaimKind as ClaimKind,
    ClaimPlace as ClaimPlace,
    ClaimStatus as ClaimStatus,
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
    estimate_tokens as estimate_tokens,
    high_token_estimate as high_token_estimate,
)
