"""What was measured of further workloads, in the launches of a test: told beside its verdict, never judged.

A launch has one value of a metric in a workload: the mean of its samples, as vLLM's benchmark tells it. An
arm's figure is the mean over its launches, the change the geometric mean over launch pairs, with a 95 %
interval of Student's t over them. It knows of no noise profile and of no other looks, so that it is no
judge's interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import exp, fsum, log, sqrt
from statistics import fmean, stdev

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.models import Launch, Measurement, StageRun
from db.models.base import JsonObject
from db.states import Arm
from experiments.measurement.evidence import UNMEASURED, WORKLOAD_MARK, WORKLOADS, Metric, Stage
from experiments.measurement.plan import FurtherWorkload
from knowledge.figures import effect, metric_word, number
from knowledge.queries.view import View

TOLD = (Metric.TTFT_MS, Metric.TPOT_MS, Metric.ITL_MS, Metric.E2EL_MS, Metric.OUTPUT_TOKENS_PER_S)
"""The metrics that are told, in this order."""

LEAST_PAIRS = 3
"""Launch pairs from which on a change has an interval: two say next to nothing of how pairs vary."""

UPPER = 0.975
"""The quantile of a 95 % interval's upper end."""

NOT_JUDGED = (
    "Measured beside, in the same launches, and not judged: no part of the verdict, and nothing is ranked or "
    "found by it."
)

Values = Mapping[Metric, Mapping[Arm, Mapping[int, float]]]
"""Of one workload the mean of each launch, by metric, arm and the launch's index."""


class FurtherMetricView(View):
    """A metric in both arms: means over their launches, and the change over `pairs` launch pairs, candidate
    against control and of the metric itself: 0.12 is 12 % more, of a time and of a throughput alike."""

    metric: str
    unit: str
    control: float | None
    candidate: float | None
    change: float | None
    low: float | None
    high: float | None
    pairs: int

    @property
    def name(self) -> str:
        """What the metric is called."""
        return metric_word(self.metric)

    @property
    def change_words(self) -> str:
        """The change with its interval, such as `−12.3 % [−14.1, −10.5]`; a dash where no pair was whole."""
        logs = [None if each is None else log(1 + each) for each in (self.change, self.low, self.high)]
        return effect(logs[0], logs[1], logs[2], self.metric)

    @property
    def figures(self) -> tuple[str, str]:
        """Control and candidate as text, with their unit; a dash for one that is not known."""
        unit = "/s" if self.unit == "1/s" else f" {self.unit}"
        arms = (self.control, self.candidate)
        control, candidate = ("—" if each is None else f"{number(each, 4)}{unit}" for each in arms)
        return control, candidate


class FurtherView(View):
    """A further workload of a test: what both arms had, and why it could not be measured where it could not;
    `words` say it in short, `metrics` has those that were measured."""

    workload: str
    words: str
    concurrency: int
    prompt_tokens: int
    new_tokens: int
    blocks: int
    metrics: tuple[FurtherMetricView, ...]
    failures: tuple[str, ...]


def further_workloads(session: Session, experiments: Sequence[int]) -> dict[int, tuple[FurtherView, ...]]:
    """The further workloads of experiments, by experiment, of the last attempt of each; two statements, and
    one where there are none."""
    runs: dict[int, dict[int, list[JsonObject]]] = defaultdict(lambda: defaultdict(list))
    query = (
        select(StageRun.experiment_id, StageRun.attempt, StageRun.detail)
        .where(StageRun.experiment_id.in_(experiments), StageRun.stage == Stage.FURTHER.value)
        .order_by(StageRun.id)
    )
    for experiment_id, attempt, detail in session.execute(query):
        runs[experiment_id][attempt].append(detail or {})
    if not runs:
        return {}
    last = {experiment_id: max(attempts) for experiment_id, attempts in runs.items()}
    values = _values(session, last)
    return {
        experiment_id: _views(runs[experiment_id][attempt], values.get(experiment_id, {}))
        for experiment_id, attempt in last.items()
    }


def _values(session: Session, attempts: Mapping[int, int]) -> dict[int, dict[str, Values]]:
    """The mean of each launch, by experiment, workload, metric, arm and index."""
    query = (
        select(
            Launch.experiment_id,
            Launch.attempt,
            Launch.arm,
            Launch.index,
            Measurement.metric,
            func.min(Measurement.item),  # all items of a block begin with the same workload
            func.sum(Measurement.value),
            func.count(),
        )
        .join(Measurement, Measurement.launch_id == Launch.id)
        .where(
            Launch.experiment_id.in_(attempts),
            Launch.stage == Stage.FURTHER.value,
            Measurement.metric.in_([metric.value for metric in TOLD]),
        )
        .group_by(Launch.id, Measurement.block, Measurement.metric)
    )
    sums: dict[tuple[int, str, Metric, Arm, int], list[tuple[float, int]]] = defaultdict(list)
    for experiment_id, attempt, arm, index, metric, item, total, count in session.execute(query):
        if attempt == attempts[experiment_id]:
            key = (experiment_id, item.partition(WORKLOAD_MARK)[0], Metric(metric), arm, index)
            sums[key].append((float(total), count))
    found: dict[int, dict[str, dict[Metric, dict[Arm, dict[int, float]]]]] = {}
    for (experiment_id, workload, metric, arm, index), blocks in sums.items():
        of = found.setdefault(experiment_id, {}).setdefault(workload, {}).setdefault(metric, {})
        mean = fsum(total for total, _ in blocks) / sum(count for _, count in blocks)
        of.setdefault(arm, {})[index] = mean
    return {experiment_id: dict(of) for experiment_id, of in found.items()}


def _views(runs: Sequence[JsonObject], values: Mapping[str, Values]) -> tuple[FurtherView, ...]:
    asked: dict[str, FurtherWorkload] = {}
    failures: dict[str, list[str]] = defaultdict(list)
    for detail in runs:
        told = [FurtherWorkload.model_validate(each) for each in detail.get(WORKLOADS) or ()]
        asked |= {each.key: each for each in told if each.key not in asked}
        for each in detail.get(UNMEASURED) or ():
            where = f"the {each['arm']}'s launch {each['launch']}"
            failures[each["workload"]].append(f"It could not be measured in {where}: {each['cause']}")
        if (cause := detail.get("cause")) and not detail.get(UNMEASURED):
            for each_left in told:
                failures[each_left.key].append(f"A launch pair was ended before all was measured: {cause}")
    return tuple(
        FurtherView(
            workload=key,
            words=each.words,
            concurrency=each.concurrency,
            prompt_tokens=each.prompt_tokens,
            new_tokens=each.new_tokens,
            blocks=each.blocks,
            metrics=tuple(
                metric_view(metric, values[key][metric]) for metric in TOLD if metric in values.get(key, {})
            ),
            failures=tuple(failures.get(key, ())),
        )
        for key, each in asked.items()
    )


def metric_view(metric: Metric, arms: Mapping[Arm, Mapping[int, float]]) -> FurtherMetricView:
    """What the launches of both arms say of one metric, by the launch's index; pure."""
    control, candidate = arms.get(Arm.CONTROL, {}), arms.get(Arm.CANDIDATE, {})
    logs = [
        log(candidate[index] / control[index])
        for index in sorted(control.keys() & candidate.keys())
        if control[index] > 0 and candidate[index] > 0
    ]
    middle, half = fmean(logs) if logs else None, _half(logs)
    around = None if middle is None or half is None else (middle - half, middle + half)
    return FurtherMetricView(
        metric=metric.value,
        unit=metric.unit,
        control=fmean(control.values()) if control else None,
        candidate=fmean(candidate.values()) if candidate else None,
        change=None if middle is None else exp(middle) - 1,
        low=None if around is None else exp(around[0]) - 1,
        high=None if around is None else exp(around[1]) - 1,
        pairs=len(logs),
    )


def _half(logs: Sequence[float]) -> float | None:
    """Half of the interval's width; None of fewer pairs than `LEAST_PAIRS`."""
    if len(logs) < LEAST_PAIRS:
        return None
    from scipy.special import stdtrit  # loading it takes longer than most commands

    return float(stdtrit(len(logs) - 1, UPPER)) * stdev(logs) / sqrt(len(logs))
