"""Whether words are written so that they read otherwise than they are: letters of another alphabet that look
like Latin ones, marks heaped on a letter, letters that are not seen. Pure.

A list of signs of what words try would pass them over. Nobody writes a reason so: a word is of one alphabet,
but for the Greek letters that stand for quantities (`μs`, `Δt`), none of which looks like a Latin one.
"""

from __future__ import annotations

import re
import unicodedata

LOOK_ALIKE = frozenset({"CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "GOTHIC"})
"""Alphabets, by the first word of their letters' names, in which letters look like Latin ones."""

GREEK_TWINS = frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοινυ")
"""Greek letters that look like Latin ones, and stand for no quantity within a word."""

MOST_MARKS = 3
"""Marks on one letter, at most: two of a tone and a vowel, and one to spare."""

UNSEEN_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that count as letters or signs and show nothing."""

_WORD = re.compile(r"[^\W\d_]{2,}")


def is_disguised(text: str) -> bool:
    """Whether the text holds such a word."""
    if not UNSEEN_LETTERS.isdisjoint(text) or _is_heaped(text):
        return True
    return not text.isascii() and any(_is_mixed(word) for word in _WORD.findall(text))


def _is_mixed(word: str) -> bool:
    if word.isascii() or not any("a" <= each <= "z" for each in word.lower()):
        return False
    return any(
        each in GREEK_TWINS or unicodedata.name(each, "").partition(" ")[0] in LOOK_ALIKE
        for each in word
        if not each.isascii()
    )


def _is_heaped(text: str) -> bool:
    heaped = 0
    for each in text:
        heaped = heaped + 1 if unicodedata.combining(each) else 0
        if heaped > MOST_MARKS:
            return True
    return False
