"""How figures are written for people: always with a unit, an estimate with its interval, a minus that is a
minus."""

from __future__ import annotations

from math import exp

from configs.quantities import HIGHER_IS_BETTER

_MINUS = "\N{MINUS SIGN}"
_KIB = 1024
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

METRIC_WORDS = {
    "ttft_ms": "TTFT",
    "tpot_ms": "TPOT",
    "itl_ms": "ITL",
    "e2el_ms": "end-to-end latency",
    "tokens_per_s": "tokens per second",
    "bits_per_byte": "bits per byte",
}
"""What a metric is called in a sentence; others go by their name."""


def metric_word(metric: str) -> str:
    """Return the name of `metric` for a sentence, such as `TPOT` for `tpot_ms`."""
    return METRIC_WORDS.get(metric, metric)


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


def effect(effect_log: float | None, low_log: float | None, high_log: float | None) -> str:
    """Return an estimate with its interval, such as `−12.3 % [−14.1, −10.5]`, or a dash when nothing was
    measured."""
    if effect_log is None:
        return "—"
    if low_log is None or high_log is None:
        return percent(effect_log)
    interval = percent_interval(low_log, high_log).removesuffix(" %")
    return f"{percent(effect_log)} {interval}"


def milliseconds(value_ms: float) -> str:
    """Return a latency with three significant figures or one decimal, whichever is more."""
    return f"{value_ms:.1f} ms" if value_ms >= 10 else f"{value_ms:.3g} ms"


def size(count: int) -> str:
    """Return a number of bytes in binary units, such as `9.4 MiB`."""
    value, unit = float(count), 0
    while value >= _KIB and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / _KIB, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_BYTE_UNITS[unit]}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun, such as `1 verdict` or `3 hypotheses`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(parts: list[str]) -> str:
    """Return parts joined as in a sentence: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def better(metric: str) -> str:
    """Return what a change that makes `metric` better does to it: `lowers` or `raises`."""
    return "raises" if metric in HIGHER_IS_BETTER.values() else "lowers"


def gain(metric: str, effect_log: float, low_log: float, high_log: float) -> str:
    """Return how much better `metric` gets, such as `12.3 % [10.5, 14.1]`; a negative log ratio is faster."""
    if better(metric) == "raises":
        middle, least, most = relative(-effect_log), relative(-high_log), relative(-low_log)
    else:
        middle, least, most = -relative(effect_log), -relative(high_log), -relative(low_log)
    figures = [signed(100 * value).removeprefix("+") for value in (middle, least, most)]
    return f"{figures[0]} % [{figures[1]}, {figures[2]}]"
