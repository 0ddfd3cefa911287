"""Words of a closed vocabulary as options take them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

Word = TypeVar("Word", bound=StrEnum)


def members(vocabulary: type[Word], given: Iterable[str], option: str) -> tuple[Word, ...]:
    """Return the members that the given words name.

    Raises `UsageError` for any other word, naming those there are.
    """
    from configs.errors import UsageError

    found = []
    for word in given:
        try:
            found.append(vocabulary(word.strip().lower()))
        except ValueError:
            known = ", ".join(member.value for member in vocabulary)
            raise UsageError(f"{option} cannot be {word!r}.", f"It can be {known}.") from None
    return tuple(found)
