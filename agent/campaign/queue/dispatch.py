"""From a ranked hypothesis to an experiment in the durable queue: preregistered, typed, priced in seconds."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy.orm import Session

from agent.campaign.known import store
from agent.campaign.known.facts import Facts, Queued
from agent.campaign.known.room import with_room
from agent.discovery.stream import next_test
from agent.ground.sweep import swept
from agent.ground.timed_kernels import timed_kernels
from agent.plan.further import further_of
from agent.plan.length import length_of, length_told
from configs.targets import device_there
from db import events, queue
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis
from db.states import ExperimentKind, HypothesisState
from experiments.job.named import load_judge, times_kernels
from experiments.job.seal import sealed
from experiments.job.spec import BaselineJob, NoiseState, TestJob
from experiments.measurement.evidence import QUALITY_METRICS, SCORED_METRICS, Metric
from experiments.measurement.plan import StoppingPlan, Workload
from experiments.recording import load_launches, load_noise, texts_of
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space
from experiments.space.space import Space
from knowledge.stored import stands_for_of

IN_TURN = "its launches run in turn, for by the memory plan its arms do not fit side by side"
"""What is told of a test that takes more memory than its campaign began with."""


def stopping_plan(facts: Facts, hypothesis: Queued, support_alpha: float | None = None) -> StoppingPlan:
    """The campaign's plan with the hypothesis's own metric, prediction and smallest effect worth having.

    `support_alpha` is the level at which its test can be supported; None where no online control sets it.
    """
    return StoppingPlan.model_validate(
        {
            **facts.spec.plan.model_dump(),
            "metric": hypothesis.metric,
            "prediction": hypothesis.prediction,
            "min_effect": hypothesis.min_effect,
            "support_alpha": support_alpha,
            "latency_only": facts.spec.latency_only,
        }
    )


def dispatch_baseline(session: Session, facts: Facts, space: Space, device: str | None = None) -> int:
    """Enqueue the experiment that finds and measures trial 0; returns its id. The campaign's first device
    measures it if none is given."""
    device = device or facts.spec.devices[0]
    naive = space.configuration({})
    sweep = swept(space, facts.start, facts.spec.baseline.sweep)
    naive_id = store.configuration_id(session, naive)
    baseline = facts.spec.baseline
    experiment = Experiment(
        campaign_id=facts.id,
        kind=ExperimentKind.BASELINE,
        target=facts.target_key,
        control_configuration_id=naive_id,
        plan={
            "metric": facts.spec.plan.metric,
            "latency_only": facts.spec.latency_only,
            "workload": facts.spec.plan.workload.model_dump(),
            **baseline.model_dump(mode="json"),
        },
    )
    session.add(experiment)
    session.flush()
    job = BaselineJob(
        campaign_id=facts.id,
        experiment_id=experiment.id,
        engine=facts.spec.engine,
        judge=facts.spec.judge,
        model=facts.spec.model,
        model_fingerprint=facts.model_fingerprint,
        device=device_there(device),
        seed=facts.spec.seed,
        sweep=tuple(dict(each) for each in sweep),
        naive=dict(naive),
        naive_refused=facts.start_refused,
        metric=Metric(facts.spec.plan.metric),
        workload=Workload.model_validate(facts.spec.plan.workload.model_dump()),
        sweep_blocks=baseline.sweep_blocks,
        noise_launches=noise_launches(baseline.noise_launches, facts.at_once),
        noise_blocks=baseline.noise_blocks,
        at_once=facts.at_once,
        **_kernels(facts, space, device),
    )
    queue.enqueue(
        session,
        job.kind,
        job.model_dump(mode="json"),
        campaign_id=facts.id,
        experiment_id=experiment.id,
        device_class=device,
    )
    return experiment.id


def _kernels(facts: Facts, space: Space, device: str) -> dict[str, tuple[dict[str, KnobValue], ...]]:
    """What of the job says which kernels are timed alone; empty on a processor, where the engine can't, and
    where it is not asked for."""
    asked = facts.spec.baseline.time_kernels and times_kernels(facts.spec.engine)
    if not asked or device_there(device) == "cpu":
        return {}
    timed = timed_kernels(space, facts.start)
    return {"kernels": tuple(dict(each) for each in timed)} if timed else {}


def noise_launches(asked: int, at_once: int | None) -> int:
    """Noise launches of a baseline: as many as asked for, or, side by side, as there is room for; in turn
    there is room for any number."""
    return asked if at_once is None or at_once == 1 else min(asked, at_once)


def dispatch_test(
    session: Session, facts: Facts, hypothesis: Queued, why: str = "", device: str | None = None
) -> int:
    """Preregister a hypothesis and enqueue its test; returns the experiment's id.

    `why` says why it goes now, where that is not its place in the queue. All its launches are on one device,
    the campaign's first if none is given.
    """
    several = len(facts.spec.devices) > 1
    device = device or facts.spec.devices[0]
    whole = facts
    facts = with_room(whole, hypothesis.control, hypothesis.candidate)
    place = next_test(session, facts.id, Metric(hypothesis.metric), facts.spec.plan.alpha)
    allowed = stopping_plan(facts, hypothesis, None if place is None else place.support_alpha)
    assert facts.baseline_experiment_id is not None
    length = length_of(
        allowed,
        facts.spec.budget.wall_s,
        load_launches(session, facts.baseline_experiment_id),
        load_noise(session, facts.noise_key, facts.model_fingerprint, allowed.metric),
        in_turn=facts.in_turn,
    )
    plan = length.of(allowed)
    row = session.get_one(Hypothesis, hypothesis.id)
    row.state = HypothesisState.TESTING
    row.state_changed_at = now()
    row.rank = None
    row.prediction = plan.prediction.model_dump()
    experiment_id = enqueue_test(
        session,
        facts,
        hypothesis.control,
        hypothesis.candidate,
        plan,
        kind=ExperimentKind.TEST,
        hypothesis_id=hypothesis.id,
        device=device,
    )
    seal = session.get_one(Experiment, experiment_id).preregistration_digest
    assert seal is not None
    row.preregistration_digest = seal
    level = (
        ""
        if place is None
        else f"; it is test {place.test} of the campaign on time, supported at {place.support_alpha:.2g}"
    )
    where = f" on {device}" if several else ""
    alone = facts.in_turn and not whole.in_turn
    told = "".join(
        f"; {each}" for each in (*length_told(allowed, length), IN_TURN if alone else "", why) if each
    )
    events.append(
        session,
        EventKind.HYPOTHESIS_PREREGISTERED,
        f"{format_label(Noun.EXPERIMENT, experiment_id)} will test it{where}; prediction, margins and "
        f"stopping plan are sealed as {seal[:12]}{level}{told}",
        subject=format_label(Noun.HYPOTHESIS, hypothesis.id),
        campaign_id=facts.id,
        data={
            "preregistration_digest": seal,
            "experiment_id": experiment_id,
            "claim": hypothesis.claim,
            "why_now": why,
            "level": None if place is None else asdict(place),
            "full_pairs": length.full_pairs,
            "quick_blocks": length.quick_blocks,
            "full_blocks": length.full_blocks,
            "at_once": facts.at_once,
            **({"device": device} if several else {}),
        },
    )
    return experiment_id


def enqueue_test(
    session: Session,
    facts: Facts,
    control: Configuration,
    candidate: Configuration,
    plan: StoppingPlan,
    *,
    kind: ExperimentKind,
    hypothesis_id: int | None,
    reproduces_experiment_id: int | None = None,
    device: str | None = None,
    within_s: float | None = None,
) -> int:
    """Write an experiment that compares two configurations under a frozen plan, and its job, on one device:
    the campaign's first if none is given. `within_s` ends its measurements after so many seconds; then no
    further workloads are measured, which would take of them.

    Quality is compared with the campaign's baseline, so that small losses don't add up over a chain of
    changes. A claim on quality itself is compared with its own control, and so is a question of the campaign
    about bytes, or what stands for one.
    """
    device = device or facts.spec.devices[0]
    elsewhere = kind is ExperimentKind.PROMOTE or (
        reproduces_experiment_id is not None
        and session.get_one(Experiment, reproduces_experiment_id).kind is ExperimentKind.PROMOTE
    )
    experiment = Experiment(
        campaign_id=facts.id,
        hypothesis_id=hypothesis_id,
        kind=kind,
        target=facts.target_key,
        control_configuration_id=store.configuration_id(session, control),
        candidate_configuration_id=store.configuration_id(session, candidate),
        plan=plan.model_dump(mode="json"),
        reproduces_experiment_id=reproduces_experiment_id,
    )
    session.add(experiment)
    session.flush()
    asked = hypothesis_id is not None and _is_asked(session, hypothesis_id)
    against = quality_against(facts, control, plan.metric, is_question=asked)
    noise = load_noise(session, facts.noise_key, facts.model_fingerprint, plan.metric)
    baseline = facts.baseline_experiment_id
    unsealed = TestJob(
        campaign_id=facts.id,
        experiment_id=experiment.id,
        engine=facts.spec.engine,
        judge=facts.spec.judge,
        judge_version=load_judge(facts.spec.judge).version,
        model=facts.spec.model,
        model_fingerprint=facts.model_fingerprint,
        device=device_there(device),
        seed=facts.spec.seed + experiment.id,
        at_once=facts.at_once,
        control=dict(control),
        candidate=dict(candidate),
        reference=None if against is None else dict(against),
        plan=plan,
        preregistration_digest="",
        pinned_keys=load_space(facts.spec.space).pinned_keys(control, candidate),
        texts=None if baseline is None else texts_of(session, baseline),
        noise=NoiseState(
            target_key=facts.noise_key,
            launches=noise.launches,
            degrees_of_freedom=noise.degrees_of_freedom,
            launch_sd_log=noise.launch_sd_log,
        ),
        reproduces_experiment_id=reproduces_experiment_id,
        target=facts.target_key if elsewhere else None,
        within_s=within_s,
        further=further_of(facts.spec) if within_s is None else (),
    )
    job = sealed(unsealed)
    experiment.preregistration_digest = job.preregistration_digest
    queue.enqueue(
        session,
        job.kind,
        job.model_dump(mode="json"),
        campaign_id=facts.id,
        experiment_id=experiment.id,
        device_class=device,
    )
    return experiment.id


def quality_against(
    facts: Facts, control: Configuration, metric: Metric, *, is_question: bool
) -> Configuration | None:
    """What the quality of a test's candidate is compared with, as `enqueue_test` says."""
    own = metric in QUALITY_METRICS or (is_question and metric in SCORED_METRICS)
    return control if own else facts.baseline


def _is_asked(session: Session, hypothesis_id: int) -> bool:
    """Whether the campaign's file asks this, or what it stands for."""
    hypothesis = session.get_one(Hypothesis, hypothesis_id)
    first = stands_for_of(hypothesis.change)
    return hypothesis.question is not None or (first is not None and _is_asked(session, first))
