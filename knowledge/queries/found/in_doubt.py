"""Supported tests of whose findings the verdicts disagree now, or that are not acted on any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label, parse_label_of
from db.models import Experiment, Finding, FindingEvidence, Verdict
from db.states import EvidenceRelation, FindingStatus, VerdictOutcome
from knowledge.findings.verdict_fact import SAYING

SAYS_SO = (EvidenceRelation.SUPPORTS, EvidenceRelation.REPLICATES, EvidenceRelation.REPRODUCES)
"""How a verdict stands to a finding that it was one of the first to say, or says again."""


def in_doubt(
    session: Session, campaign_id: int, experiment: str | None = None
) -> Mapping[str, tuple[str, ...]]:
    """The supported tests of a campaign whose finding is contradicted, stale, or superseded by one that says
    otherwise, by label, with a clause for each such finding: `F-003 is contradicted`. Of one
    `experiment` alone where its label is given. One statement.

    A finding that a newer one says again is none of these, nor is one that findings of another scope dispute:
    it may hold where it was measured all the same.
    """
    which = Experiment.campaign_id == campaign_id
    if experiment is not None:
        which &= Experiment.id == parse_label_of(Noun.EXPERIMENT, experiment)
    found = _in_doubt(session, which)
    return {format_label(Noun.EXPERIMENT, number): why for number, why in found.items()}


def in_doubt_of(session: Session, experiments: Collection[int]) -> Mapping[int, tuple[str, ...]]:
    """The same of these experiments, of whichever campaigns, by id."""
    return _in_doubt(session, Experiment.id.in_(experiments))


def _in_doubt(session: Session, which: ColumnElement[bool]) -> Mapping[int, tuple[str, ...]]:
    newer = aliased(Finding)
    otherwise = newer.scope[SAYING].as_string() != Finding.scope[SAYING].as_string()
    query = (
        select(Verdict.experiment_id, Finding.id, Finding.status)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .join(FindingEvidence, FindingEvidence.verdict_id == Verdict.id)
        .join(Finding, Finding.id == FindingEvidence.finding_id)
        .outerjoin(newer, newer.id == Finding.superseded_by_id)
        .where(
            which,
            Experiment.reproduces_experiment_id.is_(None),
            Verdict.outcome == VerdictOutcome.SUPPORTED,
            FindingEvidence.relation.in_(SAYS_SO),
            or_(
                Finding.status.in_((FindingStatus.CONTRADICTED, FindingStatus.STALE)),
                and_(Finding.status == FindingStatus.SUPERSEDED, otherwise),
            ),
        )
        .order_by(Verdict.id, Finding.id)
    )
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for number, finding, status in session.execute(query):
        told = f"{format_label(Noun.FINDING, finding)} is {status.value}"
        found[number] += (told,)
    return found
