"""The URL of a store that is searched in Qdrant."""

from __future__ import annotations

import math
import re
from typing import TypeVar
from urllib.parse import SplitResult, unquote

import attrs
from qdrant_client import QdrantClient

from triptych.errors import ValidationError
from triptych.resources import shown_url, split_url, url_options

T = TypeVar("T", int, None)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OPTIONS = (
    "truth",
    "api_key",
    "tls",
    "grpc",
    "grpc_port",
    "timeout",
    "exact",
    "fallback",
    "shard_number",
    "replication_factor",
)

_OF_A_STORE = ("truth", "exact", "fallback", "shard_number", "replication_factor")


@attrs.frozen(kw_only=True)
class QdrantLocation:
    """The parsed URL of a store that is searched in Qdrant.

    Attributes:
        truth: the URL of the primary store, which keeps everything.
        where: the address of Qdrant for messages, without a key.
        prefix: the prefix of the collections' names.
        tls: whether the connection is encrypted.
        grpc: whether to use gRPC, at ``grpc_port``.
        host: the host name or address, an IPv6 address in brackets.
        timeout: the timeout of one request in seconds, rounded up to whole seconds.
        exact: whether to compare vectors exhaustively instead of using Qdrant's index.
        falls_back: whether to search in the primary store while Qdrant is unavailable.
        shard_number: the number of shards of new collections, on a cluster; None uses the server's
            default, here and below.
        replication_factor: the number of replicas of each shard.
    """

    truth: str = attrs.field(repr=shown_url)
    where: str
    prefix: str
    host: str
    port: int
    api_key: str | None = attrs.field(repr=False)
    tls: bool
    grpc: bool
    grpc_port: int
    timeout: float
    exact: bool
    falls_back: bool
    shard_number: int | None
    replication_factor: int | None

    def connect(self) -> QdrantClient:
        """Make a client. No request is sent yet."""
        return QdrantClient(
            host=self.host,
            port=self.port,
            grpc_port=self.grpc_port,
            prefer_grpc=self.grpc,
            https=self.tls,
            api_key=self.api_key,
            timeout=math.ceil(self.timeout),
            check_compatibility=False,
        )


def parse_url(url: str, *, alone: bool = False) -> QdrantLocation:
    """Parse ``url``: ``qdrant://host:6333/name?truth=…``; the path is the prefix of the
    collections.

    ``truth`` is the URL or path of a store in SQLite or PostgreSQL. The other options are
    ``api_key``, ``tls`` (false), ``grpc`` (false), ``grpc_port`` (6334), ``timeout`` (10 seconds),
    ``exact`` (false), ``fallback`` (``none`` or ``local``), and for a cluster ``shard_number`` and
    ``replication_factor`` (the server's). Values are percent-encoded; a plus sign is literal.

    With ``alone`` the URL is of a server whose existing collections are searched, without ``truth``
    and path.

    Raises:
        ValidationError: the URL is invalid; the message contains no key.
    """
    shown = shown_url(url)
    parts = split_url(url)
    host, port = _host_and_port(parts, shown)
    options = dict(url_options(url))
    known = [each for each in _OPTIONS if not alone or each not in _OF_A_STORE]
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise ValidationError(
            f"{shown!r} has an option {unknown[0]!r}: the options are " + ", ".join(known)
        )
    if alone and parts.path.strip("/"):
        raise ValidationError(
            f"{shown!r} has a path: name the collection as table, and the server by "
            "qdrant://host:6333"
        )
    if not alone and not options.get("truth"):
        raise ValidationError(
            f"{shown!r} names no store that keeps the documents: add truth=, such as "
            "qdrant://localhost:6333?truth=kb.db; Qdrant has only the search data"
        )
    prefix = unquote(parts.path.strip("/")) or "triptych"
    if not _NAME.fullmatch(prefix):
        raise ValidationError(
            f"{prefix!r} cannot name collections: give up to 64 letters, digits, _ and -"
        )
    fallback = options.get("fallback", "none")
    if fallback not in ("none", "local"):
        raise ValidationError(f"fallback is none or local, not {fallback!r}")
    grpc, grpc_port = _flag(options, "grpc"), _whole(options, "grpc_port", 6334)
    return QdrantLocation(
        truth=options.get("truth", ""),
        where=f"{host}:{grpc_port if grpc else port}",
        prefix=prefix,
        host=host,
        port=port,
        api_key=_api_key(options, shown),
        tls=_flag(options, "tls"),
        grpc=grpc,
        grpc_port=grpc_port,
        timeout=_number(options, "timeout", 10, most=86_400),
        exact=_flag(options, "exact"),
        falls_back=fallback == "local",
        shard_number=_whole(options, "shard_number", None),
        replication_factor=_whole(options, "replication_factor", None),
    )


def _host_and_port(parts: SplitResult, shown: str) -> tuple[str, int]:
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = parts.hostname, 0
    if port == 0:
        raise ValidationError(f"{shown!r} has no port that is a number from 1 to 65535")
    if parts.scheme.lower() != "qdrant" or not host:
        raise ValidationError(f"{shown!r} names no host: write qdrant://localhost:6333?truth=kb.db")
    if "@" in parts.netloc:
        raise ValidationError(
            f"{shown!r} carries a user or a password: give the key as its option api_key"
        )
    # An IPv6 address as a URL writes it.
    return f"[{host}]" if ":" in host else host, port or 6333


def _api_key(options: dict[str, str], shown: str) -> str | None:
    key = options.get("api_key") or None
    if key and not (key.isascii() and key.isprintable() and key == key.strip()):
        raise ValidationError(
            f"the api_key of {shown!r} has a character that a key cannot have: give letters, "
            "digits and signs of ASCII, without spaces at the ends or line breaks"
        )
    return key


def _flag(options: dict[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false", "1", "0"):
        raise ValidationError(f"{name} is true or false, not {value!r}")
    return value in ("true", "1")


def _whole(options: dict[str, str], name: str, default: T) -> int | T:
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"0*[1-9][0-9]{0,4}", text, re.ASCII) or int(text) > 65535:
        raise ValidationError(f"{name} must be a whole number from 1 to 65535, not {text!r}")
    return int(text)


def _number(options: dict[str, str], name: str, default: float, *, most: float) -> float:
    text = options.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise ValidationError(f"{name} must be a number above 0, up to {most:g}, not {text!r}")
    return value
