"""Quantities as users write them: durations (`30m`), percentages (`3%`), effects (`tpot=-10%`)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from configs.errors import UsageError

SECONDS_IN = {"d": 86400, "h": 3600, "m": 60, "s": 1}
"""Seconds in each unit of a duration as it is typed, the largest first."""

MINUTES = "min"
"""What minutes are called where people read them: an `m` alone is a metre."""

LEAST_TOLD_S = 1e-4
"""A duration below it is told as none."""

LONGEST_S = 36_500 * SECONDS_IN["d"]
"""The longest duration that is taken: a hundred years, so that a date so long ago or ahead still exists."""

FORMATTED = 4096
"""Amounts that are remembered as people read them: a queue of thousands tells few different ones again and
again."""

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.ASCII)
_PERCENT = re.compile(r"([+\-−]?\d+(?:\.\d+)?)\s*%", re.ASCII)
_EFFECT = re.compile(r"\s*([A-Za-z_0-9]+)\s*=\s*([^±]+?)\s*(?:(?:±|\+/-)\s*(.+?))?\s*", re.ASCII)

LOWER_IS_BETTER = {"tpot": "tpot_ms", "ttft": "ttft_ms", "itl": "itl_ms", "e2el": "e2el_ms"}
"""Metrics that get better as they fall, by the word a user writes."""

HIGHER_IS_BETTER = {
    name: name for name in ("tokens_per_s", "output_tokens_per_s", "total_tokens_per_s", "requests_per_s")
}
"""Metrics that get better as they rise, by the word a user writes."""


def parse_duration_s(text: str) -> float:
    """Seconds of a duration such as `90s`, `30m`, `2h`, `1h30m` or `1.5h`, or of one that `format_duration`
    told, `1 h 30 min`.

    Raises `UsageError` for anything else, a bare number, zero and more than `LONGEST_S` included.
    """
    plain = "".join(text.lower().split()).replace(MINUTES, "m")
    seconds = 0.0
    if _DURATION.fullmatch(plain):
        parts = _DURATION_PART.findall(plain)
        units = [unit for _, unit in parts]
        if units == [unit for unit in SECONDS_IN if unit in units]:
            seconds = sum(float(number) * SECONDS_IN[unit] for number, unit in parts)
    if not 0 < seconds < math.inf:
        raise UsageError(
            f"{text!r} is not a duration.", "Write a number and s, m, h or d, such as 90s or 1h30m."
        )
    if seconds > LONGEST_S:
        raise UsageError(f"{text!r} is longer than a hundred years.", "Write 36500d or less.")
    return seconds


@lru_cache(maxsize=FORMATTED)
def format_duration(seconds: float) -> str:
    """A duration as people read it, in its two largest units, below ten seconds with two digits that count:
    `0.25 s`, `8.2 s`, `45 s`, `3 min 10 s`, `1 h 29 min`, `2 d 3 h`. `parse_duration_s` reads it back."""
    whole_s = round(seconds)
    if whole_s < 10:
        return f"{seconds:.2g} s" if abs(seconds) >= LEAST_TOLD_S else "0 s"
    if whole_s < SECONDS_IN["m"]:
        return f"{whole_s} s"
    units = [*SECONDS_IN]
    place = next(place for place, unit in enumerate(units) if whole_s >= SECONDS_IN[unit])
    words, left_s = [], whole_s
    for unit in units[place : place + 2]:
        count, left_s = divmod(left_s, SECONDS_IN[unit])
        if count:
            words.append(f"{count} {MINUTES if unit == 'm' else unit}")
    return " ".join(words)


def parse_percent(text: str) -> float:
    """The fraction that a percentage stands for: `3%` is 0.03.

    Raises `UsageError` for anything else; a bare number is refused, because it could mean either.
    """
    match = _PERCENT.fullmatch(text.strip())
    if match is None or not math.isfinite(float(match[1].replace("−", "-"))):
        raise UsageError(f"{text!r} is not a percentage.", "Write a number and %, such as 3%.")
    return float(match[1].replace("−", "-")) / 100


BYTES_IN = {"MB": 10**6, "GB": 10**9}
"""Bytes in each unit of a size of memory, as vendors of cards count them."""

_BYTES = re.compile(r"(\d{1,7}(?:\.\d{1,6})?) ?(MB|GB)", re.ASCII | re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Bytes of a size of memory such as `8GB` or `500MB`; raises `UsageError` for anything else."""
    match = _BYTES.fullmatch(text.strip())
    size = 0 if match is None else round(float(match[1]) * BYTES_IN[match[2].upper()])
    if not size:
        raise UsageError(f"{text!r} is no size of memory.", "Write a number and MB or GB, such as 8GB.")
    return size


def format_bytes(size: int, digits: int = 1) -> str:
    """Bytes of memory as vendors of cards count them: `12.6 GB` with so many digits, below one of these
    `557 MB` with one less."""
    unit = "GB" if size >= BYTES_IN["GB"] else "MB"
    return f"{size / BYTES_IN[unit]:.{digits if unit == 'GB' else digits - 1}f} {unit}"


WH_PER_KWH = 1000.0

LEAST_TOLD_KWH = 1e-6
"""Less is told as this much, for what is told was not nothing."""


def format_energy(energy_wh: float) -> str:
    """Energy as people read it, in kilowatt-hours: with two decimals from a tenth on, with two digits that
    count below, `1,234.50 kWh`, `0.35 kWh`, `0.026 kWh`."""
    kwh = max(energy_wh / WH_PER_KWH, LEAST_TOLD_KWH)
    if kwh >= 0.1:
        return f"{kwh:,.2f} kWh"
    rounded = float(f"{kwh:.1e}")  # else 0.0999 would have a digit more than 0.1
    return f"{rounded:.{1 - math.floor(math.log10(rounded))}f} kWh"


_USD = re.compile(r"\$?([0-9]{1,9}(?:\.[0-9]{1,6})?)\$?", re.ASCII)


def parse_usd(text: str) -> float:
    """US dollars of `5`, `$5` or `0.50`; raises `UsageError` for anything else, less than nothing too."""
    match = _USD.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no amount in US dollars.", "Write a number such as 5 or 0.50.")
    return float(match[1])


@lru_cache(maxsize=FORMATTED)
def format_usd(usd: float) -> str:
    """An amount as people read it: cents from a dollar on, three significant digits below."""
    sign, size = ("−" if usd < 0 else ""), abs(usd)
    if size >= 1 or size == 0:
        return f"{sign}${size:,.2f}"
    if size < 1e-6:
        return f"{sign}$0.000001"
    rounded = float(f"{size:.2e}")  # else 0.09999 would have a digit more than 0.1
    return f"{sign}${rounded:.{2 - math.floor(math.log10(rounded))}f}"


@dataclass(frozen=True)
class ExpectedEffect:
    """A predicted relative change of a metric: −0.10 is ten percent less.

    `metric` is the full name with its unit (`tpot_ms`). `spread` is the standard deviation the user gave in
    the same measure, None when none was given.
    """

    metric: str
    change: float
    spread: float | None = None

    @property
    def log_ratio(self) -> float:
        """The natural log of candidate over control."""
        return math.log1p(self.change)

    @property
    def log_ratio_sd(self) -> float | None:
        """The spread on the log scale, to first order: spread over (1 + change)."""
        return None if self.spread is None else self.spread / (1 + self.change)


def parse_effect(text: str) -> ExpectedEffect:
    """The effect of `METRIC=CHANGE%`, such as `tpot=-10%`, with a spread if wanted: `tpot=-10%±4%`.

    Raises `UsageError` for an unknown metric, a change that is no percentage or impossible (−100 % or less),
    and one that would make the metric worse or leave it: a hypothesis claims an improvement.
    """
    match = _EFFECT.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not an effect.", "Write METRIC=CHANGE%, such as tpot=-10%.")
    word, change_text, spread_text = match[1].lower().removesuffix("_ms"), match[2], match[3]
    metric = (LOWER_IS_BETTER | HIGHER_IS_BETTER).get(word)
    if metric is None:
        raise UsageError(
            f"{match[1]!r} is not a metric an effect can be on.",
            f"It can be {', '.join(LOWER_IS_BETTER | HIGHER_IS_BETTER)}.",
        )
    change = parse_percent(change_text)
    if change <= -1:
        raise UsageError(
            f"{text!r} is impossible: {word} cannot fall by 100 % or more.", "Write less than 100%."
        )
    if change == 0 or (change < 0) != (word in LOWER_IS_BETTER):
        better = "less" if word in LOWER_IS_BETTER else "more"
        sign = "-" if word in LOWER_IS_BETTER else "+"
        size = abs(change) * 100 or 5
        raise UsageError(
            f"{text!r} is no improvement: less latency and more tokens a second are better.",
            f"Write {word}={sign}{size:g}% to expect {size:g} % {better}.",
        )
    spread = None if spread_text is None else parse_percent(spread_text)
    if spread is not None and spread <= 0:
        raise UsageError(f"The spread of {text!r} is not above zero.", "Write a spread such as ±4%.")
    return ExpectedEffect(metric, change, spread)
