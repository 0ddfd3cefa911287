"""From the job of a baseline to trial 0 of its campaign, told with what the engine's own default took."""

from __future__ import annotations

from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.measured import Baseline, naive_failed, read_baseline
from agent.campaign.known.stored_ground import stored_ground
from agent.campaign.learning.kernels_told import tell_kernels
from agent.campaign.learning.profile_told import profile_told
from agent.campaign.learning.verdicts import fail
from agent.ground.drafter import space_of
from agent.ground.stored_spec import AT_ONCE, FOUND, START
from agent.surrogate.levers import joined
from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment
from experiments.measurement.evidence import Metric, Stage
from experiments.recording import load_stages
from experiments.space.configuration import Configuration
from knowledge.figures import taken, taken_of
from knowledge.findings.facts import versions_of_experiments
from knowledge.findings.staleness import Ran, follow_versions
from knowledge.latency_only import LATENCY_ONLY, latency_only
from knowledge.queries.present.now_prompt import profiled_prompt
from knowledge.stored import engine_of, metric_of
from knowledge.sweep_failures import update_sweep_failures


def learn_baseline(session: Session, experiment_id: int) -> None:
    """Make the chosen configuration the campaign's baseline, or mark the experiment failed.

    What was found on this target with other versions is stale from now on: nothing is ruled out by it.
    """
    experiment = session.get_one(Experiment, experiment_id)
    campaign = session.get_one(Campaign, experiment.campaign_id)
    chosen = next(
        (
            stage.detail["chosen"]
            for stage in load_stages(session, experiment_id)
            if stage.stage is Stage.SWEEP and isinstance(stage.detail.get("chosen"), dict)
        ),
        None,
    )
    if experiment.failure is not None or chosen is None:
        fail(session, experiment, experiment.failure or "the sweep chose nothing")
        return
    baseline = Configuration.of(chosen)  # type: ignore[arg-type]
    campaign.naive_configuration_id = experiment.control_configuration_id
    campaign.baseline_configuration_id = store.configuration_id(session, baseline)
    experiment.control_configuration_id = campaign.baseline_configuration_id
    own = Metric(metric_of(campaign.objective))
    measured = read_baseline(session, experiment_id, own)
    in_turn = campaign.spec[FOUND].get(AT_ONCE) == 1
    naive = store.configurations(session, [campaign.naive_configuration_id])
    naive_digest = naive[campaign.naive_configuration_id].digest
    begun_elsewhere = START in campaign.spec[FOUND]
    subject = format_label(Noun.EXPERIMENT, experiment_id)
    own_ms = measured.own_ms.get(baseline.digest)
    own_taken = "" if own is Metric.TPOT_MS or own_ms is None else f"{taken(own_ms, own.value)}, "
    quality = "" if measured.bits_per_byte is None else f", {measured.bits_per_byte:.4f} bits per byte"
    if latency_only(campaign.spec):
        quality = f"; {LATENCY_ONLY}, and quality is not known"
    why = naive_failed(session, experiment_id)
    events.append(
        session,
        EventKind.CAMPAIGN_BASELINE,
        f"Trial 0 is {own_taken}{measured.tpot_ms[baseline.digest]:.2f} ms a token ({baseline}){quality}; "
        + (
            f"the engine's own default was not measured: {why}"
            if begun_elsewhere
            else _against_naive(measured, own, baseline.digest, naive_digest, why, in_turn=in_turn)
        ),
        subject=subject,
        campaign_id=campaign.id,
        data={
            "baseline": {
                "configuration": dict(baseline),
                "tpot_ms": measured.tpot_ms[baseline.digest],
                "sweep_tpot_ms": measured.sweep_tpot_ms.get(baseline.digest),
                "ttft_ms": measured.ttft_ms[baseline.digest],
                own.value: own_ms,
                "bits_per_byte": measured.bits_per_byte,
            },
            "naive": {
                "configuration": dict(naive[campaign.naive_configuration_id]),
                "tpot_ms": measured.tpot_ms.get(naive_digest),
                own.value: measured.own_ms.get(naive_digest),
                "sweep_tpot_ms": measured.sweep_tpot_ms.get(naive_digest),
                "failed": why,
            },
        },
    )
    versions = versions_of_experiments(session, [experiment])[experiment_id]
    follow_versions(session, Ran(experiment.target, engine_of(campaign.spec), versions), subject)
    space = space_of(stored_ground(session, campaign).spec)
    update_sweep_failures(
        session,
        experiment_id,
        baseline,
        measured.sweep_tpot_ms.keys(),
        lambda failed: joined(space.levers_between(baseline, failed)),
    )
    tell_kernels(session, experiment_id, campaign.id)
    by_kind_ms: dict[str, float] = {}
    for part in measured.profile:
        by_kind_ms[part.kind] = by_kind_ms.get(part.kind, 0.0) + part.time_ms
    prompt, no_prompt = profiled_prompt(session, experiment_id)
    if told := profile_told(by_kind_ms, prompt, own, no_prompt):
        events.append(
            session,
            EventKind.CAMPAIGN_PROFILED,
            told,
            subject=subject,
            campaign_id=campaign.id,
            data={"by_kind_ms": by_kind_ms},
        )


def _against_naive(
    measured: Baseline, own: Metric, baseline: str, naive: str, why: str | None, *, in_turn: bool
) -> str:
    """How the naive default compares, by digest: by the sweep alone, which timed both side by side, or, where
    launches are in turn, one after the other. `why` says what kept it from that."""
    if naive == baseline:
        return "that is the naive default itself"
    before, after = measured.sweep_tpot_ms.get(naive), measured.sweep_tpot_ms.get(baseline)
    if before is None or after is None:
        told = "the engine's own default did not run here, and this is the best of the sweep's others"
        return told if why is None else f"{told}: {why.rstrip('.')}"
    unit = taken_of(own.value)
    if own is not Metric.TPOT_MS:
        before, after = measured.own_ms[naive], measured.own_ms[baseline]
    how = "one after the other" if in_turn else "side by side"
    return (
        f"{how} in the sweep the naive default took {before / after:.2f}× as long "
        f"({before:.2f} against {after:.2f} ms {unit})"
    )
