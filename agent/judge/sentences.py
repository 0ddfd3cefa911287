"""The judge's reasons, each one sentence with its numbers. Pure."""

from __future__ import annotations

import math
from statistics import fmean

from agent.judge.costs import Spending
from agent.judge.noninferiority import Bound, Quality
from agent.judge.reading import Reading
from agent.judge.sequence import MOST_TOLD_PAIRS, pairs_to_settle
from configs.quantities import format_duration
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import StoppingPlan
from knowledge.figures import signed

NAMES = {
    Metric.TTFT_MS: "TTFT",
    Metric.TPOT_MS: "TPOT",
    Metric.ITL_MS: "ITL",
    Metric.E2EL_MS: "The end-to-end time",
    Metric.TOKENS_PER_S: "The time per token (inverse of tokens/s)",
    Metric.OUTPUT_TOKENS_PER_S: "The time per output token of all requests (inverse of output tokens/s)",
    Metric.TOTAL_TOKENS_PER_S: "The time per token of all requests (inverse of total tokens/s)",
    Metric.REQUESTS_PER_S: "The time per request of all requests (inverse of requests/s)",
}
"""What a sentence calls a judged metric."""

ONE_ARM = "Only one arm was measured, so there is nothing to compare."
NOTHING = "Nothing was measured."
TOO_ALIKE = "more alike than measured times ever are"

MOST_LOG_RATIO = 700.0
"""The largest log ratio whose change in percent a double holds, with room to spare."""

FEWEST_IN_WHOLES = 10
"""An e-value from this on is told without decimals."""


def relative(log_ratio: float) -> float | None:
    """A log ratio as a relative change; None beyond the largest that a double holds."""
    return None if log_ratio > MOST_LOG_RATIO else math.expm1(log_ratio)


def percent(log_ratio: float) -> str:
    """A log ratio as a signed change in percent, without its sign of percent: `−28.4`; what rounds to zero
    has none; `+∞` beyond any number."""
    if log_ratio > MOST_LOG_RATIO:
        return "+∞"
    return signed(100 * math.expm1(log_ratio))


def effect(plan: StoppingPlan, reading: Reading) -> str:
    """The effect with its interval and how much stands behind it; without a full stop."""
    mean = fmean(pair.effect_log for pair in reading.pairs)
    start = f"{NAMES[plan.metric]} changed by {percent(mean)} %"
    count = _counted(len(reading.pairs), "launch pair")
    if reading.overall is None:
        why = "nothing tells how launches vary here" if len(reading.pairs) == 1 else f"they are {TOO_ALIKE}"
        return f"{start} over {count}, with no interval, because {why}"
    if not reading.overall.bounded:
        return f"{start} over {count}, with no interval yet, because too little tells how launches vary here"
    low, high = reading.overall.low_log, reading.overall.high_log
    return f"{start} ({100 * (1 - plan.alpha):g} % interval {percent(low)} to {percent(high)} %, {count})"


def supported(plan: StoppingPlan, reading: Reading) -> str:
    """Why it is supported."""
    assert reading.validation is not None
    quality = (
        reading.quality.sentence() if plan.latency_only else f"quality held: {reading.quality.sentence()}"
    )
    return (
        f"{effect(plan, reading)}, wholly beyond the {_asked(plan)} asked for; "
        f"{_counted(reading.validated, 'fresh validation pair')} alone showed "
        f"{percent(reading.validation.mean_log)} %; {quality}."
    )


def disagrees(plan: StoppingPlan, reading: Reading) -> str:
    """Why the validation keeps it from being supported."""
    assert reading.validation is not None
    return (
        f"{effect(plan, reading)}, but {_counted(reading.validated, 'fresh validation pair')} alone did not "
        f"agree: {percent(reading.validation.mean_log)} %, one-sided at most "
        f"{percent(reading.validation.high_log)} %."
    )


def unvalidated(plan: StoppingPlan, reading: Reading) -> str:
    """Why what looks good is not supported yet."""
    return (
        f"{effect(plan, reading)}, beyond the {_asked(plan)} asked for, but {reading.validated} of "
        f"{plan.validation_pairs} validation pairs were run, and nothing is supported without them."
    )


def too_small(plan: StoppingPlan, reading: Reading) -> str:
    """Why it is refuted by its latency."""
    return f"{effect(plan, reading)}, so the gain is smaller than the {_asked(plan)} asked for."


def quality_worse(reading: Reading) -> str:
    """Why it is refuted by its quality."""
    worse = f"The quality is worse than allowed: {reading.quality.sentence()}{_untimed(reading)}"
    return f"{worse}{_since_screen(reading.quality.since_screen)}."


def _since_screen(found: Bound | None) -> str:
    """That it is not the weights: they were scored before, served plainly, and solved more."""
    if found is None or found.state is not Quality.WORSE:
        return ""
    return (
        f"; the same weights solved {found.difference:.1f} points more of {found.count:,} items when they "
        "were screened, served plainly, so look at how they are served here, or at how that is scored"
    )


def quality_undecided(reading: Reading) -> str:
    """Why quality leaves it open."""
    return f"The data do not settle the quality: {reading.quality.sentence()}{_untimed(reading)}."


def quality_missing(plan: StoppingPlan, reading: Reading) -> str:
    """Why nothing is supported without an evaluation."""
    return f"{effect(plan, reading)}, but the quality was not measured."


def undecided(plan: StoppingPlan, reading: Reading) -> str:
    """Why the latency leaves it open."""
    return (
        f"{effect(plan, reading)}, which neither reaches nor excludes the {_asked(plan)} asked for"
        f"{_would_settle(plan, reading)}."
    )


def unconvincing(plan: StoppingPlan, reading: Reading) -> str:
    """Why what lies beyond is not supported at this campaign's level."""
    assert reading.e_value is not None
    return (
        f"{effect(plan, reading)}, beyond the {_asked(plan)} asked for, but the evidence that the gain is no "
        f"smaller (e-value {_figure(reading.e_value)}) is below the {_figure(reading.needed)} at which this "
        f"experiment may be called supported{_would_settle(plan, reading)}."
    )


def hopeless(plan: StoppingPlan, reading: Reading, pairs_left: int, chance: float) -> str:
    """Why the rest of the plan is not run."""
    left = _counted(pairs_left, "further pair")
    return (
        f"{effect(plan, reading)}: {left} would settle whether the gain reaches {_asked(plan)} with a chance "
        f"of {100 * chance:.0f} % only."
    )


def ended_early(reason: str, spending: Spending) -> str:
    """Add what was saved by stopping here."""
    start = reason.rstrip(".")
    return (
        f"{start}; ended after {format_duration(spending.spent_s)} of measuring by the clock, of an "
        f"estimated {format_duration(spending.planned_s)} for its whole plan."
    )


def engine_alone(reason: str) -> str:
    """Add that the measured latency is none of the stored format."""
    start = reason.rstrip(".")
    return f"{start}; this latency stands for this engine only, which does not compute in the stored format."


def _untimed(reading: Reading) -> str:
    return "" if reading.pairs else "; so nothing was timed"


def _would_settle(plan: StoppingPlan, reading: Reading) -> str:
    if reading.overall is None:
        return ""
    pairs = pairs_to_settle(plan, reading.overall)
    if pairs is None:
        return f"; more than {MOST_TOLD_PAIRS} pairs like these would be needed to settle it"
    return f"; about {pairs} pairs like these would settle it"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= FEWEST_IN_WHOLES else f"{value:.1f}"


def _asked(plan: StoppingPlan) -> str:
    return f"{100 * plan.min_effect:g} %"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
