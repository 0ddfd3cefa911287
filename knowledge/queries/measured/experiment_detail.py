"""One experiment, down to its samples: what leads every number of it back to where it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from db.labels import Noun, format_label
from db.models import (
    Campaign,
    Configuration,
    Environment,
    Experiment,
    Hypothesis,
    Launch,
    Verdict,
)
from db.models.base import JsonObject
from db.samples import IN_ORDER_OF_LAUNCHES
from db.states import Arm, ExperimentKind
from experiments.measurement.drafting_due import METHOD, is_drafting
from experiments.measurement.evidence import EVALUATION_KEY, Metric, Stage
from experiments.rejudging import by_another_version, judged_again
from experiments.sealing import altered
from knowledge.latency_only import plan_is_latency_only
from knowledge.queries.at_work import interrupted_experiments
from knowledge.queries.claims.discovery import LevelView, level_of
from knowledge.queries.devices import devices_of_experiments
from knowledge.queries.found.fresh_runs import FreshView, fresh_runs
from knowledge.queries.found.shaken import shaken
from knowledge.queries.found.ties import TieView, ties_of_experiments
from knowledge.queries.measured.experiments import ExperimentRow, experiment_row
from knowledge.queries.measured.further import NOT_JUDGED, FurtherView, further_workloads
from knowledge.queries.measured.gpu_blocks import GpuBlocksView, gpu_blocks
from knowledge.queries.measured.kernel_timings import TITLE, KernelTimingsView, kernel_timings
from knowledge.queries.measured.launches_once import LaunchView, launches_once
from knowledge.queries.measured.resolved import DifferenceView, resolved_differences
from knowledge.queries.measured.samples import UsedSampleView, launch_spreads, samples_once
from knowledge.queries.measured.served_tokens import of_profiled, served_tokens
from knowledge.queries.measured.slow_processor import requests_by_launch, slow_processor, waits_for_it
from knowledge.queries.measured.spread import SpreadView
from knowledge.queries.measured.stages import ArtifactView, StageView, artifacts_of, stages_of
from knowledge.queries.measured.step_profile import (
    StepProfileView,
    prompt_profile,
    step_profile,
    why_no_prompt_profile,
)
from knowledge.queries.measured.verdicts import VerdictView, verdict_view
from knowledge.queries.spent.paid import PaidJobView, paid_for
from knowledge.stored import metric_of, verdict_metric


class ExperimentDetail(ExperimentRow):
    """Everything about one experiment; `samples` and `judged_again` are filled when they were asked for.

    `level` is that of its test in the campaign's online control, `changed_since_sealed` what was altered
    since it was preregistered, `judged_again` what its judge says of the stored samples now, `resolved` what
    the first launch of each arm told that it ran, `profile` a decode step by part: the baseline's, or the
    candidate's of a test; `campaign_metric` what the campaign is after; `kernel_timings` the engine's kernels
    timed alone, in a baseline's; `gpu_blocks` what the GPU did while launches were timed, empty on a CPU;
    `further_workloads` what was measured in them beside and is not judged; `elsewhere` what another target
    said of it, or it of what was found on another; `paid` what it cost on rented machines.
    """

    rationale: str | None
    refuted_if: str | None
    control: JsonObject
    candidate: JsonObject | None
    plan: JsonObject
    metric: str
    preregistration_digest: str | None
    changed_since_sealed: str | None
    level: LevelView | None
    verdict: VerdictView | None
    judged_again: str | None
    launches: tuple[LaunchView, ...]
    further_workloads: tuple[FurtherView, ...]
    gpu_blocks: tuple[GpuBlocksView, ...]
    resolved_differences: tuple[DifferenceView, ...]
    resolved: dict[Arm, JsonObject]
    environments: dict[str, JsonObject]
    stages: tuple[StageView, ...]
    artifacts: tuple[ArtifactView, ...]
    campaign_metric: str
    profile: StepProfileView | None
    prompt_profile: StepProfileView | None = None
    no_prompt_profile: str | None = None
    kernel_timings: KernelTimingsView | None
    versions: JsonObject | None
    reproduced_by: tuple[str, ...]
    fresh_runs: tuple[FreshView, ...]
    reproduce_command: str | None
    """None without a verdict that a fresh run could be held against, and where the seal is broken."""
    elsewhere: tuple[TieView, ...]
    samples: tuple[UsedSampleView, ...] | None
    paid: PaidJobView | None = None

    @property
    def profile_title(self) -> str:
        """What the profile is of."""
        whose = "baseline" if self.candidate is None else "candidate"
        return f"A decode step of the {whose} by part"

    @property
    def prompt_title(self) -> str:
        """What the profile of a lone prompt is of."""
        whose = "baseline" if self.candidate is None else "candidate"
        tokens = None if self.prompt_profile is None else self.prompt_profile.prompt_tokens
        length = "" if tokens is None else f" of {tokens:,} tokens"
        return f"The {whose}'s first token after a lone prompt{length}, by part"

    @property
    def profiles(self) -> tuple[tuple[str, StepProfileView], ...]:
        """What was profiled, each with its title; first that of the time that the campaign is after."""
        found = [(self.profile_title, self.profile), (self.prompt_title, self.prompt_profile)]
        if self.campaign_metric == Metric.TTFT_MS:
            found.reverse()
        return tuple((title, step) for title, step in found if step is not None)

    @property
    def further_told(self) -> str:
        """What is said of the further workloads."""
        return NOT_JUDGED

    @property
    def kernels_title(self) -> str:
        """What the timing of kernels is of."""
        return TITLE


def experiment_detail(
    session: Session, experiment_id: int, *, samples: bool = False, judge: bool = False
) -> ExperimentDetail:
    """Return everything about one experiment, which must exist; with `samples` the raw ones too.

    `judge`: its judge is asked again, which takes a look at every sample; it always is where another version
    of it is installed, for then the verdict may not be what it would be now.
    """
    control, candidate = aliased(Configuration), aliased(Configuration)
    row = session.execute(
        select(Experiment, Hypothesis, Verdict, control.knobs, candidate.knobs, Campaign.objective)
        .join(control, control.id == Experiment.control_configuration_id)
        .outerjoin(candidate, candidate.id == Experiment.candidate_configuration_id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .join(Campaign, Campaign.id == Experiment.campaign_id)
        .where(Experiment.id == experiment_id)
    ).one()
    experiment, hypothesis, verdict, control_knobs, candidate_knobs, objective = row
    launches = session.execute(
        select(Launch, Configuration.digest, Environment.data)
        .join(Configuration, Configuration.id == Launch.configuration_id)
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(Launch.experiment_id == experiment_id, Launch.stage != Stage.FURTHER.value)
        .order_by(*IN_ORDER_OF_LAUNCHES)
    ).all()
    metric = metric_of(experiment.plan)
    spreads = launch_spreads(session, experiment_id, metric)
    stages = stages_of(session, experiment_id)
    label = format_label(Noun.EXPERIMENT, experiment_id)
    changed = altered(session, experiment)
    short = experiment_row(
        experiment,
        None if hypothesis is None else hypothesis.claim,
        None if hypothesis is None else hypothesis.lever,
        experiment.plan.get("prediction"),
        metric,
        None if verdict is None else _in_short(verdict),
        control_knobs,
        candidate_knobs,
        latency_only=plan_is_latency_only(experiment.plan),
        device=devices_of_experiments(session, (experiment_id,)).get(experiment_id),
    ).model_copy(
        update={
            "interrupted": interrupted_experiments(session, (experiment_id,)).get(experiment_id),
            "doubt": shaken(session, (experiment_id,)).get(experiment_id),
        }
    )
    views = tuple(
        _launch_view(each.Launch, each.digest, each.data, spreads.get(each.Launch.id, ()))
        for each in launches
    )
    prompt = prompt_profile(stages, [each.data for each in launches])
    return ExperimentDetail(
        **dict(short),
        rationale=None if hypothesis is None else hypothesis.rationale,
        refuted_if=None if hypothesis is None else hypothesis.refuted_if,
        control=control_knobs,
        candidate=candidate_knobs,
        plan=experiment.plan,
        metric=metric,
        preregistration_digest=experiment.preregistration_digest,
        changed_since_sealed=changed,
        level=level_of(session, experiment, _details(verdict)),
        verdict=None if verdict is None else verdict_view(verdict),
        judged_again=judged_again(session, experiment, verdict)
        if verdict is not None and (judge or by_another_version(verdict))
        else None,
        launches=views,
        further_workloads=further_workloads(session, (experiment_id,)).get(experiment_id, ()),
        gpu_blocks=tuple(
            told for each in launches if (told := _gpu_blocks(each.Launch, each.data)) is not None
        ),
        resolved_differences=resolved_differences(
            [(each.Launch.arm, each.Launch.resolved) for each in launches]
        ),
        resolved={each.Launch.arm: each.Launch.resolved for each in reversed(launches)},
        environments={each.Launch.environment_digest: each.data for each in launches},
        stages=stages,
        artifacts=artifacts_of(session, experiment_id),
        campaign_metric=metric_of(objective),
        profile=_step(
            session,
            experiment,
            step_profile(stages, [each.data for each in launches]),
            prompt,
            views,
            candidate_knobs or control_knobs,
        ),
        prompt_profile=prompt,
        no_prompt_profile=why_no_prompt_profile(stages),
        kernel_timings=kernel_timings(stages),
        versions=experiment.versions,
        reproduced_by=_reproductions(session, experiment_id),
        fresh_runs=fresh_runs(session, experiment_id),
        reproduce_command=None
        if verdict is None or candidate_knobs is None or changed is not None
        else f"autoinfer reproduce {label}",
        elsewhere=ties_of_experiments(session, (experiment_id,)),
        samples=_samples(session, experiment_id, [each.Launch.id for each in launches], views)
        if samples
        else None,
        paid=paid_for(session, experiment_id),
    )


def _step(
    session: Session,
    experiment: Experiment,
    step: StepProfileView | None,
    prompt: StepProfileView | None,
    launches: Sequence[LaunchView],
    profiled: JsonObject,
) -> StepProfileView | None:
    """The step of the configuration that was profiled, with what a token took where it was served."""
    if step is None:
        return None
    served = served_tokens(step, launches, experiment.plan, drafts=is_drafting(profiled.get(METHOD)))
    if served is not None and waits_for_it(prompt):
        of = of_profiled(launches)
        slow = slow_processor(requests_by_launch(session, experiment.id, *of), step, prompt)
        served = served if slow is None else f"{served} {slow}"
    return step.model_copy(update={"served": served})


def _gpu_blocks(launch: Launch, environment: JsonObject) -> GpuBlocksView | None:
    return gpu_blocks(launch.arm, launch.index, launch.stage, launch.attempt, environment)


def _in_short(verdict: Verdict) -> tuple[object, ...]:
    return (
        verdict.outcome,
        verdict.effect_log,
        verdict.interval_low_log,
        verdict.interval_high_log,
        verdict.reason,
        verdict_metric(verdict),
    )


def _samples(
    session: Session, experiment_id: int, numbers: Sequence[int], views: Sequence[LaunchView]
) -> tuple[UsedSampleView, ...]:
    """Its samples, those of a kept evaluation once; `numbers` are the ids of the launches, in their order."""
    used_by: dict[int, tuple[str, ...]] = dict.fromkeys(numbers, ())
    used_by.update({numbers[used.place]: used.stages for used in launches_once(views)})
    return tuple(samples_once(session, experiment_id, used_by))


def _details(verdict: Verdict | None) -> Mapping[str, object]:
    details = None if verdict is None else verdict.judge.get("details")
    return details if isinstance(details, dict) else {}


def _launch_view(
    launch: Launch, configuration: str, environment: JsonObject, spreads: tuple[SpreadView, ...]
) -> LaunchView:
    machine = environment.get("machine")
    evaluation = machine.get(EVALUATION_KEY) if isinstance(machine, dict) else None
    return LaunchView(
        arm=launch.arm,
        index=launch.index,
        stage=launch.stage,
        attempt=launch.attempt,
        configuration=configuration,
        load_s=launch.load_s,
        started_at=launch.started_at,
        environment=launch.environment_digest,
        evaluation=evaluation if isinstance(evaluation, str) else None,
        spreads=spreads,
    )


def _reproductions(session: Session, experiment_id: int) -> tuple[str, ...]:
    query = (
        select(Experiment.id)
        .where(
            Experiment.reproduces_experiment_id == experiment_id, Experiment.kind == ExperimentKind.REPRODUCE
        )
        .order_by(Experiment.id)
    )
    return tuple(format_label(Noun.EXPERIMENT, number) for number in session.scalars(query))
