"""How the providers are reached: keys, addresses and proxies, given or from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from triptych.errors import ValidationError
from triptych.redaction import shown_url

if TYPE_CHECKING:
    from triptych_backends.providers.connection import Connection

__all__ = ["Access", "access_arguments", "named_model"]

# For each provider, the variables of its key and of its address: its own tools' names.
_VARIABLES: Mapping[str, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "ollama": ("OLLAMA_API_KEY", "OLLAMA_HOST"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "voyage": ("VOYAGE_API_KEY", "VOYAGE_BASE_URL"),
}
_OLLAMA_PORT = 11434
_AT_A_TIME = 4


def _url_repr(url: str | None) -> str:
    return repr(None if url is None else shown_url(url))


@attrs.frozen(kw_only=True, slots=True)
class Access:
    """A provider's key and address; None for what the environment or the provider says."""

    api_key: str | None = attrs.field(default=None, repr=False)
    base_url: str | None = attrs.field(default=None, repr=_url_repr)


def named_model(name: str) -> tuple[str, str] | None:
    """The provider and the model in "provider:model"; None when ``name`` has no colon.

    Raises:
        ValidationError: there is nothing behind the colon.
    """
    provider, colon, model = name.partition(":")
    if not colon:
        return None
    if not model.strip():
        raise ValidationError(
            f"{name!r} names no model: write it behind the colon, such as {provider}:name"
        )
    return provider, model


def access_arguments(
    provider: str,
    given: Access | None,
    environ: Mapping[str, str] | None = None,
    *,
    concurrency: int | None = None,
) -> dict[str, Any]:
    """The arguments of a provider's class: api_key, base_url (left out for the provider's own
    address) and a connection, which everything in this process that asks the same address with
    the same ``concurrency`` shares, and with it that limit of requests under way (None: 4).

    What is ``given`` comes first, then the environment (``environ``, None for the process's).
    """
    environ = os.environ if environ is None else environ
    key_name, url_name = _VARIABLES[provider]
    given = given or Access()
    base_url = given.base_url or environ.get(url_name, "").strip() or None
    if base_url is not None and provider == "ollama":
        base_url = _ollama_url(base_url)
    proxy = _proxy(base_url or _own_url(provider), environ)
    at_a_time = _AT_A_TIME if concurrency is None else concurrency
    arguments: dict[str, Any] = {
        "api_key": given.api_key or environ.get(key_name, "").strip() or None,
        "connection": _connection(provider, base_url, proxy, at_a_time),
    }
    if base_url is not None:
        arguments["base_url"] = base_url
    return arguments


@lru_cache(maxsize=64)
def _connection(
    provider: str, base_url: str | None, proxy: str | None, concurrency: int
) -> Connection:
    from triptych_backends.providers import Connection

    return Connection(proxy=proxy, concurrency=concurrency)


def _ollama_url(host: str) -> str:
    """``OLLAMA_HOST`` as a URL: it may lack scheme and port, and name where the server listens."""
    url = host if "://" in host else f"http://{host}"
    # "Every address" is one to listen on, not one to call.
    url = re.sub(r"^(https?://)(0\.0\.0\.0|\[::\]|(?=:\d))", r"\g<1>127.0.0.1", url)
    try:
        parts = urlsplit(url)
        bare = parts.port is None and parts.scheme == "http" and not parts.path.strip("/")
    except ValueError:
        return url  # the client says what is wrong with it
    return f"{url.rstrip('/')}:{_OLLAMA_PORT}" if bare and "://" not in host else url


def _own_url(provider: str) -> str:
    from triptych_backends.providers import anthropic, ollama, openai, voyage

    return {
        "anthropic": anthropic.ANTHROPIC_URL,
        "ollama": ollama.OLLAMA_URL,
        "openai": openai.OPENAI_URL,
        "voyage": voyage.VOYAGE_URL,
    }[provider]


def _proxy(base_url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` ask for.

    Nothing on this machine is asked through one.
    """

    def value(name: str) -> str:
        return (environ.get(name.lower(), "") or environ.get(name, "")).strip()

    try:
        parts = urlsplit(base_url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None  # the client says what is wrong with the address
    direct = [name.strip().lower().lstrip(".") for name in value("NO_PROXY").split(",")]
    if host in ("localhost", "127.0.0.1", "::1") or "*" in direct:
        return None
    if any(name and (host == name or host.endswith(f".{name}")) for name in direct):
        return None
    return value(f"{parts.scheme.upper()}_PROXY") or value("ALL_PROXY") or None
