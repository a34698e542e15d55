"""How much a server takes, and where it listens: without keys only this machine is served."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Final

import attrs

from triptych.errors import ValidationError
from triptych.records import number, whole

_POSITIVE: Final = number(above=True)
_WHOLE: Final = whole(least=1)


@attrs.frozen(kw_only=True)
class Limits:
    """How much one request, and all of them together, may take.

    Attributes:
        body: bytes of a request's body.
        body_seconds: from the head of a request to the end of its body.
        header_bytes: of a request's head.
        header_seconds: from a connection's beginning to the end of the first head.
        connections: of one process. Of more, the one is cut that was idle for longest. There are
            fewer where the system lets a process open few files.
        read_seconds: in which a client must read 16 KiB of an answer that waits to be sent.
        depth: how deep objects and lists of a body are nested.
        seconds: for one operation; ``Prefer: wait=5`` asks for less.
        threads: operations at a time in one process; those that put many documents, ask a language
            model or rebuild have as many of their own, and streams of answers as many again, each
            until it ends. More are hardly faster, as threads share one interpreter: take more
            processes.
        waiting: requests under way at a time, those whose key is still to be checked included; more
            are answered with 503.
        sessions: of MCP, open at a time in one process; more are answered with 503.
        share: the part of ``threads``, ``waiting`` and ``sessions`` that one key may have, at least
            1 of each; 1.0 is all.
        listed: documents of one page of a list.
        queries: of one ``search_many``.
        hits: of one ``search_many``: its queries times what ``offset`` and ``top_k`` reach.
        idempotency_keys: answers that are kept for a key.
        idempotency_hours: how long.
    """

    body: int = attrs.field(default=1 << 20, validator=_WHOLE)
    body_seconds: float = attrs.field(default=20.0, validator=_POSITIVE)
    header_bytes: int = attrs.field(default=16 << 10, validator=_WHOLE)
    header_seconds: float = attrs.field(default=10.0, validator=_POSITIVE)
    connections: int = attrs.field(default=2000, validator=_WHOLE)
    read_seconds: float = attrs.field(default=20.0, validator=_POSITIVE)
    depth: int = attrs.field(default=64, validator=_WHOLE)
    seconds: float = attrs.field(default=120.0, validator=_POSITIVE)
    threads: int = attrs.field(default=4, validator=_WHOLE)
    waiting: int = attrs.field(default=1000, validator=_WHOLE)
    sessions: int = attrs.field(default=1000, validator=_WHOLE)
    share: float = attrs.field(default=0.5, validator=number(above=True, most=1))
    listed: int = attrs.field(default=1000, validator=_WHOLE)
    queries: int = attrs.field(default=1000, validator=_WHOLE)
    hits: int = attrs.field(default=20_000, validator=_WHOLE)
    idempotency_keys: int = attrs.field(default=1000, validator=_WHOLE)
    idempotency_hours: float = attrs.field(default=24.0, validator=_POSITIVE)

    def share_of(self, most: int) -> int:
        """How many of ``most`` one key may have."""
        return max(1, int(most * self.share))


# Where it listens

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
"""The values of Host, without a port, by which this machine asks itself."""
BACKLOG: Final = 256


def check_loopback(host: str) -> None:
    """Refuse to serve others than this machine; for servers without keys.

    Raises:
        ValidationError: other machines reach ``host``, or there is no such address.
    """
    addresses = {each[4][0] for each in _resolved(host, 0)}
    if not all(ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in addresses):
        raise ValidationError(
            f"without keys only this machine has access, but {host} can be reached from others: "
            "add a key with `triptych admin keys add`, or use --host 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at ``host``; port 0 is any free one.

    Raises:
        ValidationError: the address cannot be had.
    """
    family, *_, address = _resolved(host, port)[0]
    # Where the protocol is named, asyncio sends small answers at once (TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ValidationError(
            f"cannot listen on {host} port {port}: {error.strerror}; give another --port, "
            "0 for any that is free"
        ) from None
    listening.listen(BACKLOG)
    return listening


def _resolved(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValidationError(f"there is no address {host!r}: {error.strerror}") from None
