"""How figures are written for people: always with a unit, an estimate with its interval, a minus that is a
minus."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, floor, isfinite, log10
from typing import Any

from configs.quantities import HIGHER_IS_BETTER
from experiments.measurement.evidence import Metric

_MINUS = "\N{MINUS SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

LEAST_WRITTEN_OUT = 1e-4
"""Below it, zeros would hide the figure."""

LEAST_IN_PLACES = 0.1
"""Below it, two places after the point tell less than two digits."""

_KIB = 1024
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

METRIC_WORDS = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2el_ms": "end-to-end latency",
    "tokens_per_s": "tokens per second",
    "output_tokens_per_s": "output tokens per second",
    "total_tokens_per_s": "tokens per second in all",
    "requests_per_s": "requests per second",
    "bits_per_byte": "bits per byte",
    "nll_bits": "bits per byte",
    "task_correct": "tasks solved",
    "step_weight_bytes": "bytes a step",
}
"""What a metric is called in a sentence; others go by their name. Two arms score the same bytes, so that a
ratio of bits is one of bits per byte."""

SHARES = frozenset(metric.value for metric in Metric if metric.is_share)
"""Metrics whose effects are differences of shares, with their sign turned: −0.02 is two points more."""

DEFAULT_METRIC = "tpot_ms"
"""What an effect is on when nobody says."""


_TAKEN_WORDS = {
    "tpot_ms": "a token",
    "ttft_ms": "to the first token",
    "itl_ms": "between tokens",
    "e2el_ms": "from request to last token",
}
"""What a latency is of, behind its milliseconds."""


def metric_word(metric: str) -> str:
    """Return the name of `metric` for a sentence, such as `TPOT` for `tpot_ms`."""
    return METRIC_WORDS.get(metric, metric)


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits and thousands apart: `0.0123`, `15.9`, `1,234`.

    One below `LEAST_WRITTEN_OUT` is written by a power of ten: `1.60 × 10⁻⁷`.
    """
    if not isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) < LEAST_WRITTEN_OUT:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{mantissa} × 10{str(int(power)).translate(_RAISED)}".replace("-", _MINUS)
    rounded = float(f"{value:.{digits - 1}e}")  # 9.996 has three digits as 10.0
    decimals = max(0, digits - 1 - floor(log10(abs(rounded))))
    return f"{value:,.{decimals}f}".replace("-", _MINUS)


def in_places(value: float) -> str:
    """Return a number with two places after the point, or with two significant digits where these are more:
    `8.45`, `0.0017`."""
    return f"{value:,.2f}".replace("-", _MINUS) if abs(value) >= LEAST_IN_PLACES else number(value, 2)


def between(low: float, high: float, digits: int = 3) -> str:
    """Return an interval of numbers in brackets, `[15.2, 16.4]`; where thousands are apart by commas, the
    ends are by a semicolon: `[1,200; 1,300]`."""
    ends = (number(low, digits), number(high, digits))
    return f"[{('; ' if any(',' in each for each in ends) else ', ').join(ends)}]"


def signed(value: float, digits: int = 1) -> str:
    """Return `value` with its sign (U+2212 for minus); what rounds to zero has none."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return (_MINUS if value < 0 else "+") + text


def relative(log_ratio: float) -> float:
    """Return the relative change that a natural log ratio stands for: −0.05 is 5 % less."""
    return exp(log_ratio) - 1


def percent(log_ratio: float, digits: int = 1) -> str:
    """Return a log ratio as a signed percentage, such as `−12.3 %`."""
    return f"{signed(100 * relative(log_ratio), digits)} %"


def percent_interval(low_log: float, high_log: float, digits: int = 1) -> str:
    """Return an interval of log ratios as percentages, such as `[−14.1, −10.5] %`."""
    return f"[{signed(100 * relative(low_log), digits)}, {signed(100 * relative(high_log), digits)}] %"


def in_scale(value: float, metric: str) -> float:
    """Return a stored effect as a relative change, or as the difference of shares that it is."""
    return value if metric in SHARES else relative(value)


def changed(value: float, metric: str) -> float:
    """Return the change that a stored effect stands for, in hundredths: percent of the control's value, or
    percentage points for a share; its sign is that of the metric itself, but for throughput, whose effects
    are told as those of the time."""
    return -100 * value if metric in SHARES else 100 * relative(value)


def unit_of(metric: str) -> str:
    """Return the unit of a change of `metric`: `%`, or `points` for a share."""
    return "points" if metric in SHARES else "%"


def effect(
    effect_log: float | None, low_log: float | None, high_log: float | None, metric: str = DEFAULT_METRIC
) -> str:
    """Return an estimate with its interval, such as `−12.3 % [−14.1, −10.5]` or `+2.3 points [+0.4, +4.2]`,
    or a dash when nothing was measured. An exact one (a ratio of counts) stands alone."""
    if effect_log is None:
        return "—"
    middle = f"{signed(changed(effect_log, metric))} {unit_of(metric)}"
    if low_log is None or high_log is None or low_log == high_log:
        return middle
    least, most = sorted((changed(low_log, metric), changed(high_log, metric)))
    return f"{middle} [{signed(least)}, {signed(most)}]"


def margin(min_effect: float, metric: str = DEFAULT_METRIC) -> str:
    """Return a smallest effect worth having: `3 %`, or `2 points` and `1 point` for a share."""
    figure = f"{100 * min_effect:g}"
    return f"{figure} point" if metric in SHARES and figure == "1" else f"{figure} {unit_of(metric)}"


def taken(value_ms: float, metric: str = DEFAULT_METRIC) -> str:
    """Return a latency with what it is of, such as `2.39 ms a token` or `120.0 ms to the first token`."""
    return f"{milliseconds(value_ms)} {taken_of(metric)}"


def taken_of(metric: str) -> str:
    """Return what a latency is of, behind its milliseconds: `a token`."""
    return _TAKEN_WORDS.get(metric, metric_word(metric))


def metric_told(best: Mapping[str, Any]) -> str:
    """Return the metric that the best of a campaign's outcome is told in: the campaign's own, and TPOT where
    an older version told no other."""
    metric = best.get("metric")
    return metric if isinstance(metric, str) and best.get(metric) is not None else DEFAULT_METRIC


def against_control(best: Mapping[str, Any]) -> str:
    """Return what the best of a campaign takes beside its control in the same experiment, such as `2.39 ms a
    token against 6.40 ms`, on the campaign's own metric; `best` is that of a campaign's outcome, from any
    version.

    The control of a chain's last step is no baseline, which is said.
    """
    metric = metric_told(best)
    said = taken(best[metric], metric)
    control_ms = best.get(f"control_{metric}")
    if control_ms is None:
        return said
    step = " before its last step" if best.get("speedup_basis") == "chain" else ""
    return f"{said} against {milliseconds(control_ms)}{step}"


DRIFT_TOLD = 0.2
"""Relative change of a baseline's own time from which it is said that the machine changed."""


def machine_changed(best: Mapping[str, Any], baseline_ms: float) -> str:
    """Return, as a clause, that the baseline took another time beside the best than when first measured, when
    it took `baseline_ms` on the metric of `metric_told`.

    Empty where it hardly did, or where the best was not measured against the baseline itself.
    """
    control_ms = best.get(f"control_{metric_told(best)}")
    if not control_ms or not baseline_ms or best.get("speedup_basis") in (None, "chain"):
        return ""
    if abs(control_ms / baseline_ms - 1) < DRIFT_TOLD:
        return ""
    return (
        f"the baseline took {milliseconds(control_ms)} then and {milliseconds(baseline_ms)} when it was "
        "measured first: this machine's pace changes, so compare what ran side by side alone"
    )


def milliseconds(value_ms: float) -> str:
    """Return a latency with three significant figures, such as `2.40 ms`."""
    return f"{number(value_ms)} ms"


def clock_mhz(mhz: float, of_mhz: float | None = None) -> str:
    """Return a clock such as `1,980 MHz`, or `360 of 1,980 MHz` where its highest is known."""
    return f"{mhz:,.0f} MHz" if of_mhz is None else f"{mhz:,.0f} of {of_mhz:,.0f} MHz"


def size(count: int) -> str:
    """Return a number of bytes in binary units, such as `9.4 MiB`."""
    value, unit = float(count), 0
    while value >= _KIB and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / _KIB, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_BYTE_UNITS[unit]}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun, such as `1 verdict` or `3,192 samples`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(parts: list[str]) -> str:
    """Return parts joined as in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def clause(sentence: str) -> str:
    """Return a sentence as a part of another one: on one line, without its full stop."""
    return " ".join(sentence.split()).rstrip(".")


def better(metric: str) -> str:
    """Return what a change that makes `metric` better does to it: `lowers` or `raises`."""
    return "raises" if metric in SHARES or metric in HIGHER_IS_BETTER.values() else "lowers"


def gain(metric: str, effect_log: float, low_log: float, high_log: float) -> str:
    """Return how much better `metric` gets, such as `12.3 % [10.5, 14.1]` or `2.3 points [0.4, 4.2]`; a
    negative effect is better, and an exact one stands alone."""
    if metric in SHARES:
        middle, least, most = -effect_log, -high_log, -low_log
    elif better(metric) == "raises":
        middle, least, most = relative(-effect_log), relative(-high_log), relative(-low_log)
    else:
        middle, least, most = -relative(effect_log), -relative(high_log), -relative(low_log)
    figures = [signed(100 * value).removeprefix("+") for value in (middle, least, most)]
    middle_words = f"{figures[0]} {unit_of(metric)}"
    return middle_words if low_log == high_log else f"{middle_words} [{figures[1]}, {figures[2]}]"
