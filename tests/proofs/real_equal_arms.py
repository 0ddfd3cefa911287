"""Equal arms on the reference engine: what a stored series of `autoinfer aa` says of the judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.judge.aa_pairs import AaPair, profile
from agent.judge.aa_replay import plan_of, replay
from agent.judge.aa_statistics import standard_deviation
from configs.errors import UsageError
from experiments.job.named import load_judge
from experiments.measurement.evidence import Evidence, NoiseProfile, Stage
from experiments.measurement.judging import Judge, JudgeVerdict
from experiments.measurement.plan import StoppingPlan
from tests.proofs.counting import Share


@dataclass(frozen=True)
class RealSeries:
    """A series: how it was made, how its launches vary, and what the judge said of its pairs.

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
    metric: str
    launches: int
    launch_sd_log: float
    launch_sd_bounds: tuple[float, float]
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


def read_series_of(database: str) -> RealSeries | None:
    """The longest series in a database (an address or a file); None where it holds none that was measured."""
    from sqlalchemy import select

    from agent.noise.report import as_document, load_pairs, plan_of_campaign, series_report
    from agent.noise.series import read_series
    from db.models import Campaign
    from db.noise import SERIES_NAME
    from db.session import open_database

    address = database if "://" in database else f"sqlite:///{Path(database).resolve()}"
    opened = open_database(address)
    try:
        with opened.read() as session:
            ids = list(session.scalars(select(Campaign.id).where(Campaign.name == SERIES_NAME)))
            measured = [
                (each, told)
                for each in ids
                if (told := as_document(series_report(session, each)))["launches"]
                and told["launch_sd_log"] is not None
            ]
            if not measured:
                return None
            chosen, told = max(measured, key=lambda each: int(each[1]["launches"]))
            spec, asked = read_series(session, chosen)
            pairs = [each for each in load_pairs(session, chosen) if not each.differs]
    finally:
        opened.close()
    plan, judge = plan_of(plan_of_campaign(spec), asked.blocks), load_judge(spec.judge)
    sizes = [each.pairs for each in replay(pairs, plan, judge).experiments]
    return _of_document(told, held_at_every_look(pairs, sizes, plan, judge), first_held(pairs, plan, judge))


JUDGED_ALIKE = ("metric", "judge", "min_effect")
"""What all series must agree in, or their verdicts can't be counted together."""

ONE_GROUND = ("engine", "model", "target", "configuration", "workload")
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
                "Give --real-aa databases of series that are judged alike.",
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
        label=f"{series[0].label} of each of {len(series)} databases",
        launch_sd_log=spread.value,
        launch_sd_bounds=(spread.low, spread.high),
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


def _of_document(told: Mapping[str, Any], held_everywhere: int, held_first: int) -> RealSeries:
    judged, sd = told["judged"], told["launch_sd_log"]
    experiments, looks = judged["experiments"], judged["first_looks"]
    try:
        return RealSeries(
            label=told["series"],
            engine=told["engine"],
            model=told["model"],
            target=told["target"],
            configuration=", ".join(f"{knob}={value}" for knob, value in told["configuration"].items()),
            workload=told["workload"],
            metric=told["metric"],
            launches=told["launches"],
            launch_sd_log=sd["value"],
            launch_sd_bounds=(sd["low"], sd["high"]),
            freedom=sd["n"],
            judge=judged["judge"],
            min_effect=judged["min_effect"],
            experiments=experiments["n"],
            experiments_supported=experiments["supported"]["count"],
            experiments_refuted=experiments["refuted"]["count"],
            held_everywhere=held_everywhere,
            first_looks=looks["n"],
            first_held=held_first,
            beyond=looks["beyond_min_effect"]["count"],
        )
    except KeyError as missing:
        raise UsageError(
            f"The report of series {told.get('series')} lacks {missing}.", "Measure it with this version."
        ) from None
