"""Experiment: one, from its verdict down to its samples."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pydantic import Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.resources.devices import device_of
from agent.campaign.resources.waiting import served_devices
from agent.judge.course import course
from agent.judge.pairs import TIMED_STAGES, PairEffect
from configs.errors import UsageError
from dashboard.charts.cdf import Cdf, cdf
from dashboard.charts.course import Course, PairMark, course_chart
from dashboard.page import Filters, Ground, Page, Request
from dashboard.pages import experiment_parts, experiment_words
from dashboard.pages.experiment_rented import RentedRunView, rented_run
from db.event_kinds import EventKind
from db.labels import Noun
from db.models import Job
from db.models.base import JsonObject
from db.states import Arm, ExperimentKind, VerdictOutcome
from experiments.measurement.evidence import SCORED_METRICS, TIMED_METRICS, Metric, NoiseProfile
from experiments.measurement.judging import BY_CLOCK
from knowledge.figures import SHARES, changed, in_scale
from knowledge.queries.lookup import labelled
from knowledge.queries.measured.belief import CheckView, checks_of
from knowledge.queries.measured.distribution import DistributionView, distribution
from knowledge.queries.measured.drafting import REPORTS, DraftingView, drafting_of
from knowledge.queries.measured.experiment_detail import ExperimentDetail, experiment_detail
from knowledge.queries.measured.experiments import latest_experiment
from knowledge.queries.measured.launches_once import QUALITY, UsedLaunch, launches_once
from knowledge.queries.measured.quality_tests import QualityTestView, quality_tests
from knowledge.queries.measured.samples import values_by_arm
from knowledge.queries.measured.spread import SpreadView
from knowledge.queries.measured.step_profile import PartRow, StepProfileView
from knowledge.queries.order.led_to import LedTo, led_to
from knowledge.queries.view import View
from knowledge.stored import number

FILES_S = 5.0
"""How long the page lasts while the database stands still: the samples of a rented GPU are in a file."""

LATEST = "latest"
"""What stands for the newest experiment in an address."""

CHANGED_BY = tuple(
    kind
    for kind in EventKind
    if kind.value.partition(".")[0]
    in ("experiment", "stage", "job", "finding", "artifact", "queue", "worker")
)
"""Events that may change what is shown of an experiment."""

SCORED_STAGES = ("screen", "evaluate", "validation")
"""Stages whose launches give the samples of a claim on quality."""

SCORED_BESIDES = (*QUALITY, Metric.STEP_TOKENS, Metric.STEP_WEIGHT_BYTES)
"""Metrics that are told beside the times of a launch."""

SAME = 1e-6
"""How far the course's last interval may lie from the verdict's, natural log, and still be the same one."""


class PairView(View):
    """A launch pair: its effect, and the mean with its interval over all pairs up to it, relative changes.

    `low` and `high` are None while nothing is excluded, or where they can't be made again from what was kept.
    """

    number: int
    validation: bool
    blocks: int
    effect: float
    mean: float
    low: float | None
    high: float | None


class ExperimentView(ExperimentDetail):
    """Everything about an experiment, as its page shows it.

    `drafting` is by arm, `distributions` of the judged metric by arm, `planned_pairs` the most that the plan
    allows, `spent_s` and `planned_s` what measuring took and the whole plan would have, by the judge and,
    with `by_clock`, on the clock; without it, as in older verdicts, launches that load side by side count
    each.
    `targets` are others that workers take jobs for now; `rented_run` None where it ran on no rented machine.
    """

    pairs: tuple[PairView, ...]
    planned_pairs: int
    distributions: tuple[DistributionView, ...]
    quality_tests: tuple[QualityTestView, ...]
    drafting: dict[str, DraftingView]
    checks: tuple[CheckView, ...]
    led_to: LedTo
    spent_s: float | None
    planned_s: float | None
    by_clock: bool
    targets: tuple[str, ...]
    rented_run: RentedRunView | None

    @property
    def is_timed(self) -> bool:
        """Whether its metric is timed over launch pairs; others are scored, and none is planned for them."""
        return self.metric not in SCORED_METRICS

    @property
    def scored_units(self) -> str:
        """What a scored metric was read of, once a launch."""
        return {Metric.NLL_BITS: "documents", Metric.TASK_CORRECT: "items"}.get(
            Metric(self.metric), "readings"
        )

    @property
    def can_promote(self) -> bool:
        """Whether it is a test whose verdict another target could confirm."""
        decided = self.outcome in (VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED)
        return self.kind is ExperimentKind.TEST and decided

    @property
    def promote_command(self) -> str:
        """What confirms it on another target; of one that did so itself, once more there."""
        where = next((each.asked for each in self.elsewhere if each.asked and self.reproduces), None)
        label = self.reproduces if where and self.reproduces else self.id
        return f"autoinfer promote {label} --target {where or (self.targets or ('TARGET',))[0]}"

    @property
    def promote_words(self) -> str:
        """What a click costs."""
        return "Time of that device; a rented one waits until you have approved its price."

    @property
    def words(self) -> experiment_words.Words:
        """What leads the page."""
        return experiment_words.words_of(self)

    def profile_bar(self, step: StepProfileView, row: PartRow) -> tuple[float, float]:
        """How wide the bar of a part of a profile is, floor and above, per cent of the longest part."""
        longest_ms = max((each.time_ms for each in step.parts), default=0.0)
        if longest_ms <= 0:
            return 0.0, 0.0
        floor_ms = min(row.floor_ms or 0.0, row.time_ms)
        return round(100 * floor_ms / longest_ms, 2), round(100 * (row.time_ms - floor_ms) / longest_ms, 2)

    @property
    def arm_rows(self) -> tuple[experiment_parts.ArmRow, ...]:
        """Both arms, line by line."""
        return experiment_parts.arm_rows(self)

    @property
    def launches_once(self) -> tuple[UsedLaunch, ...]:
        """The launches, those told once whose samples are one kept evaluation's."""
        return launches_once(self.launches)

    @property
    def scored_besides(self) -> tuple[tuple[UsedLaunch, SpreadView], ...]:
        """What launches scored: quality, tokens a step, bytes of weights."""
        return tuple(
            (used, spread)
            for used in self.launches_once
            for spread in used.launch.spreads
            if spread.metric in SCORED_BESIDES
        )

    @property
    def stage_bars(self) -> tuple[experiment_parts.StageBar, ...]:
        """The runs of stages in time."""
        return experiment_parts.stage_bars(self.stages)

    @property
    def environment_rows(self) -> tuple[tuple[str, str], ...]:
        """What matters most of the machine."""
        return experiment_parts.machine_in_short(self)

    @property
    def environment_all(self) -> tuple[tuple[str, object], ...]:
        """Everything that all launches told of the machine alike."""
        return tuple(sorted(experiment_parts.machine(self).items()))

    @property
    def cdf(self) -> Cdf | None:
        """The distributions as curves; None where there are none, or where values are only 0 and 1."""
        arms = {each.arm: each.steps for each in self.distributions}
        if Arm.CONTROL not in arms or self.metric in SHARES:
            return None
        return cdf(arms[Arm.CONTROL], arms.get(Arm.CANDIDATE))

    @property
    def course(self) -> Course | None:
        """The pairs as a chart; None where none was timed."""
        if not self.pairs:
            return None
        marks = [
            PairMark(
                each.number,
                100 * each.effect,
                each.validation,
                100 * each.mean,
                None if each.low is None else 100 * each.low,
                None if each.high is None else 100 * each.high,
            )
            for each in self.pairs
        ]
        worth = number(self.plan.get("min_effect")) or 0.0
        return course_chart(marks, self.planned_pairs, -100 * worth)


class ExperimentFilters(Filters):
    """Whether to show only what the arms differ in."""

    differences: bool = Field(default=False, description="Only what differs between the arms.")


def number_of(session: Session, label: str) -> int:
    """The id of the experiment with this label, `latest` for the newest; raises `UsageError` for none."""
    if label != LATEST:
        return labelled(session, Noun.EXPERIMENT, label)
    found = latest_experiment(session)
    if found is None:
        raise UsageError("There is no experiment yet.", "Start a campaign with: autoinfer run")
    return found


def read(session: Session, request: Request[ExperimentFilters], ground: Ground) -> ExperimentView:
    """Read one experiment."""
    experiment_id = number_of(session, request.path["label"])
    detail = experiment_detail(session, experiment_id)
    quality = None if detail.verdict is None else detail.verdict.quality
    details = _details(detail)
    pairs = _pairs(session, experiment_id, detail, details)
    tests = quality_tests(quality)
    drafting = {arm: drafting_of(quality, arm) for arm in REPORTS}
    return ExperimentView(
        **dict(detail),
        pairs=pairs,
        planned_pairs=sum(
            int(number(detail.plan.get(name)) or 0) for name in ("full_pairs", "validation_pairs")
        ),
        distributions=_distributions(session, experiment_id, detail.metric),
        quality_tests=tests,
        drafting={arm: told for arm, told in drafting.items() if told is not None},
        checks=checks_of(
            detail, [changed(each.effect_log, detail.metric) for each in _effects(details)], tests
        ),
        led_to=led_to(session, experiment_id),
        spent_s=number(details.get("spent_s")),
        planned_s=number(details.get("planned_s")),
        by_clock=details.get(BY_CLOCK) is True,
        targets=_targets(session, experiment_id, detail),
        rented_run=rented_run(session, ground.settings.data_dir, experiment_id),
    )


def _targets(session: Session, experiment_id: int, detail: ExperimentDetail) -> tuple[str, ...]:
    """Where workers take jobs now, but the test's own device; none of what has no verdict."""
    if detail.verdict is None or detail.kind is not ExperimentKind.TEST:
        return ()
    own = device_of(session, experiment_id)
    return tuple(each for each in served_devices(session) if each != own)


def _details(detail: ExperimentDetail) -> JsonObject:
    told = None if detail.verdict is None else detail.verdict.judge.get("details")
    return told if isinstance(told, dict) else {}


def _effects(details: JsonObject) -> tuple[PairEffect, ...]:
    told = details.get("pairs")
    found = []
    for pair in told if isinstance(told, list) else ():
        effect = number(pair.get("effect_log"))
        if effect is not None:
            found.append(
                PairEffect(
                    index=int(number(pair.get("index")) or 0),
                    validation=bool(pair.get("validation")),
                    effect_log=effect,
                    within_se_log=number(pair.get("within_se_log")) or 0.0,
                    blocks=int(number(pair.get("blocks")) or 0),
                    samples=0,
                )
            )
    return tuple(found)


def _pairs(
    session: Session, experiment_id: int, detail: ExperimentDetail, details: JsonObject
) -> tuple[PairView, ...]:
    """The pairs with the interval after each; without, where it can't be made again as the judge had it."""
    effects = _effects(details)
    if not effects:
        return ()
    found = course(
        effects, _noise(session, experiment_id, detail.metric), number(details.get("alpha")) or 0.05
    )
    effect, last = detail.effect, found[-1]
    same = (
        last is not None
        and effect is not None
        and effect.low is not None
        and effect.high is not None
        and abs(in_scale(last.low_log, detail.metric) - effect.low) < SAME
        and abs(in_scale(last.high_log, detail.metric) - effect.high) < SAME
    )
    views = []
    total = 0.0
    for count, (pair, interval) in enumerate(zip(effects, found, strict=True), start=1):
        total += pair.effect_log
        known = interval if same and interval is not None and interval.bounded else None
        views.append(
            PairView(
                number=count,
                validation=pair.validation,
                blocks=pair.blocks,
                effect=in_scale(pair.effect_log, detail.metric),
                mean=in_scale(total / count, detail.metric),
                low=None if known is None else in_scale(known.low_log, detail.metric),
                high=None if known is None else in_scale(known.high_log, detail.metric),
            )
        )
    if not same and effect is not None:
        views[-1] = views[-1].model_copy(update={"low": effect.low, "high": effect.high})
    return tuple(views)


def _noise(session: Session, experiment_id: int, metric: str) -> NoiseProfile:
    """The noise profile that the test was dispatched with; an empty one where its job is gone."""
    query = (
        select(Job.spec["noise"]).where(Job.experiment_id == experiment_id).order_by(Job.id.desc()).limit(1)
    )
    told = session.scalar(query)
    noise = told if isinstance(told, dict) else {}
    return NoiseProfile(
        str(noise.get("target_key", "")),
        Metric(metric),
        int(number(noise.get("launches")) or 0),
        int(number(noise.get("degrees_of_freedom")) or 0),
        number(noise.get("launch_sd_log")),
    )


def _distributions(session: Session, experiment_id: int, metric: str) -> tuple[DistributionView, ...]:
    timed = metric in {each.value for each in TIMED_METRICS}
    stages: Sequence[str] = [*TIMED_STAGES, "noise"] if timed else SCORED_STAGES
    found = values_by_arm(session, experiment_id, metric, stages)
    if timed and not found:  # a sweep has many configurations: it is told where nothing was chosen of it
        found = values_by_arm(session, experiment_id, metric, ("sweep",))
    unit = Metric(metric).unit
    return tuple(distribution(arm, metric, unit, found[arm]) for arm in Arm if arm in found)


def command(request: Request[ExperimentFilters]) -> str:
    """The same on the command line."""
    return shlex.join(["autoinfer", "show", request.path["label"]])


PAGE = Page(
    name="experiment",
    title="Experiment",
    path="/experiments/{label}",
    filters=ExperimentFilters,
    shows=ExperimentView,
    read=read,
    command=command,
    kinds=CHANGED_BY,
    lasts_s=FILES_S,
)
