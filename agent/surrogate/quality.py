"""The probability that a candidate holds the campaign's quality limits. Pure.

Two factors, taken as independent:

- **Bits per byte.** The log of candidate over baseline bits is a normal whose prior adds by lever: threads,
  compilation and drafting change nothing but rounding; a narrower format a little; quantization by its bits,
  groups and what it spares; each pruned layer of a small model costs more than the one before, and more in a
  quantized model. Measured ratios correct it by the regression that latency uses. The factor is the chance
  that the ratio lies within the margin, less `TEST_REACH_LOG` that the one-sided test takes.
- **Tasks.** A Beta count for each lever's setting of how often the task limit was kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from scipy.special import ndtr

from agent.proposers.port import Trial
from agent.surrogate.averaged import Averaged
from agent.surrogate.carried import Carried, bounded, by_scope
from agent.surrogate.hearing import Row
from agent.surrogate.levers import LeverView, Setting
from agent.surrogate.linear import Features
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins, Prediction
from experiments.space.configuration import Configuration, KnobValue

BITS_A_LAYER_LOG = 0.015
"""Loss of bits that the first pruned layer is expected to cost: beyond a margin of 1 % more often than
not."""

BITS_LAYER_POWER = 1.5
"""The loss grows with this power of the layers removed: errors of layers compound (FACTS: nor additive)."""

BITS_LAYER_SD_LOG = 0.02
"""Standard deviation of the loss for one layer; grows with the same power."""

BITS_BY_LEVER: Mapping[str, tuple[float, float]] = {
    "compile": (0.0, 0.0005),
    "threads": (0.0, 0.0002),
    "dtype": (0.001, 0.003),
    "weight_dtype": (0.001, 0.003),
    "kv_cache": (0.001, 0.003),
    "gdn_state": (0.0005, 0.002),
    **dict.fromkeys(
        (
            *("drafting", "kernel", "graphs", "scheduling", "context", "batching", "chunking"),
            *("gdn_prefill", "prompt_graphs", "experts_kernel"),
        ),
        (0.0, 0.0002),
    ),
}
"""Mean and standard deviation of the log ratio of bits for the other levers; judgement. What computes the
same with other kernels, graphs or schedules changes rounding alone."""

BITS_UNKNOWN = (0.002, 0.01)
"""The same for a lever that is not named here."""

TEST_REACH_LOG = 0.002
"""How far below the margin a ratio must lie for the one-sided test to see it: its bound on a few dozen
documents."""

BITS_SE_LOG = 0.001
"""Error with which a measured ratio speaks of the ratio on all text."""

CRITERION_FACTOR = {"block_influence": 1.0, "leave_one_out_kl": 0.9, "greedy_kl": 0.8}
"""Loss by pruning criterion over that of Block Influence: measured on predictions, then on what is left."""

QUANTIZED_AND_PRUNED = 1.3
"""Loss of a pruned layer in a quantized model over that in the original (FACTS: what looks redundant has been
used up), the same less `RANKED_ON_QUANTIZED` where layers were ranked on the quantized model."""

RANKED_ON_QUANTIZED = 0.15
"""See above."""

BITS_4_LOG = 0.02
"""Loss of bits that rounding to 4 bits in groups of 128 is expected to cost a small model."""

BITS_8_LOG = 0.0005
"""The same for 8 bits."""

QUANTIZATION_FACTORS: Mapping[tuple[str, KnobValue], float] = {
    ("quantization.method", "awq"): 0.7,
    ("quantization.group_size", 64): 0.75,
    ("quantization.group_size", 32): 0.5,
    ("quantization.symmetric", True): 1.2,
    ("quantization.out_proj_bits", 8): 0.8,
    ("quantization.lm_head", "quantized"): 1.4,
    ("quantization.keep", "attention"): 0.85,
    ("quantization.keep", "edges"): 0.8,
}
"""What multiplies that loss, by knob and value; judgement. No calibration corpus is named: which one keeps
most is to be measured."""

QUANTIZATION_SD_SHARE = 0.7
"""Standard deviation of the loss by quantization, as a share of what its bits cost. It is one for all groups,
corpora and so on, so that a comparison of two of them teaches about these and not about quantization."""

LEAST_QUANTIZATION_SD_LOG = 0.001
"""And at least this."""

TASK_A_LOG_BITS = 1.0
"""Share of items lost for each unit of the log ratio of bits: one point for one percent; a weak guess."""

TASK_SHARE_SD = 0.03
"""Standard deviation of that share: a few hundred items."""

TASK_PRIOR: Mapping[str, tuple[float, float]] = {"pruning": (2.0, 1.0), "quantization": (4.0, 1.0)}
"""Beta counts (kept, lost) of the task limit before any trial."""

TASK_PRIOR_8_BITS = (19.0, 1.0)
"""The same for quantization to 8 bits."""

TASK_PRIOR_OTHERWISE = (19.0, 1.0)
"""The same for levers that don't touch the weights."""

BITS_8 = 8
"""The value of `quantization.bits` that costs hardly anything."""

SHARED = 0.6
"""Share of a lever's variance that all its settings have in common."""


@dataclass(frozen=True)
class QualityBelief:
    """What is believed of quality after the trials."""

    view: LeverView
    margins: Margins
    regression: Averaged
    tasks: Mapping[tuple[str, Setting], tuple[float, float]]
    judged: bool = True

    @classmethod
    def learn(
        cls,
        view: LeverView,
        margins: Margins,
        trials: Sequence[Trial],
        *,
        judged: bool = True,
        carried: Sequence[Carried] = (),
    ) -> QualityBelief:
        """The belief after all trials that measured quality; bits are taken relative to the baseline.

        `judged`: whether the campaign judges quality at all. Where it has none, it keeps nothing from being
        supported, and its probability is 1 for everything. Those `carried` over from other campaigns say the
        less the more their model differs; of tasks, those of the same model alone, and they count little.
        """
        told = {
            scope: [
                (each.discounted_content(features), residual, BITS_SE_LOG**2)
                for each in found
                for features, residual in _bits_rows(view, each.trial)
            ]
            for scope, found in by_scope(carried).items()
        }
        counted: dict[tuple[str, Setting], tuple[float, float]] = {}
        for each in carried:
            if each.same_model:
                _count_tasks(view, margins, each.trial, counted)
        tasks = bounded(counted)
        own: list[Row] = []
        for trial in trials:
            own += [(features, residual, BITS_SE_LOG**2) for features, residual in _bits_rows(view, trial)]
            _count_tasks(view, margins, trial, tasks)
        return cls(view, margins, Averaged.learn(own, told), tasks, judged)

    def after(self, trial: Trial) -> QualityBelief:
        """The belief after one trial more."""
        regression, tasks = self.regression, dict(self.tasks)
        for features, residual in _bits_rows(self.view, trial):
            regression = regression.after(features, residual, BITS_SE_LOG**2)
        _count_tasks(self.view, self.margins, trial, tasks)
        return replace(self, regression=regression, tasks=tasks)

    def probability(self, candidates: Sequence[Configuration]) -> list[float]:
        """For each candidate the probability that its quality holds against the baseline's."""
        if not self.judged:
            return [1.0] * len(candidates)
        settings = [self.view.settings(candidate) for candidate in candidates]
        priors = [_bits_prior(self.view, found) for found in settings]
        means, variances = self.regression.predict([features for _, features in priors])
        limit = math.log1p(self.margins.bits_per_byte) - TEST_REACH_LOG
        found = []
        for (prior, _), mean, variance, levers in zip(priors, means, variances, settings, strict=True):
            spread = math.sqrt(float(variance) + BITS_SE_LOG**2)
            held = float(ndtr((limit - prior - float(mean)) / spread))
            found.append(held * math.prod(self._tasks_kept(key) for key in levers.items()))
        return found

    def bits(self, control: Configuration, candidate: Configuration) -> Prediction:
        """Log of candidate over control bits of the same text, as a normal."""
        mean, features = _contrast(self.view, control, candidate)
        found, variance = self.regression.predict([features])
        return Prediction(
            log_ratio_mean=mean + float(found[0]),
            log_ratio_sd=math.sqrt(float(variance[0]) + BITS_SE_LOG**2),
        )

    def tasks_lost(self, control: Configuration, candidate: Configuration) -> Prediction:
        """Share of items solved by the control less the candidate's: negative is better; a weak guess."""
        bits = self.bits(control, candidate)
        return Prediction(
            log_ratio_mean=TASK_A_LOG_BITS * bits.log_ratio_mean,
            log_ratio_sd=math.hypot(TASK_SHARE_SD, TASK_A_LOG_BITS * bits.log_ratio_sd),
        )

    def _tasks_kept(self, key: tuple[str, Setting]) -> float:
        lever, setting = key
        good, bad = TASK_PRIOR.get(lever, TASK_PRIOR_OTHERWISE)
        if lever == "pruning":
            bad *= _layers(setting)
        if lever == "quantization" and dict(setting).get("quantization.bits") == BITS_8:
            good, bad = TASK_PRIOR_8_BITS
        seen_good, seen_bad = self.tasks.get(key, (0.0, 0.0))
        return (good + seen_good) / (good + bad + seen_good + seen_bad)


def _bits_rows(view: LeverView, trial: Trial) -> Iterator[tuple[Features, float]]:
    """Features and residual of each ratio of bits that a trial measured."""
    if trial.outcome == Outcome.CONFOUNDED:
        return
    settings = view.settings(trial.candidate)
    if trial.metric == Metric.NLL_BITS and trial.effect_log is not None:
        mean, features = _contrast(view, trial.control, trial.candidate)
        yield features, trial.effect_log - mean
    if trial.bits_ratio_log is not None and settings:
        mean, features = _bits_prior(view, settings)
        yield features, trial.bits_ratio_log - mean


def _count_tasks(
    view: LeverView, margins: Margins, trial: Trial, tasks: dict[tuple[str, Setting], tuple[float, float]]
) -> None:
    """Count whether a trial kept the task limit."""
    if trial.outcome == Outcome.CONFOUNDED or trial.task_points is None:
        return
    settings = view.settings(trial.candidate)
    kept = trial.task_points >= -margins.task_points
    for key in settings.items():
        good, bad = tasks.get(key, (0.0, 0.0))
        # who is to blame for a loss of several levers is not known: each takes its share
        tasks[key] = (good + kept, bad + (not kept) / len(settings))


def _bits_prior(view: LeverView, settings: Mapping[str, Setting]) -> tuple[float, Features]:
    total, features = 0.0, dict[str, float]()
    quantized = "quantization" in settings
    for lever, setting in settings.items():
        key = (lever, setting, quantized)
        if key not in view.bits_of_setting:
            view.bits_of_setting[key] = _bits_of_setting(view, lever, setting, quantized=quantized)
        mean, open_ = view.bits_of_setting[key]
        total += mean
        features.update(open_)
    return total, features


def _bits_of_setting(
    view: LeverView, lever: str, setting: Setting, *, quantized: bool
) -> tuple[float, Features]:
    mean, spread = BITS_BY_LEVER.get(lever, BITS_UNKNOWN)
    if lever == "pruning":
        growth = _pruning_growth(dict(setting), quantized)
        mean, spread = BITS_A_LAYER_LOG * growth, BITS_LAYER_SD_LOG * growth
    if lever == "quantization":
        mean, spread = _quantization(dict(setting))
    own = spread * math.sqrt((1 - SHARED) / len(setting))
    return mean, {lever: spread * math.sqrt(SHARED), **view.resemblance.of_all(dict(setting), own)}


def _contrast(view: LeverView, control: Configuration, candidate: Configuration) -> tuple[float, Features]:
    (before, less), (after, more) = (_bits_prior(view, view.settings(each)) for each in (control, candidate))
    return after - before, {name: more.get(name, 0.0) - less.get(name, 0.0) for name in {**less, **more}}


def _pruning_growth(knobs: Mapping[str, KnobValue | None], quantized: bool) -> float:
    growth: float = _layers(tuple(knobs.items())) ** BITS_LAYER_POWER
    growth *= CRITERION_FACTOR.get(str(knobs.get("pruning.criterion")), 1.0)
    if quantized:
        ranked_there = knobs.get("pruning.ranked_on") == "quantized"
        growth *= QUANTIZED_AND_PRUNED - (RANKED_ON_QUANTIZED if ranked_there else 0.0)
    return growth


def _quantization(knobs: Mapping[str, KnobValue | None]) -> tuple[float, float]:
    if knobs.get("quantization.method") in (None, "none") and "quantization.bits" not in knobs:
        return BITS_UNKNOWN  # a quantized baseline of which something else differs
    base = BITS_8_LOG if knobs.get("quantization.bits") == BITS_8 else BITS_4_LOG
    mean = base
    for knob, value in knobs.items():
        if value is not None:
            mean *= QUANTIZATION_FACTORS.get((knob, value), 1.0)
    return mean, max(LEAST_QUANTIZATION_SD_LOG, QUANTIZATION_SD_SHARE * base)


def _layers(setting: Setting) -> int:
    count = dict(setting).get("pruning.layers_removed")
    return count if isinstance(count, int) else 1
