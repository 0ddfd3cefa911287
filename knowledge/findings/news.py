"""What the log tells of a finding: its claim, with as much of its scope as tells it from others."""

from __future__ import annotations

from sqlalchemy.orm import Session

from db.models import Finding
from knowledge.claim_scope import claim_in_short
from knowledge.queries.found.scopes import besides


def news_of(session: Session, finding: Finding) -> str:
    """Return the claim of a finding in a sentence; of its scope only what its control has that tells it from
    findings which would read alike. Its page has all of it."""
    said = claim_in_short(finding.claim, finding.rule)
    beside = besides(session, [finding]).get(finding.id)
    return f"{said.rstrip('.')}, {beside}." if beside else said
