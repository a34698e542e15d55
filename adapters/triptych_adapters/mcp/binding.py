"""Where a server may listen."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from triptych.errors import ValidationError

__all__ = ["check_binding"]


def _is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def check_binding(host: str, hosts: Sequence[str], *, keys: bool) -> None:
    """Refuse to serve others than this machine without keys, or under names nobody gave.

    Raises:
        ValidationError: it is not safe to bind there.
    """
    if _is_loopback(host):
        return
    if not keys:
        raise ValidationError(
            f"without keys the server binds to 127.0.0.1 only, not to {host}: "
            "add keys, or leave --host out"
        )
    try:
        anywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        anywhere = False
    if anywhere and not hosts:
        raise ValidationError(
            f"{host} is every address of this machine: name those that clients use with "
            "--allow-host"
        )
