"""Equal arms on the reference engine: what a stored series of `autoinfer aa` says of the judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.judge.aa_pairs import AaPair, profile
from agent.judge.aa_statistics import standard_deviation
from agent.judge.assumptions import report
from configs.errors import UsageError
from experiments.job.named import load_judge
from experiments.measurement.evidence import Evidence, NoiseProfile, Stage
from experiments.measurement.judging import Judge, JudgeVerdict, Outcome
from experiments.measurement.plan import StoppingPlan
from knowledge.scope import workload_words
from tests.proofs.counting import Share
from tests.proofs.recorded_series import StoredSeries
from tests.proofs.simulated_rates import TimeNoise


@dataclass(frozen=True)
class RealSeries:
    """A series: how it was made, how its launches vary, and what the judge said of its pairs.

    `launch_sd_log` is that of a launch's centre, as the noise profile takes it; `noise` is its parts.

    `experiments` are whole experiments of consecutive pairs, each pair used once; `held_everywhere` are those
    whose interval held 0 after each of their pairs. `first_looks` judge every pair as the quick pair of an
    experiment: `first_held` held 0, and of `beyond` the interval lay beyond `min_effect`. None of these could
    be called supported, because nothing is without a validation.
    """

    label: str
    engine: str
    model: str
    target: str
    configuration: str
    workload: str
    host: str
    metric: str
    launches: int
    launch_sd_log: float
    launch_sd_bounds: tuple[float, float]
    noise: TimeNoise
    freedom: int
    judge: str
    min_effect: float
    experiments: int
    experiments_supported: int
    experiments_refuted: int
    held_everywhere: int
    first_looks: int
    first_held: int
    beyond: int

    @property
    def supported(self) -> Share:
        """Whole experiments called supported."""
        return supported((self,))

    @property
    def held(self) -> Share:
        """Whole experiments whose interval held the truth at every look."""
        return held((self,))


def supported(series: Iterable[RealSeries]) -> Share:
    """Whole experiments of all series that were called supported."""
    found = list(series)
    return Share(sum(each.experiments_supported for each in found), sum(each.experiments for each in found))


def held(series: Iterable[RealSeries]) -> Share:
    """Whole experiments of all series whose interval held the truth at every look."""
    found = list(series)
    return Share(sum(each.held_everywhere for each in found), sum(each.experiments for each in found))


def told_of(series: StoredSeries) -> RealSeries | None:
    """What the judge says of a series; None where it is too short to tell how launches vary."""
    ground, judge = series.ground, load_judge(series.ground.judge)
    found = report(series.pairs, ground.stopping_plan, judge, ground.blocks, ground.condition)
    spread = found.launch_sd
    if spread is None or spread.low is None or spread.high is None or found.parts is None:
        return None
    kept = [each for each in series.pairs if not each.differs]
    experiments, looks = found.judged.experiments, found.judged.first_looks
    outcomes = [each.outcome for each in experiments]
    return RealSeries(
        label=ground.label,
        engine=ground.engine,
        model=ground.model,
        target=ground.target,
        configuration=ground.configuration,
        workload=workload_words(ground.stopping_plan.workload.model_dump()),
        host=ground.host,
        metric=ground.stopping_plan.metric.value,
        launches=2 * len(series.pairs),
        launch_sd_log=spread.value,
        launch_sd_bounds=(spread.low, spread.high),
        noise=TimeNoise(
            *(
                math.sqrt(each.value)
                for each in (found.parts.launches, found.parts.blocks, found.parts.requests)
            )
        ),
        freedom=spread.n,
        judge=f"{judge.name} {judge.version}",
        min_effect=found.plan.min_effect,
        experiments=len(experiments),
        experiments_supported=outcomes.count(Outcome.SUPPORTED),
        experiments_refuted=outcomes.count(Outcome.REFUTED),
        held_everywhere=held_at_every_look(kept, [each.pairs for each in experiments], found.plan, judge),
        first_looks=len(looks),
        first_held=first_held(kept, found.plan, judge),
        beyond=found.judged.first_beyond,
    )


JUDGED_ALIKE = ("metric", "judge", "min_effect")
"""What all series must agree in, or their verdicts can't be counted together."""

ONE_GROUND = ("engine", "model", "target", "configuration", "workload", "host")
"""Series that agree in these too vary alike, and are told as one."""

COUNTS = (
    "launches",
    "experiments",
    "experiments_supported",
    "experiments_refuted",
    "held_everywhere",
    "first_looks",
    "first_held",
    "beyond",
)
"""What is added where series are told as one."""


def grouped(series: Sequence[RealSeries]) -> tuple[RealSeries, ...]:
    """One for each ground that was measured on, in the order of the first series on it.

    Each series was judged for itself: no experiment takes pairs of two. Raises `UsageError` for series that
    were not judged alike.
    """
    grounds: dict[tuple[object, ...], list[RealSeries]] = {}
    for each in series:
        different = [name for name in JUDGED_ALIKE if getattr(each, name) != getattr(series[0], name)]
        if different:
            name = different[0]
            raise UsageError(
                f"The series can't be counted together: {name} is {getattr(series[0], name)} in one and "
                f"{getattr(each, name)} in another.",
                "Give --real-aa series that are judged alike.",
            )
        grounds.setdefault(tuple(getattr(each, name) for name in ONE_GROUND), []).append(each)
    return tuple(_as_one(found) for found in grounds.values())


def _as_one(series: Sequence[RealSeries]) -> RealSeries:
    """Counts are added, and the variance between launches is the mean weighted by degrees of freedom."""
    if len(series) == 1:
        return series[0]
    squares = math.fsum(each.launch_sd_log**2 * each.freedom for each in series)
    freedom = sum(each.freedom for each in series)
    spread = standard_deviation(squares, freedom, freedom)
    assert spread is not None
    assert spread.low is not None
    assert spread.high is not None
    return replace(
        series[0],
        label=f"{series[0].label} and {len(series) - 1} more",
        launch_sd_log=spread.value,
        launch_sd_bounds=(spread.low, spread.high),
        noise=TimeNoise(
            *(
                math.sqrt(
                    math.fsum(getattr(each.noise, name) ** 2 * each.freedom for each in series) / freedom
                )
                for name in ("launch_sd", "block_sd", "request_sd")
            )
        ),
        freedom=freedom,
        **{name: sum(getattr(each, name) for each in series) for name in COUNTS},
    )


def held_at_every_look(
    pairs: Sequence[AaPair], sizes: Iterable[int], plan: StoppingPlan, judge: Judge
) -> int:
    """Of experiments that took so many consecutive pairs each, those whose interval held 0 after every pair;
    each knows the noise profile of the pairs before it, as in the replay."""
    begun = held = 0
    for size in sizes:
        known = profile(pairs[:begun], plan.metric)
        taken = pairs[begun : begun + size]
        looks = (_evidence(taken[:count], known) for count in range(1, size + 1))
        held += all(_holds_nothing(judge.verdict(plan, look)) for look in looks)
        begun += size
    return held


def first_held(pairs: Sequence[AaPair], plan: StoppingPlan, judge: Judge) -> int:
    """Of all pairs, each as the first of an experiment, those whose interval held 0."""
    return sum(
        _holds_nothing(judge.verdict(plan, _evidence([pair], profile(pairs[:place], plan.metric))))
        for place, pair in enumerate(pairs)
    )


def _evidence(taken: Sequence[AaPair], known: NoiseProfile) -> Evidence:
    launches = [each for place, pair in enumerate(taken) for each in pair.staged(Stage.FULL, place)]
    return Evidence(tuple(launches), known, ())


def _holds_nothing(verdict: JudgeVerdict) -> bool:
    low, high = verdict.interval_low_log, verdict.interval_high_log
    return low is None or high is None or low <= 0 <= high
