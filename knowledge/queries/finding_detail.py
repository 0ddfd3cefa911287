"""One finding in full: its evidence pooled campaign by campaign, and the findings that dispute it."""

from __future__ import annotations

from collections import Counter, defaultdict

from sqlalchemy.orm import Session

from db.models import Finding
from knowledge.findings.facts import facts_of_finding
from knowledge.findings.random_effects import Pooled
from knowledge.findings.rules import by_campaign, pooled_over_campaigns
from knowledge.queries.findings import FindingView, evidence_of, finding_fields
from knowledge.queries.view import EffectView, View, effect_view
from knowledge.stored import metric_of


class CampaignEffectView(View):
    """What one campaign measured, its verdicts pooled; `id` is its label, of an imported one with its origin.
    `experiments` are those behind it."""

    id: str
    effect: EffectView
    verdicts: int
    experiments: tuple[str, ...]
    imported: bool


class PooledView(View):
    """What campaigns measured, and all of them together.

    `spread` is the standard deviation between campaigns (0.02 is about 2 %), `i_squared` the share of their
    scatter that their own intervals do not explain, `predicted` where another campaign's effect lies with
    95 %; these are None of a single campaign.
    """

    campaigns: tuple[CampaignEffectView, ...]
    effect: EffectView
    spread: float | None
    i_squared: float | None
    predicted: EffectView | None


class FindingDetail(FindingView):
    """A finding in full; `pooled` is None where nothing was measured, or nobody measured."""

    pooled: PooledView | None


def finding_detail(session: Session, finding_id: int) -> FindingDetail:
    """Return one finding, which must exist."""
    finding = session.get_one(Finding, finding_id)
    (fields,) = finding_fields(session, [finding])
    return FindingDetail(**fields, pooled=_pooled(session, finding))


def _pooled(session: Session, finding: Finding) -> PooledView | None:
    metric = metric_of(finding.scope)
    facts = [fact for fact in facts_of_finding(session, finding.id) if fact.metric == metric]
    together = pooled_over_campaigns(facts)
    if together is None:
        return None
    measured = [fact for fact in facts if fact.estimate is not None]
    counts = Counter(fact.campaign for fact in measured)
    names = _experiments(session, finding_id=finding.id)
    imported = {fact.campaign: fact.imported for fact in measured}
    views = []
    for campaign, estimate in by_campaign(facts).items():
        effect = effect_view(estimate.effect_log, estimate.low_log, estimate.high_log, metric)
        assert effect is not None
        views.append(
            CampaignEffectView(
                id=campaign,
                effect=effect,
                verdicts=counts[campaign],
                experiments=tuple(names[campaign]),
                imported=imported[campaign],
            )
        )
    return _pooled_view(together, tuple(views), metric)


def _pooled_view(found: Pooled, campaigns: tuple[CampaignEffectView, ...], metric: str) -> PooledView:
    estimate = found.estimate
    effect = effect_view(estimate.effect_log, estimate.low_log, estimate.high_log, metric)
    assert effect is not None
    predicted = None
    if found.predicted is not None:
        predicted = effect_view(estimate.effect_log, *found.predicted, metric)
    return PooledView(
        campaigns=campaigns,
        effect=effect,
        spread=found.tau_log,
        i_squared=found.i_squared,
        predicted=predicted,
    )


def _experiments(session: Session, finding_id: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for each in evidence_of(session, [finding_id])[finding_id]:
        if each.effect is not None:
            found[each.campaign].append(each.experiment)
    return found
