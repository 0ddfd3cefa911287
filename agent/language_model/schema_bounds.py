"""The bounds in a schema, and a schema without them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.measurement.evidence import Json

BOUNDS = frozenset(
    {
        *("minLength", "maxLength", "minimum", "maximum"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
"""Keywords of a schema that some servers refuse. They hold an answer to what is read of it: without them a
small model fills its tokens with one text or one list."""


def without_bounds(found: Mapping[str, Json]) -> dict[str, Json]:
    """The same schema without the bounds, for servers that don't know them."""
    return {name: _without_bounds(each) for name, each in found.items() if name not in BOUNDS}


def _without_bounds(found: Json) -> Json:
    if isinstance(found, Mapping):
        return without_bounds(found)
    return [_without_bounds(each) for each in found] if isinstance(found, list) else found
