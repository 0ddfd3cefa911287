"""The best that other campaigns came to, whose outcomes are carried over to this one; reads only."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.incumbent import find_incumbent
from agent.campaign.known.ruled_out import differs_from
from agent.campaign.known.settling import settled
from agent.proposers.port import CarriedBest
from agent.surrogate.carried import Carried, by_scope, trials_of
from configs.campaign import CampaignSpec
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign
from experiments.measurement.evidence import Metric
from experiments.space.configuration import Configuration
from knowledge.latency_only import latency_only

MADE_UP = ("made-up weights, whose quality nothing judges", "real ones")
"""What differs where times alone were judged there, and quality is too here."""

OTHER_VERSIONS = ("the versions of then", "other ones")
"""What differs where the versions of the target do."""


def read_carried_bests(
    session: Session, campaign: Campaign, spec: CampaignSpec, carried: Sequence[Carried]
) -> tuple[CarriedBest, ...]:
    """The best of each campaign of this database that these outcomes are of, where something was supported
    there; those from which least of the ground differs first, then the newest.

    Imported verdicts lead to none: from which trial 0 they began is not told.
    """
    scopes = by_scope(each for each in carried if each.trial.experiment_id)
    if not scopes:
        return ()
    rows = session.execute(
        select(
            Campaign.id,
            Campaign.model,
            Campaign.model_fingerprint,
            Campaign.target,
            Campaign.spec,
            Campaign.baseline_configuration_id,
        )
        .where(
            Campaign.id.in_([parse_label_of(Noun.CAMPAIGN, each) for each in scopes]),
            Campaign.baseline_configuration_id.is_not(None),
        )
        .order_by(Campaign.id.desc())
    ).all()
    stored = store.configurations(session, [row.baseline_configuration_id for row in rows])
    found = []
    for row in rows:
        ground = {
            "model": row.model,
            "model_fingerprint": row.model_fingerprint,
            "target": row.target,
            "workload": row.spec["plan"]["workload"],
        }
        differs = tuple((each.there, each.here) for each in differs_from(ground, campaign, spec))
        best = best_of(
            scopes[format_label(Noun.CAMPAIGN, row.id)],
            settled(stored[row.baseline_configuration_id], spec.space),
            Metric(spec.plan.metric),
            (*differs, MADE_UP) if latency_only(row.spec) and not spec.latency_only else differs,
        )
        if best is not None:
            found.append(best)
    return tuple(sorted(found, key=lambda each: len(each.differs)))


def best_of(
    carried: Sequence[Carried],
    baseline: Configuration,
    objective: Metric,
    differs: tuple[tuple[str, str], ...] = (),
) -> CarriedBest | None:
    """The best of one campaign, from its trial 0 by what is carried of it; None where nothing is supported
    that leads from there."""
    best = find_incumbent(baseline, trials_of(carried), objective)
    last = next((each for each in carried if each.trial.experiment_id == best.experiment_id), None)
    if last is None:
        return None
    return CarriedBest(
        campaign=last.scope,
        experiment=format_label(Noun.EXPERIMENT, last.trial.experiment_id),
        finding=last.finding,
        baseline=baseline,
        configuration=best.configuration,
        log_ratio=best.log_ratio,
        steps=best.steps,
        differs=differs if last.same_versions else (*differs, OTHER_VERSIONS),
    )
