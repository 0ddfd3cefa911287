"""Field types that take quantities as users write them and as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator

from configs.errors import UsageError
from configs.quantities import parse_bytes, parse_duration_s, parse_percent


def _as_written(parse: Callable[[str], float]) -> Callable[[object], object]:
    def read(value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("a quantity is wanted, not a switch")
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except UsageError as error:
            raise ValueError(str(error)) from None

    return read


Fraction = Annotated[float, BeforeValidator(_as_written(parse_percent))]
"""A fraction: `3%` as text, or the number 0.03."""

Bytes = Annotated[int, BeforeValidator(_as_written(parse_bytes))]
"""A size of memory: `8GB` as text, or a number of bytes."""

Seconds = Annotated[float, BeforeValidator(_as_written(parse_duration_s))]
"""A duration: `8m` as text, or a number of seconds."""
