"""Field types that take quantities as users write them and as they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

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


def _seconds(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a time is wanted, such as 90s or 1h30m")
    return _as_written(parse_duration_s)(value)


def _above_none(value: float) -> float:
    if not value > 0:
        raise ValueError("that is no time to spend. Write one such as 90s or 1h30m")
    return value


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A duration: `8m` as text, or a number of seconds."""

SomeSeconds = Annotated[Seconds, AfterValidator(_above_none)]
"""A duration above 0, as `Seconds`."""
