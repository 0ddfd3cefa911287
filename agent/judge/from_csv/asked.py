"""What is asked of a table of times, checked: the metric, the bounds, and what is known of the noise."""

from __future__ import annotations

from dataclasses import dataclass

from agent.judge.from_csv.sorting import Table
from agent.judge.pairs import PairEffect
from configs.errors import UsageError
from configs.quantities import parse_percent
from experiments.measurement.evidence import TIMED_METRICS, Metric, NoiseProfile
from experiments.measurement.plan import Prediction, StoppingPlan

USUAL_METRIC = Metric.TPOT_MS
"""Judged of a file with several metrics when none is named: what a campaign judges by default."""

MOST_ALPHA = 0.5
"""A chance of error of a half and more asks for nothing."""

NO_PREDICTION = Prediction(log_ratio_mean=0.0, log_ratio_sd=1.0)
"""A table comes without one, and no rule that is used on it reads one."""


@dataclass(frozen=True)
class Asked:
    """The question: `min_effect` and `alpha` as shares of 1; `noise_sd` is the standard deviation between
    launches on the log scale, of `noise_dof` degrees of freedom, or None."""

    metric: Metric | None = None
    min_effect: float = 0.03
    alpha: float = 0.05
    validation_pairs: int = 0
    noise_sd: float | None = None
    noise_dof: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.min_effect < 1:
            raise UsageError(
                f"A smallest gain of {100 * self.min_effect:g} % can't be asked for.",
                "Choose more than 0 % and less than 100 %, such as 3%.",
            )
        if not 0 < self.alpha < MOST_ALPHA:
            raise UsageError(
                f"An alpha of {self.alpha:g} can't be asked for.", "Choose more than 0 and less than 0.5."
            )
        if (self.noise_sd is None) != (self.noise_dof == 0):
            raise UsageError(
                "The noise is given by half.",
                "Give both --noise-sd, how much launches vary, and --noise-dof, how many behind it less one.",
            )
        if self.noise_sd is not None and not 0 < self.noise_sd < 1:
            raise UsageError(
                f"Launches can't vary by {100 * self.noise_sd:g} %.",
                "Give the standard deviation between launches, such as 1% or 0.01, or leave it out.",
            )

    @classmethod
    def of(
        cls,
        metric: str | None,
        min_effect: str,
        alpha: float,
        validation_pairs: int,
        noise_sd: str | None,
        noise_dof: int | None,
    ) -> Asked:
        """Read it from words; raises `UsageError` for what can't be asked."""
        return cls(
            metric=None if metric is None else timed_metric(metric),
            min_effect=parse_percent(min_effect),
            alpha=alpha,
            validation_pairs=validation_pairs,
            noise_sd=None if noise_sd is None else _share(noise_sd),
            noise_dof=noise_dof or 0,
        )

    def plan(self, metric: Metric) -> StoppingPlan:
        """The bounds in the form that the judge's rules read; nothing of it was fixed before the samples."""
        return StoppingPlan(
            metric=metric, prediction=NO_PREDICTION, min_effect=self.min_effect, alpha=self.alpha
        )

    def noise(self, metric: Metric) -> NoiseProfile:
        """What is known of the launches beside this table."""
        launches = self.noise_dof + 1 if self.noise_dof else 0
        return NoiseProfile("as given", metric, launches, self.noise_dof, self.noise_sd)

    def choose(self, table: Table) -> tuple[Metric, tuple[PairEffect, ...]]:
        """The metric to judge and its pairs; raises `UsageError` where the table leaves it open."""
        there = sorted(table.effects)
        metric = self.metric or (there[0] if len(there) == 1 else USUAL_METRIC)
        if metric not in table.effects:
            found = ", ".join(each.value for each in there)
            raise UsageError(
                f"The file holds no {metric.value}, but {found}.",
                f"Name one of them: --metric {there[0].value}",
            )
        pairs = table.effects[metric]
        if self.validation_pairs >= len(pairs):
            raise UsageError(
                f"{self.validation_pairs} validation pairs of {len(pairs)} leave none before them.",
                f"Ask for {len(pairs) - 1} at most, or measure more.",
            )
        return metric, pairs


def _share(text: str) -> float:
    """A standard deviation on the log scale, as a plain number or in percent."""
    try:
        return float(text)
    except ValueError:
        return parse_percent(text)


def timed_metric(name: str) -> Metric:
    """A metric of time by its name; raises `UsageError` for any other."""
    try:
        metric = Metric(name)
    except ValueError:
        metric = None
    if metric not in TIMED_METRICS:
        known = ", ".join(sorted(each.value for each in TIMED_METRICS))
        what = "there is no such metric" if metric is None else "it is no metric of time"
        raise UsageError(f"{name!r} can't be judged: {what}.", f"Choose one of {known}.")
    return metric
