"""The tests of campaigns, counted for pages again only once there is another test or verdict.

Counting reads what every test was sealed with, which takes longer than all else of a campaign's page; a plan
and a verdict are written once and never changed, so the count of a page stays true until a row is added.
Pages read on snapshots and write nothing, so that no row is seen here that may yet be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from db.models import Experiment, Verdict
from knowledge.queries.claims.discovery import Tally, tallies_of

MOST_KEPT = 64
"""Campaigns whose counts are kept, of each database; then all are counted anew."""

Counts = Mapping[int, tuple[Tally, ...]]
Newest = tuple[int | None, int | None]

_NEWEST = select(
    select(func.max(Experiment.id)).scalar_subquery(), select(func.max(Verdict.id)).scalar_subquery()
)
_kept: WeakKeyDictionary[Engine, dict[tuple[int, ...], tuple[Newest, Counts]]] = WeakKeyDictionary()


def counted_tests(session: Session, campaign_ids: Sequence[int]) -> Counts:
    """As `tallies_of`; to be called in sessions that only read."""
    newest: Newest = tuple(session.execute(_NEWEST).one())
    kept, key = _kept.setdefault(session.get_bind().engine, {}), tuple(campaign_ids)
    found = kept.get(key)
    if found is not None and found[0] == newest:
        return found[1]
    counts = tallies_of(session, campaign_ids)
    if len(kept) >= MOST_KEPT:
        kept.clear()
    kept[key] = newest, counts
    return counts
