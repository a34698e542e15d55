"""Without keys only this machine is served."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any

from triptych.errors import ValidationError

__all__ = ["check_loopback", "resolved"]


def check_loopback(host: str) -> None:
    """Refuse to serve others than this machine; for servers without keys.

    Raises:
        ValidationError: other machines reach ``host``, or there is no such address.
    """
    addresses = {each[4][0] for each in resolved(host, 0)}
    if not all(ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in addresses):
        raise ValidationError(
            f"without keys only this machine is served, and {host} is reached from others: add "
            "a key with `triptych keys add`, or use --host 127.0.0.1"
        )


def resolved(host: str, port: int) -> list[Any]:
    """What ``socket.getaddrinfo`` says of a host to listen at.

    Raises:
        ValidationError: there is no such address.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValidationError(f"there is no address {host!r}: {error.strerror}") from None
