"""Ratios of latency between configurations, each measured side by side, and how they lead to the baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, hypot, log, sqrt
from statistics import fmean

from sqlalchemy import select
from sqlalchemy.orm import Session

from db.models import Experiment, Launch
from db.states import Arm
from experiments.measurement.evidence import Stage
from knowledge.queries.measured.launch_means import launch_means

UPPER = 0.975
"""Quantile at the upper end of a two-sided interval of 95 %."""

_PAIRED = (Stage.QUICK.value, Stage.FULL.value, Stage.VALIDATION.value)


@dataclass(frozen=True)
class Ratio:
    """One experiment's candidate over its control: natural logs with their interval, the launches behind it,
    and the relative change of bits per byte with its interval; None for what was not measured."""

    experiment_id: int
    control_id: int
    candidate_id: int
    log_ratio: float | None
    low_log: float | None
    high_log: float | None
    launches: int
    quality: float | None
    quality_low: float | None
    quality_high: float | None


@dataclass(frozen=True)
class Placed:
    """A configuration over the baseline, by the test with the most launches among those that reach it (of
    equals the newest), the best by the test that made it; `experiments` counts them all."""

    configuration_id: int
    experiment_id: int
    log_ratio: float
    low_log: float | None
    high_log: float | None
    launches: int
    quality: float | None
    quality_low: float | None
    quality_high: float | None
    experiments: int = 1


def chained(
    ratios: Sequence[Ratio], baseline_id: int, best_experiment_id: int | None = None
) -> Mapping[int, Placed]:
    """Configurations that ratios lead to from the baseline, by id; ratios in the order of their experiments.
    `best_experiment_id` is the test that made the best, which places it whatever else reached it.

    A control's ratio is the one that is known when its candidate is reached; what nothing leads to is left
    out. Quality is against the baseline in every experiment, so it needs no chain. Pure.
    """
    found: dict[int, Placed] = {}
    for placed in _reached(ratios, baseline_id, found):
        before = found.get(placed.configuration_id)
        count = 1 if before is None else before.experiments + 1
        kept = before is not None and (
            before.experiment_id == best_experiment_id
            or (placed.experiment_id != best_experiment_id and before.launches > placed.launches)
        )
        found[placed.configuration_id] = replace(before if before and kept else placed, experiments=count)
    return found


def each_over_baseline(ratios: Sequence[Ratio], baseline_id: int) -> Mapping[int, Placed]:
    """What each experiment says of its candidate over the baseline, by id; else as `chained`. Pure."""
    found: dict[int, Placed] = {}
    own: dict[int, Placed] = {}
    for placed in _reached(ratios, baseline_id, found):
        own[placed.experiment_id] = placed
        before = found.get(placed.configuration_id)
        if before is None or before.launches <= placed.launches:
            found[placed.configuration_id] = placed
    return own


def _reached(ratios: Sequence[Ratio], baseline_id: int, found: Mapping[int, Placed]) -> Iterator[Placed]:
    """The candidates that a chain from the baseline reaches, by what was `found` of the others so far."""
    for each in ratios:
        if each.log_ratio is None or each.candidate_id == baseline_id:
            continue
        control = found.get(each.control_id)
        if control is None and each.control_id != baseline_id:
            continue
        middle = each.log_ratio + (0.0 if control is None else control.log_ratio)
        low, high = _ends(each, control, middle)
        yield Placed(
            each.candidate_id,
            each.experiment_id,
            middle,
            low,
            high,
            each.launches,
            each.quality,
            each.quality_low,
            each.quality_high,
        )


def _ends(each: Ratio, control: Placed | None, middle: float) -> tuple[float | None, float | None]:
    if each.log_ratio is None or each.low_log is None or each.high_log is None:
        return None, None
    below, above = each.log_ratio - each.low_log, each.high_log - each.log_ratio
    if control is not None:
        if control.low_log is None or control.high_log is None:
            return None, None
        below = hypot(below, control.log_ratio - control.low_log)
        above = hypot(above, control.high_log - control.log_ratio)
    return middle - below, middle + above


def launch_ratios(session: Session, campaign_id: int, metric: str, judged: Sequence[Ratio]) -> list[Ratio]:
    """The same experiments with another metric's ratio, from their pairs of launches; three statements."""
    means = launch_means(session, campaign_id, metric)
    query = (
        select(Launch.experiment_id, Launch.attempt, Launch.stage, Launch.index, Launch.arm, Launch.id)
        .join(Experiment, Experiment.id == Launch.experiment_id)
        .where(Experiment.campaign_id == campaign_id, Launch.stage.in_(_PAIRED))
    )
    arms: dict[int, dict[tuple[int, str, int], dict[Arm, float]]] = defaultdict(lambda: defaultdict(dict))
    for experiment_id, attempt, stage, index, arm, launch_id in session.execute(query):
        if means.get(launch_id, 0.0) > 0:
            arms[experiment_id][attempt, stage, index][arm] = log(means[launch_id])
    return [_paired(each, arms.get(each.experiment_id, {})) for each in judged]


def _paired(ratio: Ratio, arms: Mapping[tuple[int, str, int], Mapping[Arm, float]]) -> Ratio:
    last = max((attempt for attempt, _, _ in arms), default=0)
    logs = [
        both[Arm.CANDIDATE] - both[Arm.CONTROL]
        for (attempt, _, _), both in arms.items()
        if attempt == last and len(both) == len(Arm)
    ]
    if not logs:
        return replace(ratio, log_ratio=None, low_log=None, high_log=None, launches=0)
    middle = fmean(logs)
    half = None
    if len(logs) > 1:
        from scipy.special import stdtrit  # loading it takes longer than most commands

        freedom = len(logs) - 1
        variance = fsum((each - middle) ** 2 for each in logs) / freedom
        half = float(stdtrit(freedom, UPPER)) * sqrt(variance / len(logs))
    return replace(
        ratio,
        log_ratio=middle,
        low_log=None if half is None else middle - half,
        high_log=None if half is None else middle + half,
        launches=2 * len(logs),
    )
