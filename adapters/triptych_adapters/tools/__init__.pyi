"""The names of `triptych_adapters.tools`, each with the module that defines it."""

from triptych_adapters.context_hook import ContextHook as ContextHook, context_hook as context_hook
from triptych_adapters.tools.knowledge import (
    TOOL_NAMES as TOOL_NAMES,
    knowledge_tools as knowledge_tools,
)
from triptych_adapters.tools.paging import (
    Key as Key,
    Position as Position,
    read_position as read_position,
    write_cursor as write_cursor,
)
from triptych_adapters.tools.rendering import DEFAULT_MAX_TOKENS as DEFAULT_MAX_TOKENS, clip as clip
from triptych_adapters.tools.search import context_tool as context_tool
from triptych_adapters.tools.tool import ERROR_TOKENS as ERROR_TOKENS, Tool as Tool
