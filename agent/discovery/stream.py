"""The stream of a campaign's tests as it stands in the database, and the level of the next one.

Every test of a hypothesis on time counts once, when it is dispatched, whoever proposed it: the agent, the
user, the campaign's file, or the loop to confirm its best. One that is cancelled and dispatched again counts
twice, because somebody may have cancelled it for what it showed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from agent.discovery.e_lond import level
from experiments.measurement.evidence import TIMED_METRICS, Metric
from knowledge.queries.claims.discovery import tests_of


@dataclass(frozen=True)
class NextTest:
    """The place of a test that is about to be dispatched: the `test`-th of the stream, after `discoveries`
    supported ones that are known by now."""

    test: int
    discoveries: int
    support_alpha: float


def next_test(session: Session, campaign_id: int, metric: Metric, alpha: float) -> NextTest | None:
    """The level of the campaign's next test; None for a metric whose claims are not in the stream."""
    if metric not in TIMED_METRICS:
        return None
    stream = [
        each for each in tests_of(session, [campaign_id])[campaign_id] if each.support_alpha is not None
    ]
    discoveries = sum(each.supported for each in stream)
    return NextTest(len(stream) + 1, discoveries, level(alpha, len(stream), discoveries))
