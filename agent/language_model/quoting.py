"""How text that others wrote reaches a prompt or a page: bounded, without control characters, as JSON. Pure.

Names of models, notes, reasons that hold a line of a log, claims of findings that were imported: whatever
came from outside may try to instruct. In a prompt it stands only inside a string of JSON in one marked block,
in ASCII, and neither `<` nor `>` stands there, so nothing in it can end the block.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence

from experiments.measurement.evidence import Json

LONGEST_TEXT = 160
"""Characters of one text of others."""

CUT = "…"
"""What stands where a text was cut."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that are not seen: controls, marks of direction, surrogates, ends of lines."""

MASK = "***"
"""What stands in place of a secret."""


def plain(text: str, most: int = LONGEST_TEXT) -> str:
    """The text on one line, without what is not seen, at most so many characters."""
    head = text[: 8 * most]  # what follows is cut anyway
    seen = "".join(_seen(each) for each in head)
    line = " ".join(seen.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + CUT


def _seen(character: str) -> str:
    """The character; a blank for a control or an end of a line, nothing for a mark that takes no room."""
    category = unicodedata.category(character)
    return "" if category == "Cf" else " " if category in _UNSEEN else character


def encoded(value: Json) -> str:
    """The value as JSON in ASCII that holds no `<`, `>` or `&`; numbers that are not finite are refused.

    Raises `ValueError` for one.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def readable(text: str, most: int) -> str:
    """A long text as it is kept: ends of lines and tabs stay, what else is not seen is told as `\\xNN`, and
    after so many characters it is cut."""
    kept = "".join(
        each if each in "\n\t" or unicodedata.category(each) not in _UNSEEN else f"\\x{ord(each):02x}"
        for each in text[:most]
    )
    return kept if len(text) <= most else f"{kept}\n{CUT} cut after {most} characters of {len(text)}"


def masked(text: str, secrets: Sequence[str]) -> str:
    """The text with `***` for each secret in it, in whatever case: types of content come back in small
    letters."""
    for each in secrets:
        if each:
            text = re.sub(re.escape(each), MASK, text, flags=re.IGNORECASE)
    return text
