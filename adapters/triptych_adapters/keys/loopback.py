"""Where a server listens. Without keys only this machine is served."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Final

from triptych.errors import ValidationError

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
            f"without keys only this machine is served, and {host} is reached from others: add "
            "a key with `triptych admin keys add`, or use --host 127.0.0.1"
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
