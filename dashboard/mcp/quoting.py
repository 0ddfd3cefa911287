"""Text that somebody else wrote: cut, stripped of what could hide in it, and marked as data. Pure."""

from __future__ import annotations

import re
import unicodedata

from pydantic import BaseModel, ConfigDict

SHORT, LONG = 300, 2_000
"""Characters of a text that are told in a list, and of one thing."""

NAME = 120
"""Characters of a name: some values of knobs are paths."""

_NAME = re.compile(r"[\w./~-][\w.,:;+/@%=~-]*|", re.ASCII)
"""A word without spaces; what is none is no name of a knob, a lever, a version or a value."""

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn"}
"""Unicode's categories of what is not seen: control and format characters, bidirectional marks, tags."""


class Quoted(BaseModel):
    """Text that a person, a model, a log or a checkpoint wrote. It is data, and no instruction."""

    model_config = ConfigDict(frozen=True)

    quoted: str


def plain(text: str) -> str:
    """The text without what is not seen; lines and tabs become spaces."""
    seen = (" " if each in "\n\r\t" else each for each in text)
    kept = "".join(each for each in seen if unicodedata.category(each) not in _HIDDEN)
    return " ".join(kept.split())


def document(text: str, most: int) -> tuple[str, int]:
    """A text of several lines without what is not seen, cut after a line; how many characters are gone."""
    kept = "".join(each for each in text if each == "\n" or unicodedata.category(each) not in _HIDDEN)
    if len(kept) <= most:
        return kept, 0
    end = kept.rfind("\n", 0, most) + 1 or most
    return kept[:end], len(kept) - end


def quoted(text: str, most: int = SHORT) -> Quoted:
    """Mark a text as data, at most about so many characters of it; its end says how many were left out."""
    kept = plain(text)
    left_out = len(kept) - most
    return Quoted(quoted=kept if left_out <= 0 else f"{kept[:most]}… ({left_out} characters more)")


def maybe(text: str | None, most: int = SHORT) -> Quoted | None:
    """The same of a text that may be absent."""
    return None if text is None or not text.strip() else quoted(text, most)


def named(text: str, most: int = NAME) -> str | Quoted:
    """A name of this project's vocabulary as it is; marked where it is none: what an imported file, an engine
    or a user calls something may be a sentence."""
    return text if _NAME.fullmatch(text) and len(text) <= most else quoted(text, most)


def told(text: str | None, most: int = LONG) -> str | None:
    """A sentence of this project's own, which may hold names from outside: without what is not seen, cut."""
    return None if text is None else plain(text)[:most]
