"""What is worked out of a launch's record is worked out once: a judge looks at all of them often."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from experiments.measurement.evidence import LaunchRecord

Words = ParamSpec("Words")
Found = TypeVar("Found")


def once(
    work: Callable[Concatenate[LaunchRecord, Words], Found],
) -> Callable[Concatenate[LaunchRecord, Words], Found]:
    """Let a pure function of a record and of hashable words keep what it found with the record.

    Nobody may change what it returns.
    """

    name = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def kept(record: LaunchRecord, /, *words: Words.args, **named: Words.kwargs) -> Found:
        key = (name, words, *sorted(named.items())) if named else (name, words)
        found = record.kept
        if key not in found:
            found[key] = work(record, *words, **named)
        return cast(Found, found[key])

    return cast("Callable[Concatenate[LaunchRecord, Words], Found]", kept)
