"""The reason that somebody gives for what they withdraw or end: a sentence that is kept and shown."""

from __future__ import annotations

import unicodedata

from configs.errors import UsageError

LONGEST_REASON = 500
"""Characters of a reason, at most."""

_STEERING = ("Cc", "Cs")
"""Unicode's control characters, which steer a terminal, and halves of characters."""


def reason_given(text: str) -> str:
    """The reason on one line, without its full stop, to stand in another sentence.

    Raises `UsageError` for an empty one, one of more than `LONGEST_REASON` characters, and one that holds
    characters which are no text.
    """
    reason = " ".join(text.split()).rstrip(".")
    if not reason:
        raise UsageError("The reason is empty.", "Leave it out, or say why in a few words.")
    if len(reason) > LONGEST_REASON:
        raise UsageError(
            f"The reason has {len(reason)} characters, and {LONGEST_REASON} are the most.",
            "Say it in a sentence.",
        )
    if any(unicodedata.category(each) in _STEERING for each in reason):
        raise UsageError("The reason holds characters that are no text.", "Write it in letters and signs.")
    return reason
