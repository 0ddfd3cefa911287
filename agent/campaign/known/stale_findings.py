"""Changes that helped here with versions that are no longer here: to be tested again with those of now."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts
from agent.campaign.known.ruled_out import asked_again, differs_from, versions_here
from agent.proposers.port import StaleFinding
from configs.campaign import CampaignSpec
from db.labels import Noun, format_label
from db.models import Campaign, Finding
from db.states import FindingStatus
from experiments.space.configuration import Configuration
from knowledge.findings.staleness import StaleCause, of_other_versions
from knowledge.findings.verdict_fact import SAYING, Saying
from knowledge.stored import metric_of


def read_stale_findings(session: Session, campaign: Campaign, spec: CampaignSpec) -> tuple[StaleFinding, ...]:
    """The findings of this campaign's own model, target, engine, workload and metric by which a change helps,
    and which are stale because of the versions of now."""
    query = select(Finding).where(
        Finding.status == FindingStatus.STALE,
        Finding.stale_cause == StaleCause.VERSIONS.value,
        Finding.superseded_by_id.is_(None),
        Finding.scope[SAYING].as_string() == Saying.HELPS.value,
        Finding.scope["target"].as_string() == campaign.target,
        Finding.scope["engine"].as_string() == spec.engine,
    )
    rows = session.scalars(query.order_by(Finding.id)).all()
    if not rows:
        return ()
    now = versions_here(session, campaign)
    found = []
    for finding in rows:
        scope, then = finding.scope, finding.scope.get("versions") or {}
        moved = of_other_versions(then, now)
        is_here = "metric" not in scope or metric_of(scope) == spec.plan.metric
        if not moved or not is_here or differs_from(scope, campaign, spec):
            continue
        found.append(
            StaleFinding(
                format_label(Noun.FINDING, finding.id),
                {each["knob"]: each["after"] for each in scope["change"] if each["after"] is not None},
                finding.effect_log,
                tuple((f"{name} {then[name]}", f"{name} {now[name]}") for name in moved),
            )
        )
    return tuple(found)


def why_again(facts: Facts, control: Configuration, candidate: Configuration, trust: float) -> str:
    """Why a change is tested of which a finding speaks already, in a sentence: one that speaks against it
    elsewhere, or for it with versions that are no longer here. Empty where none does."""
    said = asked_again(facts.ruled_out, control, candidate, trust)
    stale = None if said else helped_before(facts.stale_findings, control, candidate)
    return said if stale is None else stale.again


def helped_before(
    found: Sequence[StaleFinding], control: Configuration, candidate: Configuration
) -> StaleFinding | None:
    """The finding that says that just this change helps, the newest of several; knobs that have a meaning
    only beside it may change with it."""
    changes = control.changes_to(candidate)
    for each in reversed(found):
        rest = [one for one in changes if one.knob not in each.change or each.change[one.knob] != one.after]
        if len(changes) - len(rest) == len(each.change) and all(
            one.before is None or one.after is None for one in rest
        ):
            return each
    return None
