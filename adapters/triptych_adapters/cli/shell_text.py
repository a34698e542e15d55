"""The library's advice as the command line has it: options in place of Python's calls."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["shell_text"]

_SPELLINGS: Final = (
    # The longer form first: a later expression would take it apart.
    (r"`Service\.doctor\(repair=True\)`", "`triptych doctor --repair`"),
    (r"(`triptych doctor --repair`), or \1", r"\1"),
    (r"rebuild\(dataset_id=(?:'([^']*)'|…)\)", r"`triptych rebuild --dataset \1`"),
    (r"--dataset `", "--dataset NAME`"),
    (r"open the knowledge base with embedder='([\w-]+)'", r"give --embedder \1"),
    (r"\bmode='(\w+)'", r"--mode \1"),
    (r"\bembedder='([\w-]+)'", r"--embedder \1"),
    (r"open it with read_only=True", "set TRIPTYCH_READ_ONLY=true"),
    (r"open the store with read_only=True", "set TRIPTYCH_READ_ONLY=true"),
    (
        r"open the (?:store|knowledge base) with the (settings|one) (it was|they were) filled with",
        r"give the \1 \2 filled with (--embedder)",
    ),
    (r"give the key as api_key, or a transport that adds it", "set TRIPTYCH_LLM_API_KEY"),
    (r" \(give dimension=\S+ if it is meant\)", ""),
    (r"\boverwrite=True", "--overwrite"),
    (r"allow more \(Timeouts\.\w+\), or ", ""),
    (r", or (?:give )?api_key\b", ", or TRIPTYCH_LLM_API_KEY"),
    (r"\bset base_url \(OLLAMA_HOST\)", "set OLLAMA_HOST"),
)


def shell_text(text: str) -> str:
    """``text`` with what a program would write as a person writes it in a shell."""
    for python, shell in _SPELLINGS:
        text = re.sub(python, shell, text)
    return text
