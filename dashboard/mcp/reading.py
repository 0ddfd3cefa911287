"""From the knowledge's queries to the tools' answers: bounded, with others' text marked. Reads only."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from sqlalchemy.orm import Session

from agent.campaign.outcome import campaign_outcome
from configs.errors import UsageError
from dashboard.mcp import answers
from dashboard.mcp.answers import changes, listed, measured, predicted
from dashboard.mcp.asking import spoken_against, tested_campaign
from dashboard.mcp.quoting import LONG, SHORT, maybe, quoted, told
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.states import Arm, ExperimentState, FindingStatus, HypothesisState, VerdictOutcome
from knowledge.queries.campaigns import CampaignView, campaign_detail, list_campaigns
from knowledge.queries.experiment_detail import experiment_detail
from knowledge.queries.experiments import ExperimentRow, ExperimentsAsked, find_experiments
from knowledge.queries.facts import campaign_facts
from knowledge.queries.finding_detail import finding_detail
from knowledge.queries.findings import FindingView, list_findings
from knowledge.queries.hypotheses import list_hypotheses
from knowledge.queries.hypothesis_detail import hypothesis_detail
from knowledge.queries.log import event_view
from knowledge.queries.lookup import campaign_filter, campaign_of, labelled
from knowledge.queries.pareto import pareto as pareto_view
from knowledge.queries.quality_tests import quality_tests
from knowledge.queries.queue import queue_page
from knowledge.queries.samples import SamplesAsked, samples_page
from knowledge.queries.view import ChangeView
from knowledge.stored import TOLD_BY
from knowledge.summary import summarize

MOST_FRONT, MOST_SPREADS, MOST_EVIDENCE, MOST_MOVES, MOST_RELATED = 25, 24, 25, 5, 25
"""Rows of one kind within one answer."""


def campaigns(session: Session, limit: int, offset: int) -> answers.Listed[answers.CampaignAnswer]:
    """Campaigns, newest first."""
    page = list_campaigns(session, limit=limit, offset=offset, discovery=False)
    return listed([_campaign(each) for each in page.items], page.total, offset)


def campaign(session: Session, label: str | None) -> answers.CampaignAnswer:
    """One campaign, the newest if none is named."""
    return _campaign(campaign_detail(session, campaign_of(session, label)))


def _campaign(found: CampaignView) -> answers.CampaignAnswer:
    return answers.CampaignAnswer(
        id=found.id,
        model=found.model,
        target=found.target,
        state=found.state.value,
        stopped_because=maybe(found.stopped_because),
        objective=found.objective,
        limits=found.limits,
        budget=found.budget,
        hypotheses=found.hypotheses,
        experiments=found.spent.experiments,
        experiment_s=found.spent.experiment_s,
        best_experiment=found.best_experiment,
        awaiting_approval=found.awaiting[:MOST_RELATED],
        directives=tuple(f"{each.id} {each.kind.value}: {told(each.text)}" for each in found.directives)[
            -MOST_RELATED:
        ],
    )


def queue(
    session: Session, label: str | None, lever: str | None, limit: int, offset: int
) -> answers.Listed[answers.QueueItem]:
    """The queue of a campaign in its order, what is under test first."""
    page = queue_page(session, campaign_of(session, label), limit=limit, offset=offset, lever=lever)
    items = [
        answers.QueueItem(
            rank=each.rank,
            id=each.id,
            state=each.state.value,
            claim=quoted(each.claim),
            lever=each.lever,
            change=changes(each.change),
            predicted=predicted(each.predicted),
            min_effect_percent=round(100 * each.min_effect, 3),
            reason=maybe(each.reason),
            proposer=each.proposer,
            pinned=each.pinned,
            awaits_approval=each.approval is not None and each.approval.waits,
        )
        for each in page.items
    ]
    return listed(items, page.total, offset)


def hypotheses(
    session: Session,
    label: str | None,
    states: tuple[HypothesisState, ...],
    lever: str | None,
    proposer: str | None,
    text: str | None,
    limit: int,
    offset: int,
) -> answers.Listed[answers.HypothesisItem]:
    """Hypotheses, those under test and in the queue first."""
    page = list_hypotheses(
        session,
        campaign_id=campaign_filter(session, label),
        states=states,
        lever=lever,
        proposer=proposer,
        text=text,
        limit=limit,
        offset=offset,
    )
    items = [
        answers.HypothesisItem(
            id=each.id,
            campaign=each.campaign,
            state=each.state.value,
            claim=quoted(each.claim),
            lever=each.lever,
            change=changes(each.change),
            predicted=predicted(each.predicted),
            measured=measured(each.measured),
            experiment=each.experiment,
            proposer=each.proposer,
        )
        for each in page.items
    ]
    return listed(items, page.total, offset)


def why(session: Session, label: str) -> answers.WhyAnswer:
    """Why a hypothesis stands where it does, or what ruled it out."""
    found = hypothesis_detail(session, labelled(session, Noun.HYPOTHESIS, label))
    newest = sorted(found.moves, key=lambda each: each.ranking_event_id, reverse=True)[:MOST_MOVES]
    return answers.WhyAnswer(
        id=found.id,
        campaign=found.campaign,
        state=found.state.value,
        state_reason=maybe(found.state_reason, LONG),
        verdict_reason=maybe(found.verdict_reason, LONG),
        why_not=maybe(spoken_against(session, label), LONG),
        claim=quoted(found.claim, LONG),
        rationale=quoted(found.rationale, LONG),
        refuted_if=quoted(found.refuted_if),
        proposer=found.proposer,
        proposer_record=found.proposer_hits,
        change=changes(found.change),
        predicted=predicted(found.predicted),
        measured=measured(found.measured),
        rank=found.rank,
        rank_reason=maybe(found.rank_reason, LONG),
        score={name: value for name, value in (found.score or {}).items() if _is_small(value)},
        waits_for=found.approval.words if found.approval is not None and found.approval.waits else None,
        last_moves=tuple(
            answers.Moved(
                from_rank=each.from_rank,
                to_rank=each.to_rank,
                reason=quoted(each.reason),
                cause=quoted(each.cause),
            )
            for each in newest
        ),
        experiments=tuple(
            f"{each.id}: {each.kind.value}, {each.outcome.value if each.outcome else each.state.value}"
            for each in found.experiments[-MOST_RELATED:]
        ),
        findings=tuple(
            f"{each.id}: {each.relation.value}, {each.strength}, {each.status.value}"
            for each in found.findings[:MOST_RELATED]
        ),
        follows_from=found.parents[:MOST_RELATED],
        led_to=found.children[:MOST_RELATED],
    )


def _is_small(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def experiments(
    session: Session,
    label: str | None,
    states: tuple[ExperimentState, ...],
    outcomes: tuple[VerdictOutcome, ...],
    lever: str | None,
    text: str | None,
    limit: int,
    offset: int,
) -> answers.Listed[answers.ExperimentItem]:
    """Experiments, newest first."""
    asked = ExperimentsAsked(
        campaign_id=campaign_filter(session, label),
        states=states,
        outcomes=outcomes,
        lever=lever,
        text=text,
    )
    page = find_experiments(session, asked, limit=limit, offset=offset)
    items = [answers.ExperimentItem(**_experiment(each)) for each in page.items]
    return listed(items, page.total, offset)


def _experiment(found: ExperimentRow, most: int = SHORT) -> dict[str, object]:
    return {
        "id": found.id,
        "campaign": found.campaign,
        "hypothesis": found.hypothesis,
        "kind": found.kind.value,
        "state": found.state.value,
        "outcome": None if found.outcome is None else found.outcome.value,
        "claim": maybe(found.claim, most),
        "change": changes(found.change),
        "measured": measured(found.effect),
        "reason": maybe(found.reason, most),
        "target": found.target,
        "took_s": found.wall_s,
    }


def experiment(session: Session, label: str) -> answers.ExperimentAnswer:
    """One experiment: its verdict with the interval and the reason, and what lies behind it."""
    found = experiment_detail(session, labelled(session, Noun.EXPERIMENT, label))
    spreads = [
        answers.ArmSpread(
            arm=launch.arm.value,
            launch=launch.index,
            stage=launch.stage,
            metric=each.metric,
            unit=each.unit,
            count=each.count,
            median=_rounded(each.median),
            low=_rounded(each.low),
            high=_rounded(each.high),
        )
        for launch in found.launches
        for each in launch.spreads
    ]
    spreads.sort(key=lambda each: each.metric != found.metric)  # those that are judged come first
    verdict = found.verdict
    return answers.ExperimentAnswer(
        **_experiment(found, LONG),
        predicted=predicted(found.predicted),
        rationale=maybe(found.rationale, LONG),
        refuted_if=maybe(found.refuted_if),
        judged_on=found.metric,
        launches=None if verdict is None else verdict.launches,
        samples=None if verdict is None else verdict.samples,
        quality=tuple(
            answers.Quality(
                name=each.name,
                unit=each.unit,
                difference=each.difference,
                low=each.low,
                high=each.high,
                allowed=each.margin,
                count=each.count,
                state=each.state,
            )
            for each in quality_tests(None if verdict is None else verdict.quality)
        ),
        latency_only=found.latency_only,
        preregistered=found.preregistration_digest,
        changed_since_sealed=found.changed_since_sealed,
        spreads=tuple(spreads[:MOST_SPREADS]),
        spreads_left_out=max(0, len(spreads) - MOST_SPREADS),
        also_differed=tuple(
            quoted(f"{each.name}: {each.control} → {each.candidate}")
            for each in found.resolved_differences[:MOST_RELATED]
        ),
        failure_kind=found.failure_kind,
        failure=maybe(found.failure, LONG),
        stages=tuple(
            f"{each.stage}: {each.outcome.value if each.outcome else 'running'}"
            for each in found.stages[:MOST_RELATED]
        ),
        versions=dict(islice((found.versions or {}).items(), MOST_RELATED)),
        reproduced_by=found.reproduced_by[:MOST_RELATED],
        reproduce_command=found.reproduce_command,
    )


def _rounded(value: float) -> float:
    """A quantile to six digits: it is interpolated, and raw samples are told whole."""
    return float(f"{value:.6g}")


def samples(
    session: Session,
    label: str,
    metric: str | None,
    arm: Arm | None,
    launch: int | None,
    limit: int,
    offset: int,
) -> answers.SamplesAnswer:
    """Raw samples of an experiment, launch by launch."""
    asked = SamplesAsked(arm=arm, launch=launch, metric=metric)
    number = labelled(session, Noun.EXPERIMENT, label)
    found, total, metrics = samples_page(session, number, asked, limit=limit, offset=offset)
    if metric is not None and metric not in metrics:
        known = f"It has {', '.join(metrics)}." if metrics else "It has no sample yet."
        raise UsageError(f"{format_label(Noun.EXPERIMENT, number)} has no samples of {metric!r}.", known)
    items = [
        answers.Sample(
            arm=each.arm.value,
            launch=each.launch,
            stage=each.stage,
            block=each.block,
            item=told(each.item, 80) or "",
            metric=each.metric,
            unit=each.unit,
            value=each.value,
        )
        for each in found
    ]
    page = listed(items, total, offset)
    return answers.SamplesAnswer(
        items=page.items, total=page.total, next_offset=page.next_offset, metrics=metrics
    )


def findings(
    session: Session,
    about: str | None,
    target: str | None,
    label: str | None,
    statuses: tuple[FindingStatus, ...],
    limit: int,
    offset: int,
) -> answers.Listed[answers.FindingItem]:
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
    return listed([answers.FindingItem(**_finding(each)) for each in page.items], page.total, offset)


def _finding(found: FindingView) -> dict[str, object]:
    scope = found.scope
    return {
        "id": found.id,
        "claim": quoted(found.claim),
        "status": found.status.value,
        "status_reason": maybe(found.status_reason),
        "strength": found.strength,
        "told_by": scope.get(TOLD_BY, "the user") if found.rule == "R0-told" else None,
        "effect": measured(found.effect),
        "holds_for": quoted(
            ", ".join(f"{name} {scope[name]}" for name in ("model", "target", "engine") if scope.get(name))
        ),
        "lever": str(scope.get("lever", "")),
        "change": changes([ChangeView.model_validate(each) for each in scope.get("change") or ()]),
        "campaigns_for": found.says_so,
        "campaigns_against": found.says_not,
    }


def finding(session: Session, label: str) -> answers.FindingAnswer:
    """One finding in full."""
    found = finding_detail(session, labelled(session, Noun.FINDING, label))
    pooled = found.pooled
    several = pooled is not None and len(pooled.campaigns) > 1
    return answers.FindingAnswer(
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
            answers.Evidence(
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
        disputes=tuple(quoted(each.question, LONG) for each in found.disputes[:MOST_RELATED]),
    )


def summary(session: Session, label: str | None) -> answers.SummaryAnswer:
    """A campaign as a story."""
    campaign_id = tested_campaign(session, label)
    outcome = campaign_outcome(session, campaign_id)
    found = summarize(replace(campaign_facts(session, campaign_id), outcome=outcome))
    return answers.SummaryAnswer(
        campaign=found.campaign,
        state=found.state.value,
        headline=told(found.headline) or "",
        parts=tuple(
            answers.SummaryPart(title=each.title, text=quoted(" | ".join((each.sentence, *each.lines)), LONG))
            for each in found.parts()
        ),
        stopped_because=maybe(found.stopped_because, LONG),
    )


def log(
    session: Session, label: str | None, after_id: int | None, kinds: tuple[EventKind, ...], limit: int
) -> answers.LogAnswer:
    """Lines of the log: the last ones, or the first after an id."""
    campaign_id = campaign_filter(session, label)
    wanted = kinds or None
    if after_id is None:
        rows = events.latest(session, limit, wanted, campaign_id)
    else:
        rows = events.read(session, after_id, limit, wanted, campaign_id)
    last = rows[-1].id if rows else events.last_id(session) if after_id is None else after_id
    views = map(event_view, rows)
    return answers.LogAnswer(
        events=tuple(
            answers.EventAnswer(
                id=each.id,
                at=each.at,
                kind=each.kind,
                subject=each.subject,
                campaign=each.campaign,
                text=quoted(each.text),
            )
            for each in views
        ),
        last_id=last,
    )


def pareto(session: Session, label: str | None, metric: str | None) -> answers.ParetoAnswer:
    """Latency against quality, with the incumbent."""
    found = pareto_view(session, campaign_of(session, label), metric)
    front = found.front
    if len(front) > MOST_FRONT:  # what one looks for first is never left out
        wanted = [each for each in front if each.is_best or each.is_baseline]
        rest = [each for each in front if not (each.is_best or each.is_baseline)]
        front = tuple(sorted((*wanted, *rest[: MOST_FRONT - len(wanted)]), key=lambda each: each.latency_ms))
    return answers.ParetoAnswer(
        campaign=found.campaign,
        metric=found.metric,
        concurrency=found.concurrency,
        quality_limit_percent=None if found.quality_limit is None else 100 * found.quality_limit,
        baseline_ms=found.baseline_ms,
        floor_ms=None if found.floor is None else found.floor.ms,
        front=tuple(
            answers.FrontItem(
                experiment=each.experiment,
                change=changes(each.change),
                outcome=None if each.outcome is None else each.outcome.value,
                latency_ms=each.latency_ms,
                low_ms=each.low_ms,
                high_ms=each.high_ms,
                bits_per_byte_percent=round(100 * each.quality, 4),
                within_limit=each.within_limit,
                is_baseline=each.is_baseline,
                is_best=each.is_best,
            )
            for each in front
        ),
        front_left_out=len(found.front) - len(front),
        configurations=found.configurations,
    )
