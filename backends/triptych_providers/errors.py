"""Mapping a provider's status and body to an error."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import attrs

from triptych.errors import ProviderError, ProviderSetupError, RateLimitedError, UnusableAnswerError
from triptych.resources import without_secrets

_TOO_LONG = re.compile(
    r"context[ _](length|window|size)|maximum input length|too many tokens|too long"
    r"|too large to process|max_tokens_per_request|input length exceeds",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"\b(request|input|batch)\b.{0,20}\btoo large\b", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model\S{0,80}+ .{0,120}?(not found|not exist|does not exist|unknown|not supported)"
    r"|(unknown|invalid|no such) model|model_not_found|not_found_error",
    re.IGNORECASE | re.DOTALL,
)
_OF_LENGTH = re.compile(
    r"\b(length|long(er)?|large(r)?|size|tokens?|characters|limit\w*|exceed\w*|max(imum)?"
    r"|at most)\b",
    re.IGNORECASE,
)
"""What a refusal of one text may say of its length, where `_TOO_LONG` does not know its words."""
_OF_BATCH = re.compile(r"\bbatch|\binputs\b|too many|at most|larger than|exceed", re.IGNORECASE)
_KEY_LIKE = re.compile(r"(?=[^\s\"']{0,64}[0-9*])[^\s\"']{8,}")
_SPENT = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
NO_SUCH_PATH = re.compile(
    r"unexpected endpoint|(unknown|no such|invalid) (endpoint|path|url|route)|cannot (get|post) /",
    re.IGNORECASE,
)
"""What servers say of an address without their version, some of them with status 200."""
_FILTERED = re.compile(r"content_filter|content_policy_violation|ResponsibleAIPolicyViolation")
_AGAIN = frozenset({408, 409, 425, 500, 502, 503, 504})
_LIMITED = frozenset({429, 529})  # 529: Anthropic's "overloaded"
_MOST_SHOWN = 300
_MOST_KEPT = 2000
_MOST_REDACTED = 1 << 14
_LONGEST_WORD = 1000
_DEEPEST = 8  # levels of a refusal's JSON at which a message is looked for


class RefusedInputError(ProviderError):
    """The provider refused a request for what it holds. ``detail``: what it said.

    ``is_too_long``: whether it speaks of a length, which a shorter text may be within.
    """

    def __init__(self, message: str, *, detail: str = "", is_too_long: bool = True) -> None:
        super().__init__(message)
        self.detail = detail
        self.is_too_long = is_too_long

    def of_text(self, length: int) -> RefusedInputError:
        """This error, of a text of so many characters that was sent without others."""
        message = f"{self} (for a text of {length} characters)"
        return type(self)(message, detail=self.detail, is_too_long=self.is_too_long)


class InputTooLongError(RefusedInputError):
    """The input is longer than the model, or one request, takes."""


class RefusedRequestError(RefusedInputError):
    """Any other refusal of what a request holds (400 or 422); ``detail`` is the body."""


class Retryable(Exception):  # noqa: N818 - it never leaves this package: it wraps the error
    """An attempt that may be made again; ``error`` is what it was."""

    def __init__(self, error: ProviderError, *, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


@attrs.frozen(kw_only=True, slots=True)
class ProviderErrorRules:
    """What messages call a provider and its model, and what they advise.

    Attributes:
        name: such as "Ollama".
        model: the model that is asked for.
        key_advice, model_advice, start_advice: what to do about a refused key, a missing
            model, a server that does not answer.
    """

    name: str
    model: str
    key_advice: str
    model_advice: str = "check the name, and that your account may use it"
    start_advice: str = "check the network, a proxy, the certificates and base_url"

    @property
    def doing(self) -> str:
        """Names the call in an error."""
        return f"the call of {self.name} (model {self.model!r})"


@attrs.frozen(kw_only=True, slots=True)
class Refusal:
    """An answer that is none: its status, what the body says, how long to wait."""

    status: int
    body: str
    retry_after: float | None = None

    @property
    def detail(self) -> str:
        """The message in the body, in whichever of the known shapes it is; "" without one."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return "" if "<" in self.body[:200] else self.body.strip()
        except RecursionError:
            return ""
        return message_in(found)


def message_in(found: Any, depth: int = 0) -> str:
    """The message in a refusal's JSON, in whichever of the known shapes it is; "" without one."""
    if isinstance(found, str):
        return found
    if depth == _DEEPEST:
        return ""
    if isinstance(found, dict):
        for key in ("error", "detail", "message", "msg", "status_msg"):
            text = message_in(found[key], depth + 1) if found.get(key) else ""
            if text:
                return text
    if isinstance(found, list) and found:  # a list of validation errors
        return message_in(found[0], depth + 1)
    return ""


def error_in(answer: dict[str, Any]) -> Any:
    """The error that an answer with a status of success tells, false where it tells none."""
    base = answer.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):  # MiniMax's
        return base
    holds = any(v and isinstance(v, list | dict) for k, v in answer.items() if k != "detail")
    # vLLM and Mistral put the message at the top, and so do those whose answer has nothing else.
    at_top = answer.get("object") == "error" or (not holds and message_in(answer))
    return answer if at_top else answer.get("error")


def shown(text: str, secrets: Sequence[str], *, most: int = _MOST_SHOWN) -> str:
    """``text`` in one line of at most ``most`` characters, without a secret or a part of one.

    Only the first 16,384 characters of ``text`` are read.
    """
    text = without_secrets(_beginning(text), secrets)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= most else text[:most] + "…"


def _beginning(text: str) -> str:
    """The first `_MOST_REDACTED` characters, less a word that the cut would split.

    A part of a secret that the cut leaves at the end might not be recognised as one.
    """
    if len(text) <= _MOST_REDACTED:
        return text
    text = text[:_MOST_REDACTED]
    word = text[-_LONGEST_WORD:].split()[-1:]
    split = bool(word) and len(word[0]) < _LONGEST_WORD and not text[-1].isspace()
    return text[: -len(word[0])] if split else text


def fault(
    refusal: Refusal, profile: ProviderErrorRules, secrets: Sequence[str]
) -> Retryable | ProviderError:
    """The error that ``refusal`` is; `Retryable` when another attempt may help."""
    status, raw = refusal.status, refusal.detail
    words = shown(raw, secrets)
    if status in (401, 403):
        # A refused key may be echoed in a form where no replacing finds it.
        words = _KEY_LIKE.sub("[…]", words)
    first = f"{profile.name} says: {words} (HTTP {status}): " if words else ""
    who = f"{first}the call of its model {profile.model!r}" if words else profile.doing
    said = "" if words else f" (HTTP {status})"
    if status in (401, 403):
        # A 403 may be meant for this input alone.
        kind = ProviderSetupError if status == 401 else ProviderError
        return kind(
            f"{who} was refused{said}: its key is missing, wrong or not allowed to do this: "
            f"{profile.key_advice}"
        )
    # More than a whole limit at once, which waiting does not help.
    at_once = status == 429 and _TOO_LARGE.search(raw)
    if not at_once and (status in _LIMITED or status == 402):
        return _over_limit(refusal, who, said)
    if status == 400 and _FILTERED.search(refusal.body):
        return UnusableAnswerError(
            f"{who} ended in a refusal of the provider's filter{said}: change the input, or use "
            "another model",
            reason="refusal",
        )
    if at_once or status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(refusal.body)):
        return InputTooLongError(
            f"{who} was refused because its input is too long{said}: send less, or use a model "
            "with a longer context",
            detail=shown(raw, secrets, most=_MOST_KEPT),
        )
    of_model = status == 404 or (status in (400, 422) and not _OF_BATCH.search(raw))
    if of_model and _NO_MODEL.search(refusal.body):
        return ProviderSetupError(
            f"{first}{profile.name} has no model {profile.model!r}{said}: {profile.model_advice}"
        )
    if status in _AGAIN or status >= 500:
        error = ProviderError(f"{who} failed on the provider's side{said}: try again later")
        return Retryable(error, after=refusal.retry_after)
    if status in (404, 405):
        return ProviderSetupError(
            f"{who} went to an address that the server does not know{said}: check base_url, "
            "and whether the server speaks this protocol"
        )
    message = f"{who} was refused{said}: change the request"
    if status in (400, 422):
        return RefusedRequestError(
            message,
            detail=shown(refusal.body, secrets, most=_MOST_KEPT),
            is_too_long=_OF_LENGTH.search(raw) is not None,
        )
    return ProviderError(message)


def _over_limit(refusal: Refusal, who: str, said: str) -> Retryable | RateLimitedError:
    if refusal.status == 402 or _SPENT.search(refusal.body):
        return RateLimitedError(
            f"{who} was refused because the account has no credit left{said}: see its "
            "billing page; trying again does not help",
            retry_after=refusal.retry_after,
        ).hinted("add credit with the provider, or name another model")
    return Retryable(_limited(who, said, refusal.retry_after), after=refusal.retry_after)


def _limited(who: str, said: str, after: float | None) -> RateLimitedError:
    wait = "wait" if after is None else f"wait {after:.0f} seconds"
    return RateLimitedError(
        f"{who} was refused by a rate limit{said}: {wait}, lower the concurrency, or request a "
        "higher limit from the provider",
        retry_after=after,
    )
