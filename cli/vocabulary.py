"""Words of a closed vocabulary as options take them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

Word = TypeVar("Word", bound=StrEnum)


def members(vocabulary: type[Word], given: Iterable[str], option: str) -> tuple[Word, ...]:
    """Return the members that the given words name.

    Raises `UsageError` for any other word, naming the nearest.
    """
    from configs.errors import UsageError
    from configs.validation import nearest

    found = []
    for word in given:
        try:
            found.append(vocabulary(word.strip().lower()))
        except ValueError:
            known = [member.value for member in vocabulary]
            raise UsageError(
                f"{option} cannot be {word!r}.", nearest(word.lower(), known, otherwise="It can be")
            ) from None
    return tuple(found)
