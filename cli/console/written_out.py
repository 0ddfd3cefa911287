"""Text of others as it may be sent to a terminal: what would steer one is written out."""

from __future__ import annotations

import re

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What steers a terminal: controls but tabs and ends of lines, and marks of direction."""


def written_out(text: str) -> str:
    r"""Return the text with what steers a terminal as Python escapes it: `\x1b`, `\u202e`."""
    return _STEERING.sub(lambda found: ascii(found.group())[1:-1], text)
