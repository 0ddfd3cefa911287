"""Rows of answers that tell of another database's verdicts: the graph holds none of them, only how many."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, parse_label_of
from db.models import ImportedEvidence, ImportedVerdict
from db.states import EvidenceRelation
from knowledge.asking.answer import ImportedOf, Row
from knowledge.findings.exchange import ToldVerdict
from knowledge.queries.view import effect_view

LONGEST_REASON = 300
"""Characters of another database's reason that are told."""


def imported_rows(
    session: Session, finding: str, relations: Collection[EvidenceRelation] | None = None
) -> tuple[Row, ...]:
    """Return a row for each imported verdict behind a finding, or of these relations alone, the oldest first.

    Their labels are another database's, so none is given as the row's own.
    """
    query = (
        select(ImportedEvidence.relation, ImportedVerdict)
        .join(ImportedVerdict, ImportedVerdict.id == ImportedEvidence.imported_verdict_id)
        .where(ImportedEvidence.finding_id == parse_label_of(Noun.FINDING, finding))
        .order_by(ImportedVerdict.id)
    )
    return tuple(
        _row(relation, row)
        for relation, row in session.execute(query)
        if relations is None or relation in relations
    )


def imported_of(session: Session) -> ImportedOf:
    """Return what tells the imported verdicts behind a finding."""
    return lambda finding: imported_rows(session, finding)


def _row(relation: EvidenceRelation, row: ImportedVerdict) -> Row:
    told = ToldVerdict.model_validate(row.told)
    reason = told.reason
    return Row(
        relation=f"{relation.value} it",
        state=told.outcome.value,
        text=f"a verdict that was imported from {row.origin}, on {told.target}",
        because=reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…",
        effect=effect_view(told.effect_log, told.low_log, told.high_log, told.metric.value),
    )
