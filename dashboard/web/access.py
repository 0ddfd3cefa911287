"""Who may use the dashboard, by the address that it is served on."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass


@dataclass(frozen=True)
class Access:
    """Who may ask: `token` None is anybody on this machine, by a loopback name."""

    token: str | None = None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
