"""The names of `triptych.layers`, each with the module that defines it."""

from triptych.derivation.layer_journal import LayerJournal as LayerJournal
from triptych.layers.builder.builder import LayerBuilder as LayerBuilder
from triptych.layers.builder.records import (
    Cost as Cost,
    LayerFailure as LayerFailure,
    LayerPlan as LayerPlan,
    LayerPrompts as LayerPrompts,
    LayerReport as LayerReport,
    PlannedLayer as PlannedLayer,
)
from triptych.layers.code_syntax import (
    Syntax as Syntax,
    code_patterns as code_patterns,
    syntax_of as syntax_of,
)
from triptych.layers.extractive import ExtractiveSummarizer as ExtractiveSummarizer
from triptych.layers.generation import (
    generate_dataset_context as generate_dataset_context,
    generate_document_context as generate_document_context,
)
from triptych.layers.prompts import (
    ABSTRACT_PROMPT as ABSTRACT_PROMPT,
    DATASET_ABSTRACT_PROMPT as DATASET_ABSTRACT_PROMPT,
    DATASET_OVERVIEW_PROMPT as DATASET_OVERVIEW_PROMPT,
    DEFAULT_PROMPT_INPUT_LIMIT as DEFAULT_PROMPT_INPUT_LIMIT,
    OVERVIEW_PROMPT as OVERVIEW_PROMPT,
)
from triptych.text.tokens import estimate_tokens as estimate_tokens
