"""What a campaign came to: the one object that `autoinfer run --json` prints last. Numbers from rows only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import fmean, median
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from agent.campaign.known.facts import Facts
from agent.campaign.known.incumbent import Incumbent, is_on
from agent.campaign.known.measured import bits_per_byte, naive_failed, read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.judge.pairs import TIMED_STAGES, paired_blocks
from agent.proposers.port import Trial
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label, parse_label
from db.models import Campaign, Event, Experiment, Hypothesis, Verdict
from db.money import spent_by, usd
from db.states import ExperimentState, HypothesisState
from experiments.measurement.evidence import Arm, LaunchRecord, Metric
from experiments.measurement.location import hodges_lehmann
from experiments.recording import load_launches
from knowledge.change_words import joined, phrases
from knowledge.figures import against_control
from knowledge.going_on import how_to_go_on
from knowledge.latency_only import FASTEST
from knowledge.queries.claims.discovery import discovery_view, tests_of
from knowledge.queries.spent.saved_time import saved_time

COUNTED = (
    HypothesisState.SUPPORTED,
    HypothesisState.REFUTED,
    HypothesisState.INCONCLUSIVE,
    HypothesisState.CONFOUNDED,
    HypothesisState.INFEASIBLE,
)
"""Outcomes that are counted, in the order in which they are shown."""


def campaign_outcome(session: Session, campaign_id: int) -> dict[str, Any]:
    """The result of a campaign, running or stopped, as plain JSON data.

    `baseline`, `naive` and `best` are None until they were measured. `baseline.tpot_ms` is of fresh launches
    after the sweep, `naive.tpot_ms` as many times that as the sweep measured side by side (`sweep_tpot_ms`),
    None where the naive default did not last through it. `best.speedup` is the baseline over the best on the
    campaign's own metric, `best.metric`, measured in one experiment against the baseline where there is one
    (`speedup_basis` is its label), else multiplied along the chain of supported changes (`speedup_basis` is
    `chain`); its interval is the verdict's, at the judge's level, and None when the best is the baseline
    itself. `best.tpot_ms` and `best.control_tpot_ms` are the arms of `best.experiment`, measured side by
    side, and so are those under the name of another own metric, as `ttft_ms` and `control_ttft_ms`;
    `baseline.tpot_ms` is of another time and is not to be divided by them. The control of a chain's last step
    is the best before it. `note` says where the best's time stands for this engine alone, or that with
    made-up weights it is what is fastest by time alone (`latency_only`), None where neither is so.
    `open_questions` are the ids of what the campaign asks and nothing decided yet. `stopped_early` is what
    timed experiments took against their full plans (`knowledge.queries.spent.saved_time`). `discovery` is
    what the online control of false discoveries bounds (`knowledge.queries.claims.discovery`). `go_on` is how
    to go on where it ended before it judged anything (`knowledge.going_on`), else None.
    """
    campaign = session.get_one(Campaign, campaign_id)
    facts = read_facts(session, campaign_id)
    by_state = (
        select(Hypothesis.state, func.count())
        .where(Hypothesis.campaign_id == campaign_id, Hypothesis.target == "")
        .group_by(Hypothesis.state)
    )
    counts = {state: count for state, count in session.execute(by_state)}  # noqa: C416 - rows, not pairs
    done = session.scalar(
        select(func.count())
        .select_from(Experiment)
        .where(Experiment.campaign_id == campaign_id, Experiment.state == ExperimentState.DONE)
    )
    told = session.scalar(select(func.count()).select_from(Event).where(Event.campaign_id == campaign_id))
    return {
        "campaign_id": facts.label,
        "latency_only": facts.spec.latency_only,
        "stopped_because": campaign.stopped_because,
        "go_on": how_to_go_on(
            facts.label,
            campaign.state,
            campaign.stopped_because,
            judged=sum(counts.get(state, 0) for state in COUNTED if state is not HypothesisState.INFEASIBLE),
            spent_s=facts.spent_s,
            budget_s=facts.spec.budget.wall_s,
        ),
        **_measured(session, facts),
        "hypotheses": {state.value: counts.get(state, 0) for state in COUNTED},
        **_confirmed(session, facts),
        "discovery": discovery_view(
            tests_of(session, [campaign_id])[campaign_id], facts.spec.plan.alpha
        ).model_dump(mode="json"),
        "open_questions": list(facts.open_questions),
        "spent": {"wall_s": round(facts.spent_s, 1), "experiments": done or 0, **_dollars(session, facts)},
        "stopped_early": saved_time(session, campaign_id).model_dump(),
        "events": told or 0,
    }


def _dollars(session: Session, facts: Facts) -> dict[str, float]:
    """What the campaign's runs on rented machines count for; nothing of one that rents none."""
    return {"usd": usd(spent_by(session, facts.id))} if facts.spec.rented else {}


def _confirmed(session: Session, facts: Facts) -> dict[str, dict[str, dict[str, int]]]:
    """What became of the confirmations on each other target, by outcome; nothing of a campaign without."""
    if not facts.spec.confirm_on:
        return {}
    query = (
        select(Hypothesis.target, Hypothesis.state, func.count())
        .where(Hypothesis.campaign_id == facts.id, Hypothesis.target != "")
        .group_by(Hypothesis.target, Hypothesis.state)
    )
    found: dict[str, dict[str, int]] = {}
    for target, state, count in session.execute(query):
        found.setdefault(target, {})[state.value] = count
    return {"confirmed": found}


def note_best(session: Session, campaign_id: int) -> None:
    """Write down and tell when another configuration has become the best; call it after each verdict."""
    campaign = session.get_one(Campaign, campaign_id)
    facts = read_facts(session, campaign_id)
    incumbent = facts.incumbent
    if incumbent is None or incumbent.experiment_id is None:
        return
    best = _best(session, facts, incumbent)
    _, shown = parse_label(best["experiment"])
    if campaign.best_experiment_id == shown:
        return
    campaign.best_experiment_id = shown
    interval = best["speedup_interval"]
    around = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    assert facts.baseline is not None
    told = phrases(facts.baseline.changes_to(incumbent.configuration))
    by = f", by {joined([each.text for each in told])}" if told else ""
    events.append(
        session,
        EventKind.CAMPAIGN_BEST,
        f"The best is now {best['speedup']:.3f}×{around} as fast as the baseline: "
        f"{against_control(best)}{by}" + (f"; {best['note']}" if best["note"] else ""),
        subject=best["experiment"],
        campaign_id=campaign_id,
        data=best,
    )


def _measured(session: Session, facts: Facts) -> dict[str, Any]:
    if facts.baseline is None or facts.naive is None or facts.baseline_experiment_id is None:
        return {"baseline": None, "naive": None, "best": None}
    measured = read_measured(session, facts)
    digest, own = facts.baseline.digest, facts.objective.value
    baseline = {
        "configuration": dict(facts.baseline),
        "tpot_ms": measured.tpot_ms[digest],
        "sweep_tpot_ms": measured.sweep_tpot_ms.get(digest),
        "ttft_ms": measured.ttft_ms[digest],
        own: measured.own_ms.get(digest),
        "bits_per_byte": measured.bits_per_byte,
    }
    naive = {
        "configuration": dict(facts.naive),
        "tpot_ms": measured.tpot_ms.get(facts.naive.digest),
        own: measured.own_ms.get(facts.naive.digest),
        "sweep_tpot_ms": measured.sweep_tpot_ms.get(facts.naive.digest),
        "failed": naive_failed(session, facts.baseline_experiment_id),
    }
    incumbent = facts.incumbent
    assert incumbent is not None
    if incumbent.experiment_id is None:
        best: dict[str, Any] = {
            "configuration": dict(facts.baseline),
            "metric": own,
            "tpot_ms": baseline["tpot_ms"],
            "ttft_ms": baseline["ttft_ms"],
            "control_tpot_ms": baseline["tpot_ms"],
            own: baseline[own],
            f"control_{own}": baseline[own],
            "bits_per_byte": baseline["bits_per_byte"],
            "speedup": 1.0,
            "speedup_interval": None,
            "speedup_basis": None,
            "note": FASTEST if facts.spec.latency_only else None,
            "experiment": None,
        }
    else:
        best = _best(session, facts, incumbent)
    return {"baseline": baseline, "naive": naive, "best": best}


def _best(session: Session, facts: Facts, incumbent: Incumbent) -> dict[str, Any]:
    assert facts.baseline is not None
    direct = direct_trial(facts, incumbent)
    shown = direct.experiment_id if direct is not None else incumbent.experiment_id
    assert shown is not None
    launches = load_launches(session, shown)
    tpot, ttft = arms_ms(launches, Metric.TPOT_MS), arms_ms(launches, Metric.TTFT_MS)
    metric, own = facts.objective.value, arms_ms(launches, facts.objective)
    if direct is not None:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == shown)).one()
        low, high = verdict.interval_low_log, verdict.interval_high_log
        speedup = math.exp(-(verdict.effect_log or 0.0))
        interval = None if low is None or high is None else [math.exp(-high), math.exp(-low)]
        basis = format_label(Noun.EXPERIMENT, shown)
    else:
        speedup, interval, basis = math.exp(-incumbent.log_ratio), None, "chain"
    return {
        "configuration": dict(incumbent.configuration),
        "metric": metric,
        "tpot_ms": tpot[Arm.CANDIDATE],
        "ttft_ms": ttft[Arm.CANDIDATE],
        "control_tpot_ms": tpot[Arm.CONTROL],
        metric: own[Arm.CANDIDATE],
        f"control_{metric}": own[Arm.CONTROL],
        "speedup": speedup,
        "speedup_interval": interval,
        "speedup_basis": basis,
        "bits_per_byte": bits_per_byte(launches, Arm.CANDIDATE),
        "note": FASTEST if facts.spec.latency_only else weights_note(launches),
        "experiment": format_label(Noun.EXPERIMENT, shown),
    }


def weights_note(launches: Iterable[LaunchRecord]) -> str | None:
    """Why the candidate's time says nothing of its weights as they are stored, as its launches told; None
    where they told of nothing such."""
    for each in launches:
        weights = each.resolved.get("weights")
        if each.arm is not Arm.CANDIDATE or not isinstance(weights, dict):
            continue
        if weights.get("latency_representative") is False:
            return str(weights.get("latency_reason") or "the engine does not serve these weights as stored")
    return None


def direct_trial(facts: Facts, incumbent: Incumbent) -> Trial | None:
    """The judged experiment that compared the incumbent with the baseline itself, if there is one."""
    assert facts.baseline is not None
    for trial in facts.trials:
        pair = (trial.control.digest, trial.candidate.digest)
        if (
            pair == (facts.baseline.digest, incumbent.configuration.digest)
            and trial.effect_log is not None
            and is_on(trial, facts.objective)
        ):
            return trial
    return None


def arms_ms(launches: Iterable[LaunchRecord], metric: Metric) -> dict[Arm, float | None]:
    """What each arm of an experiment took, in ms; None where no pair of launches measured it.

    Only what the judge compares, as it does: blocks that both launches of a pair have; the centre of a launch
    is the Hodges-Lehmann estimate over the medians of its blocks; pairs weigh the same, on the log scale. So
    the quotient of the arms is the speedup of the verdict but for the rounding of robust estimates.
    """
    records: dict[tuple[int, Arm], list[LaunchRecord]] = {}
    for each in launches:
        if each.stage in TIMED_STAGES:
            records.setdefault((each.index, each.arm), []).append(each)
    centres: dict[Arm, list[float]] = {arm: [] for arm in Arm}
    for index in sorted({index for index, _ in records}):
        blocks = paired_blocks(
            records.get((index, Arm.CONTROL), ()), records.get((index, Arm.CANDIDATE), ()), metric
        )
        if blocks:
            centres[Arm.CONTROL].append(hodges_lehmann([median(each.values()) for _, each, _ in blocks]))
            centres[Arm.CANDIDATE].append(hodges_lehmann([median(each.values()) for *_, each in blocks]))
    return {arm: math.exp(fmean(logs)) if logs else None for arm, logs in centres.items()}
