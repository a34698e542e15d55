"""Tools for language models: values with a name, a JSON Schema and a call that answers JSON."""

from triptych_adapters.context_hook import ContextHook, context_hook
from triptych_adapters.tools.knowledge import TOOL_NAMES, knowledge_tools
from triptych_adapters.tools.rendering import DEFAULT_MAX_TOKENS
from triptych_adapters.tools.search import context_tool
from triptych_adapters.tools.tool import Tool

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "TOOL_NAMES",
    "ContextHook",
    "Tool",
    "context_hook",
    "context_tool",
    "knowledge_tools",
]
