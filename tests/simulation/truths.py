"""The rows of the tables of docs/judging.md: truths, plans and profiles, with the words that name them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from experiments.measurement.evidence import Metric
from experiments.measurement.plan import StoppingPlan
from experiments.space.configuration import Change
from tests.simulation.experiment import PLAN, Truth

QUANTIZED = (Change("quantization.corpus", "raw", "instruct"),)


@dataclass(frozen=True)
class Row:
    """One truth under one plan; `gain` is relative, 0.05 is 5 % less time."""

    gain: float
    launches: str
    truth: Truth
    degrees_of_freedom: int = 10
    plan: StoppingPlan = PLAN

    @property
    def words(self) -> str:
        """The gain in words."""
        if self.gain == 0:
            return "none"
        if self.gain == self.plan.min_effect:
            return f"{100 * self.gain:g} % (= `min_effect`)"
        return f"{100 * abs(self.gain):g} %{' slower' * (self.gain < 0)}"


def planned(full_pairs: int = PLAN.full_pairs, support_alpha: float | None = None) -> StoppingPlan:
    """The simulated plan with other pairs, or a level of support of its own."""
    changes = {"full_pairs": full_pairs, "support_alpha": support_alpha}
    return StoppingPlan.model_validate({**PLAN.model_dump(), **changes})


def gains(gain: float, launch_sd: float, degrees_of_freedom: int, plan: StoppingPlan = PLAN) -> Row:
    """A gain where all assumptions of the interval hold but those on what happens within a launch."""
    truth = Truth(effect_log=math.log(1 - gain), launch_sd=launch_sd)
    return Row(gain, f"{100 * launch_sd:g} %", truth, degrees_of_freedom, plan)


def broken(gain: float, degrees_of_freedom: int = 10) -> list[Row]:
    """Truths that break an assumption of the interval."""
    true = Truth(effect_log=math.log(1 - gain))
    return [
        Row(gain, words, truth, degrees_of_freedom)
        for words, truth in (
            ("1 %, candidate 3 %", replace(true, candidate_launch_sd=0.03)),
            ("1 %, tails of t(3)", replace(true, launch_tails=3)),
            ("1 %, autocorrelation 0.8", replace(true, launch_autocorrelation=0.8)),
            ("1 %, blocks vary by 5 %", replace(true, disturbance_sd=0.05, autocorrelation=0.95)),
            ("1 %, a request of 50 interrupted", replace(true, interruption_chance=0.02)),
        )
    ]


ERRORS = [
    *(gains(0.0, 0.01, freedom) for freedom in (0, 2, 10, 60)),
    gains(0.0, 0.03, 2),
    gains(0.03, 0.01, 2),
    gains(0.03, 0.01, 10),
    gains(0.3, 0.01, 2),
    gains(0.3, 0.03, 2),
    gains(0.1, 0.01, 2),
    gains(0.1, 0.01, 10),
    gains(0.1, 0.02, 10),
    gains(0.06, 0.01, 10),
    gains(0.05, 0.01, 10),
    gains(-0.05, 0.01, 2),
]
"""Where the assumptions hold."""

BROKEN = [*broken(0.0), *broken(0.03), broken(0.0, 60)[0], broken(0.06)[0]]
"""Where one does not."""

POWER = [
    *(gains(0.05, 0.01, 10, planned(pairs)) for pairs in (4, 8, 12, 16)),
    *(gains(0.05, 0.01, 10, planned(pairs, 0.005)) for pairs in (8, 16)),
    gains(0.05, 0.005, 10),
    gains(0.1, 0.01, 10, planned(support_alpha=0.0005)),
]
"""A gain of 5 % and what more pairs buy, at a stricter level of support too."""


@dataclass(frozen=True)
class Claim:
    """A claim that is scored, with the truth of the samples; `gain` is what the truth is worth."""

    metric: str
    words: str
    scatter: str
    plan: StoppingPlan
    truth: Truth
    gain: float


def bits_claim(gain: float, document_sd: float = 0.01) -> Claim:
    """Documents whose log ratios scatter; the mean of their ratios is that of `gain` per cent fewer bits."""
    plan = PLAN.model_copy(update={"metric": Metric.NLL_BITS, "min_effect": 0.005})
    truth = Truth(
        bits_log=math.log(1 - gain) - document_sd**2 / 2, bits_document_sd=document_sd, changes=QUANTIZED
    )
    words = f"{100 * abs(gain):g} %{' worse' * (gain < 0)}" if gain else "none"
    return Claim("bits", words, f"{100 * document_sd:g} %", plan, truth, math.log(1 - gain))


def tasks_claim(gain: float, lost: float = 0.01) -> Claim:
    """Items of which a share is lost and that share and `gain` more are gained, by chance."""
    work = PLAN.workload.model_copy(update={"evaluation_items": 300})
    plan = PLAN.model_copy(update={"metric": Metric.TASK_CORRECT, "min_effect": 0.02, "workload": work})
    truth = Truth(
        bits_document_sd=0.0, task_loss_chance=lost, task_gain_chance=lost + gain, changes=QUANTIZED
    )
    words = f"{100 * gain:g} points" if gain else "none"
    return Claim("tasks", words, f"{100 * lost:g} %", plan, truth, -gain)


CLAIMS = [
    bits_claim(0.0),
    bits_claim(0.0, 0.05),
    bits_claim(0.005),
    bits_claim(0.01),
    bits_claim(0.02),
    bits_claim(-0.01),
    tasks_claim(0.0),
    tasks_claim(0.0, 0.05),
    tasks_claim(0.02),
    tasks_claim(0.05),
    tasks_claim(0.09),
]
"""Claims on quality."""
