"""Labels: how an integer id is shown to people (`C-3`, `H-021`, `E-0020`, `F-006`) and read back.

A label is a letter for the noun, a dash and the id, padded with zeros so that lists line up. Reading is
lenient about case and padding (`h-21` is `H-021`), and about nothing else.
"""

from __future__ import annotations

import re
from enum import Enum

from configs.errors import UsageError

_LABEL = re.compile(r"([A-Za-z])-([0-9]{1,15})", re.ASCII)


class Noun(Enum):
    """What a label can name: the value is the letter and the width the number is padded to."""

    CAMPAIGN = ("C", 1)
    HYPOTHESIS = ("H", 3)
    EXPERIMENT = ("E", 4)
    FINDING = ("F", 3)
    DIRECTIVE = ("D", 1)
    JOB = ("J", 1)

    @property
    def letter(self) -> str:
        """The letter the label begins with."""
        return self.value[0]

    @property
    def width(self) -> int:
        """The least number of digits shown."""
        return self.value[1]

    @property
    def word(self) -> str:
        """The noun as it stands in a sentence."""
        return self.name.lower()

    @property
    def phrase(self) -> str:
        """The word with its article."""
        return f"{'an' if self.word[0] in 'aeiou' else 'a'} {self.word}"


_BY_LETTER = {noun.letter: noun for noun in Noun}


def format_label(noun: Noun, number: int) -> str:
    """Return the label of the `noun` with this id, such as `H-021`."""
    letter, width = noun._value_  # not by `value`, which is slow, and a graph asks for tens of thousands
    return f"{letter}-{number:0{width}d}"


def parse_label(text: str) -> tuple[Noun, int]:
    """Return the noun and the id that a label names.

    Raises `UsageError` for anything that is not a label.
    """
    match = _LABEL.fullmatch(text.strip())
    noun = _BY_LETTER.get(match.group(1).upper()) if match else None
    if match is None or noun is None:
        raise UsageError(
            f"{text!r} is not a label.",
            "A label is a letter, a dash and a number, such as "
            f"{', '.join(f'{format_label(each, 1)} ({each.word})' for each in Noun)}.",
        )
    return noun, int(match.group(2))


def parse_label_of(noun: Noun, text: str) -> int:
    """Return the id that a label of this `noun` names; the bare number is accepted too.

    Raises `UsageError` for anything else, a label of another noun included.
    """
    bare = text.strip()
    if bare.isascii() and bare.isdigit() and len(bare) <= 15:
        return int(bare)
    found, number = parse_label(text)
    if found is not noun:
        raise UsageError(
            f"{text!r} names {found.phrase}, but {noun.phrase} is wanted here.",
            f"Give a label such as {format_label(noun, 1)}.",
        )
    return number
