"""Findings as the tools answer them: what is known, within its scope, and the verdicts behind it."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.orm import Session

from dashboard.mcp.answers import MOST_RELATED, Answer, Change, Effect, Listed, changes, listed, measured
from dashboard.mcp.quoting import LONG, Quoted, maybe, named, quoted
from db.labels import Noun
from db.states import FindingStatus
from knowledge.machines import machines_named
from knowledge.queries.found.finding_detail import DisputeView, finding_detail
from knowledge.queries.found.findings import FindingView, list_findings
from knowledge.queries.lookup import campaign_filter, labelled
from knowledge.stored import TOLD_BY

MOST_EVIDENCE = 25
"""Verdicts that are told of a finding."""


class FindingItem(Answer):
    """What verdicts together say of one change, where alone it holds, and how far to believe it."""

    id: str
    claim: Quoted
    status: str = Field(description="holds, contradicted, superseded, stale or withdrawn.")
    status_reason: Quoted | None
    strength: str = Field(
        description="single, reproduced (reruns of one campaign agree), replicated (campaigns agree), "
        "weakened, mixed, or told: written down, no evidence."
    )
    doubt: str | None = Field(description="Findings that disagree with it, and fresh runs that differ.")
    says: str | None = Field(description="What it says of the change; None where its verdicts disagree.")
    told_by: str | Quoted | None = Field(description="Who wrote it down, where it was not measured.")
    effect: Effect | None
    holds_for: Quoted = Field(
        description="Model, target, engine and, where findings differ by it, what stands beside the change."
    )
    lever: str | Quoted
    change: tuple[Change, ...]
    campaigns_for: int
    campaigns_against: int


class Evidence(Answer):
    """What one verdict says about a finding; one of another database is called with its origin."""

    experiment: Quoted
    outcome: str
    relation: str
    measured: Effect | None


class FindingAnswer(FindingItem):
    """A finding in full: its scope, the verdicts behind it and what disputes it."""

    scope: Quoted = Field(description="Versions and workload that it was measured with.")
    evidence: tuple[Evidence, ...]
    evidence_left_out: int
    spread_between_campaigns_percent: float | None
    another_campaign: Effect | None = Field(description="Where the effect of another campaign lies, 95 %.")
    disputes: tuple[Quoted, ...]


def findings(
    session: Session,
    about: str | None,
    target: str | None,
    label: str | None,
    statuses: tuple[FindingStatus, ...],
    limit: int,
    offset: int,
) -> Listed[FindingItem]:
    """What is known about a knob on a target; the last changed first."""
    page = list_findings(
        session,
        campaign_id=campaign_filter(session, label),
        statuses=statuses,
        about=about,
        target=target,
        limit=limit,
        offset=offset,
    )
    return listed([FindingItem(**_finding(each)) for each in page.items], page.total, offset)


def _finding(found: FindingView) -> dict[str, object]:
    scope = found.scope
    where = [f"{name} {scope[name]}" for name in ("model", "target", "engine") if scope.get(name)]
    return {
        "id": found.id,
        "claim": quoted(machines_named(found.claim)),
        "status": found.status.value,
        "status_reason": maybe(found.status_reason and machines_named(found.status_reason)),
        "strength": found.strength,
        "doubt": found.doubt,
        "says": found.says,
        "told_by": None
        if found.rule != "R0-told"
        else named(str(scope[TOLD_BY]))
        if TOLD_BY in scope
        else "the user",
        "effect": measured(found.effect),
        "holds_for": quoted(machines_named(", ".join([*where, *([found.beside] if found.beside else [])]))),
        "lever": named(str(scope.get("lever", ""))),
        "change": changes(found.change),
        "campaigns_for": found.says_so,
        "campaigns_against": found.says_not,
    }


def _asked(dispute: DisputeView) -> str:
    """What a dispute asks, and what answers it or tests it."""
    if dispute.hypotheses:
        return f"{dispute.question} Tested by: {', '.join(dispute.hypotheses)}"
    return f"{dispute.question} Answered by: {dispute.answered_by}" if dispute.command else dispute.question


def finding(session: Session, label: str) -> FindingAnswer:
    """One finding in full."""
    found = finding_detail(session, labelled(session, Noun.FINDING, label))
    pooled = found.pooled
    several = pooled is not None and len(pooled.campaigns) > 1
    return FindingAnswer(
        **{**_finding(found), "claim": quoted(found.claim, LONG)},
        scope=quoted(
            ", ".join(
                f"{name} {value}"
                for part in ("versions", "workload")
                for name, value in (found.scope.get(part) or {}).items()
            ),
            LONG,
        ),
        evidence=tuple(
            Evidence(
                experiment=quoted(each.named),
                outcome=each.outcome.value,
                relation=each.relation.value,
                measured=measured(each.effect),
            )
            for each in found.evidence[-MOST_EVIDENCE:]
        ),
        evidence_left_out=max(0, len(found.evidence) - MOST_EVIDENCE),
        spread_between_campaigns_percent=round(100 * pooled.spread, 3)
        if pooled is not None and several and pooled.spread is not None
        else None,
        another_campaign=measured(pooled.predicted) if pooled is not None and several else None,
        disputes=tuple(quoted(_asked(each), LONG) for each in found.disputes[:MOST_RELATED]),
    )
