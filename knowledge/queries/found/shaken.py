"""Supported tests that are believed no more as they were, for the rows and pages that show them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from knowledge.doubts import doubt_words
from knowledge.figures import listed
from knowledge.queries.found.fresh_runs import differing_of
from knowledge.queries.found.in_doubt import in_doubt_of


def shaken(session: Session, experiments: Collection[int]) -> dict[int, str]:
    """Return what speaks against each of these tests that was supported, as a clause, by its id; of a fresh
    run that differs and a finding that is contradicted, stale or superseded the fresh run. At most a fixed
    number of statements, and none for no test."""
    if not experiments:
        return {}
    fresh = differing_of(session, experiments)
    told = {number: listed(list(why)) for number, why in in_doubt_of(session, experiments).items()}
    return told | {number: doubt_words((), (view.experiment,)) or "" for number, view in fresh.items()}


def shaken_labels(session: Session, experiments: Collection[int]) -> dict[str, str]:
    """The same by label."""
    found = shaken(session, experiments)
    return {format_label(Noun.EXPERIMENT, number): clause for number, clause in found.items()}
