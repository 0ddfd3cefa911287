from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.errors import UsageError
from configs.quantities import (
    HIGHER_IS_BETTER,
    LONGEST_S,
    LOWER_IS_BETTER,
    ExpectedEffect,
    format_duration,
    format_energy,
    parse_duration_s,
    parse_effect,
    parse_percent,
)
from experiments.measurement.evidence import Metric


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400)],
        *[("1d", 86400), (" 8 M ", 480)],
    ],
)
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "m",
        "-5m",
        "0s",
        "5 minutes",
        "30m1h",
        "3min10min",
        "1h1h",
        "1e3s",
        "9" * 400 + "s",
        "٣m",
        "1h 30",
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration") as caught:
        parse_duration_s(text)
    assert "90s" in caught.value.hint


@pytest.mark.parametrize("text", ["36500d1s", "99999999999d", "9" * 300 + "s"])
def test_a_duration_of_more_than_a_hundred_years_is_refused(text: str) -> None:
    assert parse_duration_s("36500d") == LONGEST_S
    assert datetime.now(UTC) - timedelta(seconds=LONGEST_S) < datetime.now(UTC)  # a date that exists
    with pytest.raises(UsageError, match="longer than a hundred years"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.254, "0.25 s"),
        (8.23, "8.2 s"),
        (5.0, "5 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (190, "3 min 10 s"),
        (3600, "1 h"),
        (5340.4, "1 h 29 min"),
        (86_400 + 59, "1 d"),
        (183_600, "2 d 3 h"),
    ],
)
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(1, 10**7))
def test_a_duration_that_was_told_reads_back_to_its_second_unit(seconds: int) -> None:
    lost_s = seconds - parse_duration_s(format_duration(seconds))
    assert 0 <= lost_s < (1 if seconds < 3600 else 60 if seconds < 86_400 else 3600)
    assert parse_duration_s(format_duration(seconds).replace(" ", "\u202f")) == seconds - lost_s


@given(st.integers(-(10**6), 10**6))
def test_a_percentage_is_a_hundredth(number: int) -> None:
    assert parse_percent(f"{number}%") == number / 100


@pytest.mark.parametrize("text", ["", "3", "0.03", "%", "3%%", "three%", "nan%", "1e2%", "9" * 400 + "%"])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a percentage"):
        parse_percent(text)


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("tpot=-10%", ExpectedEffect("tpot_ms", -0.10)),
        ("TPOT_ms = −10 %", ExpectedEffect("tpot_ms", -0.10)),
        ("ttft=-2.5%", ExpectedEffect("ttft_ms", -0.025)),
        ("tokens_per_s=+12%", ExpectedEffect("tokens_per_s", 0.12)),
        ("tpot=-10%±4%", ExpectedEffect("tpot_ms", -0.10, 0.04)),
        ("tpot=-10%+/-4%", ExpectedEffect("tpot_ms", -0.10, 0.04)),
    ],
)
def test_effects_are_read_with_metric_and_spread(text: str, effect: ExpectedEffect) -> None:
    assert parse_effect(text) == effect


def test_an_effect_is_known_on_the_log_scale_too() -> None:
    effect = parse_effect("tpot=-10%±4.5%")
    assert math.isclose(effect.log_ratio, math.log(0.9))
    assert effect.log_ratio_sd == pytest.approx(0.05)
    assert parse_effect("tpot=-10%").log_ratio_sd is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tpot", "is not an effect"),
        ("tpot-10%", "is not an effect"),
        ("=-10%", "is not an effect"),
        ("speed=-10%", "'speed' is not a metric"),
        ("tpot=-10", "'-10' is not a percentage"),
        ("tpot=fast", "'fast' is not a percentage"),
        ("tpot=-100%", "is impossible"),
        ("tpot=-250%", "is impossible"),
        ("tpot=10%", "Write tpot=-10% to expect 10 % less"),
        ("tpot=0%", "is no improvement"),
        ("tokens_per_s=-10%", "Write tokens_per_s=+10% to expect 10 % more"),
        ("tpot=-10%±x", "'x' is not a percentage"),
        ("tpot=-10%±0%", "spread"),
    ],
)
def test_a_malformed_effect_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_effect(text)
    assert said in str(caught.value)


def test_every_metric_of_an_effect_is_one_that_is_measured() -> None:
    assert {*LOWER_IS_BETTER.values(), *HIGHER_IS_BETTER.values()} <= {metric.value for metric in Metric}


@pytest.mark.parametrize(
    ("energy_wh", "told"),
    [
        (1_234_500.0, "1,234.50 kWh"),
        (346.0, "0.35 kWh"),
        (99.9, "0.10 kWh"),
        (25.6, "0.026 kWh"),
        (1.0535, "0.0011 kWh"),
        (1e-9, "0.0000010 kWh"),
    ],
)
def test_energy_is_told_in_kilowatt_hours_and_never_as_none(energy_wh: float, told: str) -> None:
    assert format_energy(energy_wh) == told
