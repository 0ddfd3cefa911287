"""What separates the causes of a hypothesis whose test was confounded."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis
from db.states import ExperimentKind, HypothesisState
from knowledge.stored import SEPARATES, STANDS_FOR, separates_of, stands_for_of, was_foreseen

OPEN = (HypothesisState.PROPOSED, HypothesisState.QUEUED, HypothesisState.TESTING)
"""States in which a follow-up is not decided yet."""


def follow_ups_of(session: Session, hypothesis: Hypothesis) -> Sequence[Hypothesis]:
    """The hypotheses that separate the causes of the tests of this one, or that make its claim anew where
    it was not tested, in the order of their ids."""
    tests = select(Experiment.id).where(
        Experiment.hypothesis_id == hypothesis.id, Experiment.kind == ExperimentKind.TEST
    )
    labels = {format_label(Noun.EXPERIMENT, each) for each in session.scalars(tests)}
    query = select(Hypothesis).where(
        Hypothesis.campaign_id == hypothesis.campaign_id,
        or_(
            Hypothesis.change[SEPARATES]["experiment"].as_string().in_(sorted(labels)),
            Hypothesis.change[SEPARATES][STANDS_FOR].as_integer() == hypothesis.id,
        ),
    )
    found = session.scalars(query.order_by(Hypothesis.id)).all()
    return [
        each
        for each in found
        if stands_for_of(each.change) == hypothesis.id
        or (separates_of(each.change) in labels and not was_foreseen(each.change))
    ]


def open_follow_ups(session: Session, hypothesis: Hypothesis) -> Sequence[Hypothesis]:
    """Those of them that wait or are under test, where its test was confounded; none otherwise."""
    if hypothesis.state is not HypothesisState.CONFOUNDED:
        return ()
    return [each for each in follow_ups_of(session, hypothesis) if each.state in OPEN]
