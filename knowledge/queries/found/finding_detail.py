"""One finding in full: its evidence pooled campaign by campaign, and the findings that dispute it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.labels import Noun, format_label, parse_label_of
from db.models import Experiment, Finding, FindingEvidence, Hypothesis, Verdict
from db.states import ExperimentKind, VerdictOutcome
from experiments.sealing import altered
from knowledge.findings.answering import OwnTest, way_to_answer
from knowledge.findings.disputes import suspects
from knowledge.findings.facts import facts_of_finding
from knowledge.findings.random_effects import Pooled, weights_of
from knowledge.findings.rules import by_campaign, pooled_over_campaigns
from knowledge.findings.telling import disputes
from knowledge.queries.found.findings import FindingView, evidence_of, finding_fields
from knowledge.queries.found.fresh_runs import is_said_again
from knowledge.queries.view import EffectView, View, effect_view
from knowledge.stored import DISPUTES, metric_of


class CampaignEffectView(View):
    """What one campaign measured, its verdicts pooled; `id` is its label, of an imported one with its origin.
    `experiments` are those behind it, `weight` is its share of the pooled effect."""

    id: str
    effect: EffectView
    verdicts: int
    experiments: tuple[str, ...]
    imported: bool
    weight: float


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


class DisputeView(View):
    """A finding about the same change that disagrees, None where its own verdicts do.

    With what is asked of it, what differs, such as `vllm (0.32.0 against 0.26.0)`, and the hypotheses that
    take it apart; where there are none, `command` is what answers it and `where` it must run (None: as it
    is).
    """

    other: str | None
    place: str | None
    question: str
    differs: str
    hypotheses: tuple[str, ...]
    command: str | None
    where: str | None

    @property
    def answered_by(self) -> str | None:
        """The command, and where it must run."""
        return f"{self.command} ({self.where})" if self.command and self.where else self.command


class FindingDetail(FindingView):
    """A finding in full; `pooled` is None where nothing was measured, or nobody measured."""

    pooled: PooledView | None
    disputes: tuple[DisputeView, ...]


def finding_detail(session: Session, finding_id: int) -> FindingDetail:
    """Return one finding, which must exist."""
    finding = session.get_one(Finding, finding_id)
    (fields,) = finding_fields(session, [finding])
    return FindingDetail(**fields, pooled=_pooled(session, finding), disputes=_disputes(session, finding))


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
    estimates = by_campaign(facts)
    weights = weights_of(list(estimates.values()), together)
    for (campaign, estimate), weight in zip(estimates.items(), weights, strict=True):
        effect = effect_view(estimate.effect_log, estimate.low_log, estimate.high_log, metric)
        assert effect is not None
        views.append(
            CampaignEffectView(
                id=campaign,
                effect=effect,
                verdicts=counts[campaign],
                experiments=tuple(names[campaign]),
                imported=imported[campaign],
                weight=weight,
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


def _disputes(session: Session, finding: Finding) -> tuple[DisputeView, ...]:
    found = []
    label = format_label(Noun.FINDING, finding.id)
    for dispute in disputes(session, finding):
        other = next((each for each in dispute.sides if each.label != label), None)
        hypotheses = hypotheses_about(session, dispute.labels)
        way = None if hypotheses else way_to_answer(dispute, _tests(session, dispute.labels))
        found.append(
            DisputeView(
                other=None if other is None else other.label,
                place=None if other is None else other.place,
                question=dispute.question(),
                differs=suspects(dispute),
                hypotheses=hypotheses,
                command=None if way is None else way.command,
                where=None if way is None else way.where or None,
            )
        )
    return tuple(found)


def _tests(session: Session, findings: Sequence[str]) -> dict[str, OwnTest]:
    """The newest tests of this database behind each of these findings, by its label.

    A test on another target counts as one; the check of a recipe does not, which asks by another least
    effect. Where only runs of a test again are evidence, as on newer versions, it is the test that they ran.
    One of which something was altered since it was sealed is left out: no run of it answers anything.
    """
    query = (
        select(FindingEvidence.finding_id, Experiment, Verdict.outcome)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .join(Experiment, Experiment.id == Verdict.experiment_id)
        .where(FindingEvidence.finding_id.in_([parse_label_of(Noun.FINDING, each) for each in findings]))
        .order_by(Verdict.id)
    )
    newest: dict[str, str] = {}
    ran_again: dict[str, str] = {}
    going_on: dict[str, str] = {}
    for finding_id, experiment, outcome in session.execute(query):
        finding, label = format_label(Noun.FINDING, finding_id), format_label(Noun.EXPERIMENT, experiment.id)
        first = experiment.reproduces_experiment_id
        if altered(session, session.get_one(Experiment, first or experiment.id)) is not None:
            continue
        promoted = experiment.kind is ExperimentKind.PROMOTE
        if first is None or (promoted and is_said_again(session.get_one(Experiment, first), experiment)):
            newest[finding] = label
        else:
            ran_again[finding] = format_label(Noun.EXPERIMENT, first)
        if experiment.kind is ExperimentKind.TEST and outcome in _CONFIRMABLE:
            going_on[finding] = label
    return {each: OwnTest(test, going_on.get(each)) for each, test in {**ran_again, **newest}.items()}


_CONFIRMABLE = (VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED)
"""Outcomes that another target may confirm (`autoinfer promote`)."""


def hypotheses_about(session: Session, findings: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of the hypotheses that take a dispute between these findings apart."""
    query = select(Hypothesis.id, Hypothesis.change).where(
        Hypothesis.change[DISPUTES]["findings"].as_string().is_not(None)
    )
    wanted = list(findings)
    return tuple(
        format_label(Noun.HYPOTHESIS, number)
        for number, change in session.execute(query.order_by(Hypothesis.id))
        if change[DISPUTES]["findings"] == wanted
    )


def _experiments(session: Session, finding_id: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for each in evidence_of(session, [finding_id])[finding_id]:
        if each.effect is not None:
            found[each.campaign].append(each.experiment)
    return found
