"""How the providers are reached: keys, addresses and proxies, given or from the environment.

A key of the user's is sent only where the user wants it to go: see `access_arguments`.
"""

from __future__ import annotations

import importlib
import ipaddress
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import attrs

from triptych.errors import ValidationError
from triptych.resources.urls import shown_url

if TYPE_CHECKING:
    from triptych_providers.connection import Connection

TRUSTED_HOSTS = "TRIPTYCH_TRUSTED_HOSTS"
"""The variable in which users name hosts, with or without a port, that may get their keys."""

Origin = Literal["argument", "environment", "file"]
"""Where a value comes from; a "file" is a ``triptych.toml``, which anybody may have written."""

# For each provider, the variables of its key and of its address: its own tools' names.
_VARIABLES: Mapping[str, tuple[str, str]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
    "cohere": ("CO_API_KEY", "CO_API_URL"),
    "jina": ("JINA_API_KEY", "JINA_BASE_URL"),
    "llamacpp": ("LLAMA_API_KEY", "LLAMA_BASE_URL"),
    "ollama": ("OLLAMA_API_KEY", "OLLAMA_HOST"),
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "tei": ("TEI_API_KEY", "TEI_BASE_URL"),
    "voyage": ("VOYAGE_API_KEY", "VOYAGE_BASE_URL"),
}
# What these names may mean is a server that wants no key.
_KEYLESS = frozenset({"llamacpp", "ollama", "openai", "tei"})
_PORTS = {"http": 80, "https": 443}
_OLLAMA_PORT = 11434
_AT_A_TIME = 4


def url_repr(url: str | None) -> str:
    """An address as `repr` shows it, without what is secret in it."""
    return repr(None if url is None else shown_url(url))


@attrs.frozen(kw_only=True, slots=True)
class ProviderAccess:
    """A provider's key and address; None for what the environment or the provider says.

    Attributes:
        api_key_origin, base_url_origin: where each comes from.
        base_url_source: how a message names the origin of the address, such as the file's path.
    """

    api_key: str | None = attrs.field(default=None, repr=False)
    base_url: str | None = attrs.field(default=None, repr=url_repr)
    api_key_origin: Origin = "argument"
    base_url_origin: Origin = "argument"
    base_url_source: str = "the argument base_url"


def load(place: str) -> Any:
    """The object at ``module:name``, imported when it is needed."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def named_model(name: str) -> tuple[str, str] | None:
    """The provider and the model in "provider:model"; None when ``name`` has no colon.

    Raises:
        ValidationError: there is nothing after the colon.
    """
    provider, colon, model = name.partition(":")
    if not colon:
        return None
    if not model.strip():
        raise ValidationError(
            f"{name!r} names no model: write it after the colon, such as {provider}:name"
        )
    return provider, model


def access_arguments(
    provider: str,
    given: ProviderAccess | None,
    environ: Mapping[str, str] | None = None,
    *,
    concurrency: int | None = None,
) -> dict[str, Any]:
    """The arguments of a provider's class: api_key, base_url (left out for the provider's own
    address) and a connection, which everything in this process that asks the same address with
    the same ``concurrency`` shares, and with it that limit of requests under way (None: 4).

    What is ``given`` comes first, then the environment (``environ``, None for the process's).

    A key goes to the provider's own address, to an address of the same origin, and to a host
    that ``TRIPTYCH_TRUSTED_HOSTS`` names. To an address in the environment goes a key given as
    an argument, too: both are the user's. To this machine, any other key is left out where the
    provider works without one.

    Raises:
        ValidationError: the key may not go to the address. The message says what to do.
    """
    environ = os.environ if environ is None else environ
    key_name, url_name = _VARIABLES[provider]
    given = given or ProviderAccess()
    base_url = given.base_url or environ.get(url_name, "").strip() or None
    if base_url is not None and provider == "ollama":
        base_url = _ollama_url(base_url)
    api_key = given.api_key or environ.get(key_name, "").strip() or None
    if api_key and given.base_url and base_url and not _may_go(provider, given, base_url, environ):
        host = _host(base_url)
        if provider not in _KEYLESS or not _is_loopback(host[0]):
            raise _withheld(given, base_url, host[0], key_name)
        api_key = None
    proxy = _proxy(base_url or _own_url(provider), environ)
    at_a_time = _AT_A_TIME if concurrency is None else concurrency
    arguments: dict[str, Any] = {
        "api_key": api_key,
        "connection": _connection(provider, base_url, proxy, at_a_time, ca_file(environ)),
    }
    if base_url is not None:
        arguments["base_url"] = base_url
    return arguments


def _may_go(
    provider: str, given: ProviderAccess, base_url: str, environ: Mapping[str, str]
) -> bool:
    """Whether the key in force may be sent to ``base_url``, which was given."""
    origin = given.api_key_origin if given.api_key else "environment"
    user = ("argument", "environment")
    if origin in ("file", given.base_url_origin):  # a file's key is none of the user's
        return True
    if origin == "argument" and given.base_url_origin in user:
        return True
    if _origin_of(base_url) == _origin_of(_own_url(provider)):
        return True
    return is_trusted(base_url, environ)


def is_trusted(base_url: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the host of this address with keys."""
    host, port = _host(base_url)
    named = {name.strip().lower() for name in environ.get(TRUSTED_HOSTS, "").split(",")}
    shown = f"[{host}]" if ":" in host else host
    return bool(host) and not named.isdisjoint({host, shown, f"{shown}:{port}"})


def _withheld(given: ProviderAccess, base_url: str, host: str, key_name: str) -> ValidationError:
    key = "the key that was given" if given.api_key else f"the key in {key_name}"
    if given.api_key and given.api_key_origin == "environment":
        key = "the key in TRIPTYCH_LLM_API_KEY"
    beside = "llm_api_key in that file" if given.base_url_origin == "file" else "api_key"
    refused = (
        f"{key} is not sent to {shown_url(base_url)[:200]!r}, which {given.base_url_source} names"
    )
    if not host:
        return ValidationError(
            f"{refused}: its host is not certain, so {TRUSTED_HOSTS} cannot name it. "
            "Write the address as https://host:port/path, without a user or password before an @, "
            "backslashes, blanks and letters beyond ASCII (xn-- instead); if the address has a key "
            f"of its own, give that as {beside}"
        )
    return ValidationError(
        f"{refused}: if you trust that address with it, set {TRUSTED_HOSTS}={host}, or set the "
        "address where the key is set; if the address has a key of its own, give that as "
        f"{beside}"
    )


def _origin_of(url: str) -> tuple[str, str, int | None]:
    host, port = _host(url)
    return urlsplit(url).scheme.lower() if host else url, host, port


def _host(url: str) -> tuple[str, int | None]:
    """The host, in lower case, and the port; "" for an address that is none, or has a user."""
    # Readers of URLs differ over these: what one takes for the host may not be asked.
    if not all("!" <= char <= "~" for char in url) or "\\" in url or "@" in url:
        return "", None
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme.lower())
        return (parts.hostname or "").lower().rstrip("."), port
    except ValueError:
        return "", None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=64)
def _connection(
    provider: str, base_url: str | None, proxy: str | None, concurrency: int, ca_file: str | None
) -> Connection:
    from triptych_providers import Connection

    return Connection(proxy=proxy, concurrency=concurrency, ca_file=ca_file)


def ca_file(environ: Mapping[str, str]) -> str | None:
    """The file or folder of certificate authorities that the environment names."""
    names = ("TRIPTYCH_CA_FILE", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return next((value for name in names if (value := environ.get(name, "").strip())), None)


def with_ca_file(path: str | None) -> dict[str, str]:
    """The environment, in which the setting ``ca_file`` stands for its variable."""
    return {**os.environ, **({"TRIPTYCH_CA_FILE": path} if path else {})}


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
    from triptych_providers import anthropic, ollama, openai, rerankers, voyage

    return {
        "anthropic": anthropic.ANTHROPIC_URL,
        "cohere": rerankers.COHERE_URL,
        "jina": rerankers.JINA_URL,
        "llamacpp": rerankers.LLAMA_CPP_URL,
        "ollama": ollama.OLLAMA_URL,
        "openai": openai.OPENAI_URL,
        "tei": rerankers.TEI_URL,
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
        host = _plain_host(parts.hostname or "")
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return None  # the client says what is wrong with the address
    if host in ("localhost", "127.0.0.1", "::1"):
        return None
    names = value("NO_PROXY").replace(",", " ").split()
    if any(_is_direct(host, port, name.lower()) for name in names):
        return None
    return value(f"{parts.scheme.upper()}_PROXY") or value("ALL_PROXY") or None


def _plain_host(name: str) -> str:
    """A host's name in ASCII and lower case, without the dot that may end it."""
    name = name.lower().rstrip(".")
    with suppress(UnicodeError):  # one that is no name stays as it is
        return name.encode("idna").decode("ascii")
    return name


_DIRECT = re.compile(r"\[(?P<v6>[^\]]+)\](?::(?P<v6_port>\d+))?|(?P<name>[^:]+)(?::(?P<port>\d+))?")


def _is_direct(host: str, port: int | None, name: str) -> bool:
    """Whether ``name`` of NO_PROXY means this host: a name with those below it, an address, a
    network, or "*"; a name may have a port, and begin with a dot or "*."."""
    found = _DIRECT.fullmatch(name)  # an address of version 6 without brackets has no port
    name = name if found is None else found["v6"] or found["name"]
    wanted = None if found is None else found["v6_port"] or found["port"]
    if not name or (wanted and int(wanted) != port):
        return False
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    name = _plain_host(name.removeprefix("*").lstrip("."))
    return not name or host == name or host.endswith(f".{name}")
