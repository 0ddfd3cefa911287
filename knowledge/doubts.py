"""What speaks against a finding beside its own state: findings that disagree, and fresh runs that differ."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.asking.answer import some

MOST_NAMED = 3
"""Findings and fresh runs that a clause names; how many more there are is told."""


def doubt_words(disputed_by: Sequence[str], differing: Sequence[str]) -> str | None:
    """Return the findings that disagree with one and the fresh runs that differ from what it rests on, by
    their labels, as a clause such as `F-007 disputes it`; None where there is neither."""
    said = []
    if disputed_by:
        verb = "disputes" if len(disputed_by) == 1 else "dispute"
        said.append(f"{some(disputed_by, MOST_NAMED)} {verb} it")
    if differing:
        which = "a fresh run, differs" if len(differing) == 1 else "fresh runs, differ"
        said.append(f"{some(differing, MOST_NAMED)}, {which}")
    return ", and ".join(said) or None
