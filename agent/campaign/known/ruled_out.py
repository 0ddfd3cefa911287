"""What findings rule out, so that it is not tested again where nothing differs; else what differs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from agent.campaign.known.settling import settled
from configs.asked_over import ASKED_OVER, IN_ENGINE, asked_over_words
from configs.campaign import CampaignSpec
from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Finding, FindingEvidence, Verdict
from db.states import FindingStatus
from experiments.space.configuration import Change, Configuration
from knowledge.figures import margin
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.rules import Rule
from knowledge.findings.staleness import StaleCause, of_other_versions
from knowledge.findings.verdict_fact import SAYING, Saying
from knowledge.stored import TOLD_BY

LEAST_TRUST = 0.5
"""The weight of what was carried below which nothing is ruled out by it: what foretold badly here rules
nothing out either."""

WORDS: Mapping[str, str] = {
    Saying.DOES_NOT_HELP.value: "does not help",
    Saying.BREAKS_QUALITY.value: "loses the quality",
    Saying.DOES_NOT_RUN.value: "does not run",
}
"""What rules a change out, as a clause."""


@dataclass(frozen=True)
class Differing:
    """Something of the scope that is not the same: as it was there, and as it is here, each with its name."""

    there: str
    here: str


@dataclass(frozen=True)
class RuledOut:
    """A finding against a change, made to `control`; `differs` is what of its scope is not this campaign's.

    `ours`: a campaign of this database measured it, or the user wrote it down; what was imported, or written
    by a program, rules nothing out by itself. `told`: it was written down, of these knobs at these values,
    whatever they were before and whatever the rest of the configuration is.
    """

    finding: str
    says: str
    changes: frozenset[Change]
    control: Configuration
    differs: tuple[Differing, ...]
    ours: bool
    told: bool = False

    def is_about(self, changes: Collection[Change]) -> bool:
        """Whether it speaks of just these changes; knobs that have a meaning only beside what is told may
        change with it."""
        if not self.told:
            return self.changes == frozenset(changes)
        told = {(each.knob, each.after) for each in self.changes}
        rest = [each for each in changes if (each.knob, each.after) not in told]
        return len(changes) - len(rest) == len(told) and all(
            each.before is None or each.after is None for each in rest
        )

    def between(self, control: Configuration) -> tuple[Differing, ...]:
        """All that differs where the change is made to this configuration."""
        if self.told:
            return self.differs
        knobs = [
            Differing(f"{each.knob} {_shown(each.before)}", f"{each.knob} {_shown(each.after)}")
            for each in self.control.changes_to(control)
        ]
        return (*self.differs, *knobs)


def read_ruled_out(session: Session, campaign: Campaign, spec: CampaignSpec) -> tuple[RuledOut, ...]:
    """The findings on this campaign's metric and engine by which a change does not help, does not run or
    loses the quality, that hold, or held with other versions, and rest on none of this campaign's own
    verdicts."""
    elsewhere = (
        select(FindingEvidence.finding_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id != campaign.id)
    )
    own = (
        select(FindingEvidence.finding_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(Experiment.campaign_id == campaign.id)
    )
    rows = session.execute(
        select(Finding, Finding.id.in_(elsewhere))
        .where(
            or_(
                Finding.status == FindingStatus.HOLDS,
                and_(
                    Finding.status == FindingStatus.STALE,
                    Finding.stale_cause == StaleCause.VERSIONS.value,
                ),
            ),
            or_(
                Finding.scope["engine"].as_string() == spec.engine,
                and_(Finding.rule == Rule.TOLD.value, Finding.scope["engine"].as_string().is_(None)),
            ),
            or_(
                Finding.scope["metric"].as_string() == spec.plan.metric,
                Finding.rule == Rule.TOLD.value,  # what does not help is told of no metric
            ),
            Finding.scope[SAYING].as_string().in_(WORDS),
            Finding.id.not_in(own),
        )
        .order_by(Finding.id)
    )
    versions = versions_here(session, campaign)
    return tuple(
        RuledOut(
            format_label(Noun.FINDING, finding.id),
            WORDS[finding.scope[SAYING]],
            frozenset(Change(**each) for each in finding.scope["change"]),
            settled(Configuration.of(finding.scope["control"]), spec.space),
            (*differs_from(finding.scope, campaign, spec), *_differs_further(finding.scope, spec, versions)),
            ours=bool(measured) or (finding.rule == Rule.TOLD and TOLD_BY not in finding.scope),
            told=finding.rule == Rule.TOLD,
        )
        for finding, measured in rows
        if finding.scope.get("change")
    )


def against(
    found: Sequence[RuledOut], control: Configuration, candidate: Configuration
) -> tuple[RuledOut, tuple[Differing, ...]] | None:
    """The finding against this change whose scope is nearest, and what differs from it; None where there is
    none."""
    changes = control.changes_to(candidate)
    same = [(each, each.between(control)) for each in found if each.is_about(changes)]
    return min(same, key=lambda pair: (not pair[0].ours, len(pair[1])), default=None)


def rules_out(
    found: Sequence[RuledOut], control: Configuration, candidate: Configuration, trust: float
) -> RuledOut | None:
    """The finding by which this change need not be tested again: one of this database, of this very scope,
    while what was carried over is trusted; of what the user wrote down nothing was carried over."""
    nearest = against(found, control, candidate)
    if nearest is None or nearest[1] or not nearest[0].ours:
        return None
    return nearest[0] if nearest[0].told or trust >= LEAST_TRUST else None


def asked_again(
    found: Sequence[RuledOut], control: Configuration, candidate: Configuration, trust: float
) -> str:
    """Why a change that a finding speaks against is tested all the same, in a sentence; empty where none
    does."""
    nearest = against(found, control, candidate)
    if nearest is None:
        return ""
    ruled, differs = nearest
    if differs:
        there = ", ".join(each.there for each in differs[:MOST_NAMED])
        here = ", ".join(each.here for each in differs[:MOST_NAMED])
        more = f" and {len(differs) - MOST_NAMED} more" if len(differs) > MOST_NAMED else ""
        said = f"{ruled.finding} says that it {ruled.says} with {there}{more}"
        return f"{said}; asked again since here it is {here}"
    if not ruled.ours:
        who = "a program wrote down" if ruled.told else "another database told"
        return f"{ruled.finding} says that it {ruled.says}, which {who}; asked again here"
    return (
        f"{ruled.finding} says that it {ruled.says} here; asked again since what was carried over foretold "
        f"badly here and counts {100 * trust:.0f} %"
    )


MOST_NAMED = 3
"""Differences that are named."""


def versions_here(session: Session, campaign: Campaign) -> Mapping[str, object]:
    """The versions that the campaign's last experiment on its own target ran with; none before one told
    any."""
    last = session.scalars(
        select(Experiment)
        .where(Experiment.campaign_id == campaign.id, Experiment.target == campaign.target)
        .order_by(Experiment.id.desc())
        .limit(1)
    ).first()
    return {} if last is None else versions_of_experiments(session, [last])[last.id]


def differs_from(scope: Mapping[str, Any], campaign: Campaign, spec: CampaignSpec) -> tuple[Differing, ...]:
    """What of a finding's scope is not this campaign's: its model, its target, its workload."""
    found = []
    if scope["model_fingerprint"] != campaign.model_fingerprint:
        found.append(Differing(f"the model {scope['model']}", f"the model {campaign.model}"))
    if scope["target"] != campaign.target:
        found.append(Differing(scope["target"], campaign.target))
    workload = spec.plan.workload
    for name, (one, many) in _OF_WORKLOAD.items():
        there, here = (scope.get("workload") or {}).get(name), getattr(workload, name)
        if there is not None and there != here:
            found.append(Differing(_counted(there, one, many), _counted(here, one, many)))
    told = scope.get("workload") or {}
    then, now = told.get(ASKED_OVER) or IN_ENGINE, workload.asked_over
    if told and then != now:
        found.append(Differing(f"asked {asked_over_words(then)}", f"asked {asked_over_words(now)}"))
    return tuple(found)


def _differs_further(
    scope: Mapping[str, Any], spec: CampaignSpec, versions: Mapping[str, object]
) -> tuple[Differing, ...]:
    """What differs besides: the `versions` that run here, and, of what does not help, a smaller gain that is
    worth having here."""
    then = scope.get("versions") or {}
    found = [
        Differing(f"{name} {then[name]}", f"{name} {versions[name]}")
        for name in of_other_versions(then, versions)
    ]
    there, here = scope.get("min_effect"), spec.plan.min_effect
    if scope.get(SAYING) == Saying.DOES_NOT_HELP and isinstance(there, int | float) and here < there:
        metric = spec.plan.metric
        found.append(Differing(f"{margin(there, metric)} asked for", f"{margin(here, metric)} asked for"))
    return tuple(found)


_OF_WORKLOAD = {
    "concurrency": ("request at once", "requests at once"),
    "prompt_tokens": ("token in", "tokens in"),
    "new_tokens": ("token out", "tokens out"),
}
"""What of a workload is a scope's, in words."""


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)
