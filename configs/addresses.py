"""Addresses as an error may repeat them. Pure."""

from __future__ import annotations

import re

HIDDEN = "***"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NO_PORT = re.compile(r"(://(?:\[[^/\]]*\]|[^/:@\[]*)):(?!\d*(?:/|$))[^/]*")
_PARAMETERS = re.compile(r"([?#]).*", re.DOTALL)


def without_secrets(text: str) -> str:
    """The text with `***` for what may be a secret in an address: all before an @, which would be a name and
    a password, what stands where a port should and is none, a query and a fragment.

    It does not ask whether the address is one: a password stands in those that are mistyped too.
    """
    before, at, rest = text.rpartition("@")
    if at:
        scheme = _SCHEME.match(before)
        text = f"{scheme.group() if scheme else ''}{HIDDEN}@{rest}"
    return _NO_PORT.sub(rf"\1:{HIDDEN}", _PARAMETERS.sub(rf"\1{HIDDEN}", text))
