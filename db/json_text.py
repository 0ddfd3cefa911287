"""How JSON is written into the database: readable, in the order given, nothing PostgreSQL would refuse."""

from __future__ import annotations

import json


def encode(value: object) -> str:
    """Return `value` as JSON text; raises `ValueError` for NaN and infinity, which JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
