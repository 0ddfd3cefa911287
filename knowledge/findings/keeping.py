"""Findings kept up to date: the thin edge between `knowledge.findings.rules` and the database.

Call `update_findings` in the transaction that writes the verdict, so that no verdict is ever without what it
says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from db import events
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Configuration,
    Experiment,
    Finding,
    FindingEvidence,
    Hypothesis,
    Launch,
    Verdict,
)
from db.states import FindingStatus, VerdictOutcome
from knowledge.findings.rules import FindingDraft, VerdictFact, derive
from knowledge.latency_only import plan_is_latency_only
from knowledge.scope import Scope
from knowledge.stored import (
    configuration_of,
    engine_of,
    metric_of,
    min_effect_of,
    quality_held,
    versions_of,
    workload_of,
)

_GENERATION_MARK = "~"
"""Between a key and the number of its generation: a stale finding keeps its key, what comes after it gets the
next."""

OPEN_OUTCOMES = frozenset({VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED})
"""Verdicts that decide nothing about the change."""


@dataclass(frozen=True, slots=True)
class FindingChange:
    """What a verdict did to the findings: the finding's id, and whether it is new."""

    finding_id: int
    added: bool


def update_findings(session: Session, verdict_id: int) -> tuple[FindingChange, ...]:
    """Derive again the finding that the verdict bears on; return what changed, empty when nothing did.

    Works on all verdicts of the same change, metric and scope, so calling it twice changes nothing more.
    Where the finding was marked stale, its verdicts stay with it and later ones make a new finding that
    supersedes it. A new finding also supersedes the one of the same statement on other versions. Appends the
    events last.
    """
    facts = _facts(session, verdict_id)
    if not facts:
        return ()
    fact = next(each for each in facts if each.verdict_id == verdict_id)
    latest, generation = _latest(session, fact.key)
    settled = _settled(session, fact.key, latest)
    draft = derive([each for each in facts if each.key == fact.key and each.verdict_id not in settled])
    if draft is None:
        return ()
    if latest is not None and latest.status is not FindingStatus.STALE:
        return _change(session, latest, draft)
    key = fact.key if latest is None else f"{fact.key}{_GENERATION_MARK}{generation + 1}"
    return (_add(session, key, draft, fact, latest),)


def _facts(session: Session, verdict_id: int) -> list[VerdictFact]:
    """Return all verdicts on the same pair of configurations as this one, this one included."""
    this, other = aliased(Experiment), aliased(Experiment)
    control, candidate = aliased(Configuration), aliased(Configuration)
    pair = (
        select(this.control_configuration_id, this.candidate_configuration_id)
        .join(Verdict, Verdict.experiment_id == this.id)
        .where(Verdict.id == verdict_id)
        .subquery()
    )
    query = (
        select(Verdict, other, Campaign, Hypothesis, control.knobs, candidate.knobs)
        .join(other, Verdict.experiment_id == other.id)
        .join(Campaign, Campaign.id == other.campaign_id)
        .join(control, control.id == other.control_configuration_id)
        .join(candidate, candidate.id == other.candidate_configuration_id)
        .join(
            pair,
            (pair.c.control_configuration_id == other.control_configuration_id)
            & (pair.c.candidate_configuration_id == other.candidate_configuration_id),
        )
        .outerjoin(Hypothesis, Hypothesis.id == Verdict.hypothesis_id)
        .order_by(Verdict.id)
    )
    rows = session.execute(query).all()
    versions = _versions(session, [row[1] for row in rows])
    levers = [row.Hypothesis.lever for row in rows if row.Hypothesis is not None]
    judged = {row[1].id: (row[1].reproduces_experiment_id, row.Verdict.outcome) for row in rows}
    return [
        _fact(
            *row,
            lever=levers[0] if levers else "",
            versions=versions[row[1].id],
            of_an_open_test=_reruns_an_open_test(row[1].id, judged),
        )
        for row in rows
    ]


def _reruns_an_open_test(experiment_id: int, judged: Mapping[int, tuple[int | None, VerdictOutcome]]) -> bool:
    """Whether the experiment reruns a test, maybe by way of other reruns, that no verdict decided.

    `judged` are the experiments on the same pair of configurations, where an original is: what each reruns,
    and its outcome.
    """
    original, outcome = judged[experiment_id]
    if original is None:
        return False
    while original is not None:
        if original not in judged:
            return True
        original, outcome = judged[original]
    return outcome in OPEN_OUTCOMES


def _fact(
    verdict: Verdict,
    experiment: Experiment,
    campaign: Campaign,
    hypothesis: Hypothesis | None,
    control_knobs: dict[str, object],
    candidate_knobs: dict[str, object],
    *,
    lever: str,
    versions: Mapping[str, object],
    of_an_open_test: bool,
) -> VerdictFact:
    control = configuration_of(control_knobs)
    plan = experiment.plan
    margin = min_effect_of(plan)
    if margin is None:
        margin = hypothesis.min_effect if hypothesis is not None else 0.0
    return VerdictFact(
        verdict_id=verdict.id,
        outcome=verdict.outcome,
        metric=metric_of(plan),
        changes=control.changes_to(configuration_of(candidate_knobs)),
        lever=lever,
        min_effect=margin,
        scope=Scope.of(
            model=campaign.model,
            model_fingerprint=campaign.model_fingerprint,
            target=experiment.target,
            engine=engine_of(campaign.spec),
            versions=versions,
            workload=workload_of(plan),
            control=control,
            latency_only=plan_is_latency_only(plan),
        ),
        effect_log=verdict.effect_log,
        low_log=verdict.interval_low_log,
        high_log=verdict.interval_high_log,
        quality_held=quality_held(verdict.quality),
        cause=experiment.failure or verdict.reason,
        of_an_open_test=of_an_open_test,
    )


def _versions(session: Session, experiments: Sequence[Experiment]) -> dict[int, Mapping[str, object]]:
    """Return the versions each experiment ran with, by its id.

    Those that are stored with it, else those its launches told, else (nothing came up) those of the last
    launch of its campaign.
    """
    campaigns = {experiment.campaign_id for experiment in experiments}
    last = (
        select(func.max(Launch.id))
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Experiment.campaign_id.in_(campaigns))
        .group_by(Launch.experiment_id)
    )
    told: dict[int, Mapping[str, object]] = {}
    of_campaign: dict[int, Mapping[str, object]] = {}
    query = (
        select(Launch.experiment_id, Experiment.campaign_id, Launch.resolved)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Launch.id.in_(last))
        .order_by(Launch.id)
    )
    for experiment_id, campaign_id, resolved in session.execute(query):
        told[experiment_id] = of_campaign[campaign_id] = versions_of(resolved)
    return {
        each.id: each.versions or told.get(each.id) or of_campaign.get(each.campaign_id) or {}
        for each in experiments
    }


def _generations(session: Session, key: str) -> Sequence[Finding]:
    query = (
        select(Finding)
        .where((Finding.key == key) | Finding.key.startswith(key + _GENERATION_MARK, autoescape=True))
        .order_by(Finding.id)
    )
    return session.scalars(query).all()


def _latest(session: Session, key: str) -> tuple[Finding | None, int]:
    found = _generations(session, key)
    return (found[-1] if found else None), len(found)


def _settled(session: Session, key: str, latest: Finding | None) -> frozenset[int]:
    """Return the verdicts that stay with stale generations of this finding."""
    if latest is None:
        return frozenset()
    closed = [
        finding.id
        for finding in _generations(session, key)
        if finding is not latest or finding.status is FindingStatus.STALE
    ]
    if not closed:
        return frozenset()
    query = select(FindingEvidence.verdict_id).where(FindingEvidence.finding_id.in_(closed))
    return frozenset(session.scalars(query))


def _add(
    session: Session, key: str, draft: FindingDraft, fact: VerdictFact, stale: Finding | None
) -> FindingChange:
    campaign_id = session.scalars(
        select(Experiment.campaign_id)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Verdict.id == draft.evidence[0][0])
    ).one()
    finding = Finding(campaign_id=campaign_id, key=key, scope=draft.scope, rule="", claim="", strength="")
    _write(finding, draft)
    session.add(finding)
    session.flush()
    _write_evidence(session, finding, draft)
    superseded = [stale] if stale is not None else _older_versions(session, fact, finding)
    for older in superseded:
        older.superseded_by_id = finding.id
        if older.status is not FindingStatus.STALE:
            older.status = FindingStatus.SUPERSEDED
            older.status_reason = f"{_label(finding)} says it on newer versions."
    session.flush()
    _announce(session, EventKind.FINDING_ADDED, finding, campaign_id, [_label(each) for each in superseded])
    return FindingChange(finding.id, added=True)


def _older_versions(session: Session, fact: VerdictFact, new: Finding) -> list[Finding]:
    query = select(Finding).where(
        Finding.key.startswith(fact.lineage_key + "@", autoescape=True),
        Finding.id != new.id,
        Finding.superseded_by_id.is_(None),
    )
    return list(session.scalars(query))


def _change(session: Session, finding: Finding, draft: FindingDraft) -> tuple[FindingChange, ...]:
    before = (finding.claim, finding.rule, finding.strength, finding.status)
    held = finding.status
    _write(finding, draft)
    if held is FindingStatus.SUPERSEDED:
        finding.status = held
    same_evidence = not _write_evidence(session, finding, draft)
    if same_evidence and before == (finding.claim, finding.rule, finding.strength, finding.status):
        return ()
    finding.updated_at = now()  # an SQL expression: the database's clock
    session.flush()
    _announce(session, EventKind.FINDING_CHANGED, finding, finding.campaign_id, [])
    return (FindingChange(finding.id, added=False),)


def _write(finding: Finding, draft: FindingDraft) -> None:
    finding.claim = draft.claim
    finding.rule = draft.rule.value
    finding.strength = draft.strength.value
    finding.status = draft.status
    finding.status_reason = draft.status_reason
    finding.scope = draft.scope
    estimate = draft.estimate
    finding.effect_log = estimate.effect_log if estimate else None
    finding.interval_low_log = estimate.low_log if estimate else None
    finding.interval_high_log = estimate.high_log if estimate else None


def _write_evidence(session: Session, finding: Finding, draft: FindingDraft) -> bool:
    """Write what each verdict says about the finding; return whether that is news."""
    wanted = dict(draft.evidence)
    news = False
    for row in session.scalars(select(FindingEvidence).where(FindingEvidence.finding_id == finding.id)):
        relation = wanted.pop(
            row.verdict_id
        )  # evidence is never taken back: `derive` sees every verdict again
        news = news or row.relation is not relation
        row.relation = relation
    session.add_all(
        FindingEvidence(finding_id=finding.id, verdict_id=verdict_id, relation=relation)
        for verdict_id, relation in wanted.items()
    )
    session.flush()
    return news or bool(wanted)


def _announce(
    session: Session, kind: EventKind, finding: Finding, campaign_id: int | None, supersedes: list[str]
) -> None:
    data = {
        "rule": finding.rule,
        "strength": finding.strength,
        "status": finding.status.value,
        "supersedes": supersedes,
    }
    events.append(session, kind, finding.claim, _label(finding), campaign_id, data)


def _label(finding: Finding) -> str:
    return format_label(Noun.FINDING, finding.id)
