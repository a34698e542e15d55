"""The turns before a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from triptych.answers.citations import without_citations
from triptych.errors import ValidationError
from triptych.records import Message, check_text

CONVERSATION_TOKENS: Final = 1500
"""The most tokens of earlier turns that are sent with a question."""


def check_turns(conversation: Any) -> tuple[Message, ...]:
    """The turns of user and assistant.

    Raises:
        ValidationError: it is no list of messages, or a message of the system is in it.
    """
    if isinstance(conversation, str | Message) or not isinstance(conversation, Iterable):
        raise ValidationError(
            "conversation takes messages, such as Answer.conversation has them, not "
            f"{conversation!r:.60}"
        )
    turns = tuple(conversation)
    for turn in turns:
        if not isinstance(turn, Message):
            raise ValidationError(f"conversation takes triptych.Message, not {turn!r:.60}")
        if turn.role not in ("user", "assistant"):
            raise ValidationError(
                f"a conversation is of user and assistant, not of {turn.role!r:.60}: say what the "
                "model shall do with prompt=AnswerPrompt(instructions=…)"
            )
        check_text(turn.content, "a message of the conversation")
    return turns


def newest_turns(
    turns: Sequence[Message], count: Callable[[str], int], most: int = CONVERSATION_TOKENS
) -> tuple[tuple[Message, ...], int]:
    """The last turns that fit into ``most`` tokens, as they are sent, and how many are left out.

    Those of the assistant lose their citations, which name sources of earlier contexts.
    """
    taken: list[Message] = []
    room = most
    for turn in reversed(turns):
        content = without_citations(turn.content) if turn.role == "assistant" else turn.content
        room -= count(content)
        if room < 0:
            break
        if content.strip():
            taken.append(Message(turn.role, content))
    kept = tuple(reversed(taken))
    blank = sum(not turn.content.strip() for turn in turns)
    return kept, max(len(turns) - len(kept) - blank, 0)
