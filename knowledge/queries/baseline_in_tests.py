"""What the baseline takes in tests, where that is not what it took when it was measured.

The baseline is measured before there is anything to test. Tests that have it as an arm run later, on several
devices beside other jobs of the same host, and what they time is a host under that load. A verdict compares
both arms under it; the baseline's own time, told alone, is of another one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp, log, log1p, sqrt
from statistics import fmean, variance

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session, aliased

from configs.targets import is_rented
from db.models import Campaign, Environment, Experiment, Job, Launch, Measurement
from db.states import ExperimentKind, JobState
from experiments.measurement.evidence import HIGHER_IS_BETTER, TIMED_METRICS, Stage
from knowledge.figures import DEFAULT_METRIC, counted, effect, relative, taken
from knowledge.queries.devices import devices_of_campaign
from knowledge.queries.view import View
from knowledge.stored import number

LEAST_LAUNCHES = 2
"""Launches on each side below which there is no variance, and so no interval."""

LEAST_EFFECT = 0.03
"""The relative change that is worth telling where a campaign names no least effect: the packaged one."""

_UPPER = 0.975
"""Quantile at the upper end of a two-sided interval of 95 %."""

_TESTED = (Stage.QUICK, Stage.FULL, Stage.VALIDATION)
_LATENCIES = frozenset(metric.value for metric in TIMED_METRICS - HIGHER_IS_BETTER)


@dataclass(frozen=True)
class BaselineLaunch:
    """A launch of the baseline's configuration: the mean log of its milliseconds, and how many other jobs of
    its host were at work when its first block began; None where nothing tells that."""

    log_ms: float
    beside: int | None = None


class BaselineInTestsView(View):
    """What the baseline takes in tests, in ms on `metric`, against what it took when it was measured.

    `change` is relative (0.25 is a quarter more), `low` and `high` are its 95 % interval. `beside` are the
    fewest and the most other jobs of the host that were at work beside the `launches` in tests, while none
    was beside the `baseline_launches`; None where that is not so or is not known. `sentence` says it all,
    with commands between backticks.
    """

    metric: str
    baseline_ms: float
    in_tests_ms: float
    change: float
    low: float
    high: float
    launches: int
    baseline_launches: int
    beside: tuple[int, int] | None
    sentence: str

    @property
    def plain(self) -> str:
        """The sentence without backticks."""
        return self.sentence.replace("`", "")


def baseline_in_tests(session: Session, campaign_id: int) -> BaselineInTestsView | None:
    """What the baseline of a campaign, which must exist, takes in tests on the campaign's own latency; None
    where that is not told apart from what it took when it was measured. Four statements at most."""
    campaign = session.get_one(Campaign, campaign_id)
    if campaign.baseline_configuration_id is None:
        return None
    named = str(campaign.objective.get("metric", DEFAULT_METRIC))
    metric = named if named in _LATENCIES else DEFAULT_METRIC
    least = number(campaign.limits.get("min_effect")) or LEAST_EFFECT
    launches = _launches(campaign)
    own, tests = _mean_logs(session, launches, metric)
    if _told([*own.values()], [*tests.values()], least) is None:
        return None  # most campaigns end here, without a look at environments and jobs
    beside = {} if is_rented(str(campaign.spec.get("target", ""))) else _beside(session, launches)
    return told_of_baseline(
        [BaselineLaunch(log_ms, beside.get(each)) for each, log_ms in own.items()],
        [BaselineLaunch(log_ms, beside.get(each)) for each, log_ms in tests.items()],
        metric,
        least,
        devices_of_campaign(campaign),
    )


def told_of_baseline(
    own: Sequence[BaselineLaunch],
    tests: Sequence[BaselineLaunch],
    metric: str,
    min_effect: float,
    devices: Sequence[str],
) -> BaselineInTestsView | None:
    """The view from the launches that measured the baseline and those in tests; None where the whole interval
    is not beyond `min_effect`, a relative change, or there are too few launches for one. Pure.

    Other jobs are named only where they were beside the launches that are compared and none was beside the
    baseline's own, and it takes longer; launches in tests that had none are left out then.
    """
    own_logs = [each.log_ms for each in own]
    if own and all(each.beside == 0 for each in own):
        loaded = [(each.log_ms, each.beside) for each in tests if each.beside]
        found = _told(own_logs, [log_ms for log_ms, _ in loaded], min_effect)
        if found is not None and found.middle > 0:
            others = [count for _, count in loaded]
            return _view(found, metric, devices, (min(others), max(others)))
    found = _told(own_logs, [each.log_ms for each in tests], min_effect)
    return None if found is None else _view(found, metric, devices, None)


@dataclass(frozen=True)
class _Difference:
    """A difference of mean logs with its interval, and what it is of."""

    own: float
    tests: float
    low: float
    high: float
    own_launches: int
    launches: int

    @property
    def middle(self) -> float:
        return self.tests - self.own


def _told(own: Sequence[float], tests: Sequence[float], min_effect: float) -> _Difference | None:
    """How far the tests' logs lie from the baseline's own, by Student's t with the degrees of freedom of
    Welch (Biometrika 34, 1947); None where that is not wholly beyond `min_effect`."""
    if min(len(own), len(tests)) < LEAST_LAUNCHES:
        return None
    parts = [(variance(each) / len(each), len(each) - 1) for each in (own, tests)]
    square = sum(part for part, _ in parts)
    reach = 0.0
    if square > 0:
        from scipy.special import stdtrit  # loading it takes longer than most commands

        freedom = square**2 / sum(part**2 / free for part, free in parts)
        reach = float(stdtrit(freedom, _UPPER)) * sqrt(square)
    before, later = fmean(own), fmean(tests)
    low, high = later - before - reach, later - before + reach
    if low <= log1p(min_effect) and high >= log1p(-min_effect):
        return None
    return _Difference(before, later, low, high, len(own), len(tests))


def _view(
    found: _Difference, metric: str, devices: Sequence[str], beside: tuple[int, int] | None
) -> BaselineInTestsView:
    launches = counted(found.launches, "launch", "launches")
    much = f"{taken(exp(found.tests), metric)}, {effect(found.middle, found.low, found.high, metric)}"
    if beside is None:
        sentence = (
            f"In tests the baseline takes {much} ({launches} of its configuration against "
            f"{found.own_launches} when it was measured): a test compares both its arms as the machine is "
            "then."
        )
    else:
        fewest, most = beside
        jobs = counted(most, "other job") if fewest == most else f"{fewest} to {most} other jobs"
        one = f"a campaign on one GPU (`--target {devices[0]}`)" if len(devices) > 1 else "one job at a time"
        sentence = (
            f"Beside {jobs} of the same host the baseline takes {much} ({launches} of its configuration in "
            f"tests against {found.own_launches} with no other job): a test compares both its arms under "
            f"that load; {one} has none beside it."
        )
    return BaselineInTestsView(
        metric=metric,
        baseline_ms=exp(found.own),
        in_tests_ms=exp(found.tests),
        change=relative(found.middle),
        low=relative(found.low),
        high=relative(found.high),
        launches=found.launches,
        baseline_launches=found.own_launches,
        beside=beside,
        sentence=sentence,
    )


def _launches(campaign: Campaign) -> Select[int]:
    """The timed launches of the baseline's configuration on the campaign's own target, of the attempt that
    counts; none of a promotion to another target, nor of what was run once more: often hours later, on a
    machine that is as it is then, which says nothing of the tests."""
    other = aliased(Launch)
    last = (
        select(func.max(other.attempt)).where(other.experiment_id == Launch.experiment_id).scalar_subquery()
    )
    return (
        select(Launch.id)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(
            Experiment.campaign_id == campaign.id,
            Experiment.target == campaign.target,
            Experiment.kind != ExperimentKind.REPRODUCE,
            Launch.configuration_id == campaign.baseline_configuration_id,
            Launch.stage.in_([stage.value for stage in (Stage.NOISE, *_TESTED)]),
            Launch.attempt == last,
        )
    )


def _mean_logs(
    session: Session, launches: Select[int], metric: str
) -> tuple[dict[int, float], dict[int, float]]:
    """The mean log of a latency by launch, of those that measured the baseline and of those in tests, as the
    baseline's own time is told: tokens that came together have no gap between them, and count nothing."""
    query = (
        select(Launch.id, Launch.stage, Measurement.value)
        .join(Measurement, Measurement.launch_id == Launch.id)
        .where(Launch.id.in_(launches), Measurement.metric == metric, Measurement.value > 0)
        .order_by(Measurement.id)
    )
    own: dict[int, list[float]] = defaultdict(list)
    tests: dict[int, list[float]] = defaultdict(list)
    for launch_id, stage, value in session.execute(query):
        (own if stage == Stage.NOISE.value else tests)[launch_id].append(log(value))
    return (
        {launch_id: fmean(logs) for launch_id, logs in own.items()},
        {launch_id: fmean(logs) for launch_id, logs in tests.items()},
    )


def _beside(session: Session, launches: Select[int]) -> Mapping[int, int]:
    """How many other jobs of its host were at work when the first block of a launch began, by launch; without
    those of which the time or the host is not known."""
    query = (
        select(
            Launch.id,
            Launch.experiment_id,
            Environment.data[("blocks", 0, "before", "time")].as_string(),
        )
        .join(Environment, Environment.digest == Launch.environment_digest)
        .where(Launch.id.in_(launches))
    )
    began = {
        launch_id: (experiment_id, datetime.fromisoformat(at))
        for launch_id, experiment_id, at in session.execute(query)
        if at is not None
    }
    if not began:
        return {}
    times = [at for _, at in began.values()]
    jobs = session.execute(
        select(Job.experiment_id, Job.device, Job.device_class, Job.started_at, Job.finished_at)
        .where(
            Job.device.is_not(None),
            Job.started_at <= max(times),
            or_(
                Job.finished_at >= min(times),
                Job.finished_at.is_(None) & (Job.state == JobState.RUNNING),
            ),
        )
        .order_by(Job.id)
    ).all()
    here = [
        (job.experiment_id, _host(job.device), job.started_at, job.finished_at)
        for job in jobs
        if not is_rented(job.device_class)  # its work is elsewhere
    ]
    hosts = {experiment_id: host for experiment_id, host, _, _ in here if experiment_id is not None}
    return {
        launch_id: sum(
            own != experiment_id
            and host == hosts[experiment_id]
            and started <= at
            and (finished is None or at <= finished)
            for own, host, started, finished in here
        )
        for launch_id, (experiment_id, at) in began.items()
        if experiment_id in hosts
    }


def _host(device: str) -> str:
    return device.partition("/")[0]
