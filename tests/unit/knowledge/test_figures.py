from math import log

import pytest

from knowledge import figures


@pytest.mark.parametrize(
    ("value", "text"), [(-12.34, "−12.3"), (0.04, "0.0"), (-0.04, "0.0"), (3.0, "+3.0"), (-0.06, "−0.1")]
)
def test_a_figure_has_a_sign_unless_it_rounds_to_zero(value: float, text: str) -> None:
    assert figures.signed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(126.94, "126.94"), (8.448, "8.45"), (0.1, "0.10"), (0.0987, "0.099"), (0.0017, "0.0017"), (0.0, "0")],
)
def test_a_figure_in_two_places_keeps_two_digits_where_zeros_would_hide_it(value: float, text: str) -> None:
    assert figures.in_places(value) == text


def test_thousands_are_apart_by_commas_in_counts_and_latencies() -> None:
    assert figures.counted(3_192, "sample") == "3,192 samples"
    assert figures.counted(1, "sample") == "1 sample"
    assert figures.milliseconds(1_234.5) == "1,234 ms"
    assert figures.milliseconds(2.4) == "2.40 ms"


def test_an_effect_never_stands_without_its_interval_when_there_is_one() -> None:
    assert figures.effect(log(0.9), log(0.88), log(0.92)) == "−10.0 % [−12.0, −8.0]"
    assert figures.effect(log(0.9), None, None) == "−10.0 %"
    assert figures.effect(None, None, None) == "—"


def test_a_gain_is_positive_for_less_latency_and_for_more_throughput() -> None:
    assert figures.gain("tpot_ms", log(0.9), log(0.88), log(0.92)) == "10.0 % [8.0, 12.0]"
    assert figures.gain("tokens_per_s", log(0.5), log(0.4), log(0.8)) == "100.0 % [25.0, 150.0]"


@pytest.mark.parametrize(
    ("metric", "logs", "told", "gained"),
    [
        (
            "nll_bits",
            (log(0.992), log(0.989), log(0.995)),
            "−0.8 % [−1.1, −0.5]",
            "lowers bits per byte by 0.8 % [0.5, 1.1]",
        ),
        (
            "task_correct",
            (-0.023, -0.042, -0.004),
            "+2.3 points [+0.4, +4.2]",
            "raises tasks solved by 2.3 points [0.4, 4.2]",
        ),
        ("step_weight_bytes", (log(0.388),) * 3, "−61.2 %", "lowers bytes a step by 61.2 %"),
    ],
)
def test_each_metric_is_told_in_its_own_unit_and_direction(
    metric: str, logs: tuple[float, float, float], told: str, gained: str
) -> None:
    assert figures.effect(*logs, metric) == told
    words = f"{figures.better(metric)} {figures.metric_word(metric)} by {figures.gain(metric, *logs)}"
    assert words == gained


def test_a_margin_is_told_in_the_unit_of_its_metric() -> None:
    assert figures.margin(0.03) == "3 %"
    assert figures.margin(0.005, "nll_bits") == "0.5 %"
    assert figures.margin(0.02, "task_correct") == "2 points"
    assert figures.margin(0.01, "task_correct") == "1 point"
    assert figures.margin(0.01) == "1 %"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (9_900_000, "9.4 MiB"), (1 << 50, "1024.0 TiB")],
)
def test_bytes_are_told_in_binary_units(count: int, text: str) -> None:
    assert figures.size(count) == text


def test_lists_read_as_in_a_sentence() -> None:
    assert [figures.listed(each) for each in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("basis", "control_ms"), [("chain", 23.6), (None, 23.6), ("E-0008", 15.5), ("E-0008", None)]
)
def test_a_machine_that_kept_its_pace_is_not_spoken_of(basis: str | None, control_ms: float | None) -> None:
    assert figures.machine_changed({"speedup_basis": basis, "control_tpot_ms": control_ms}, 14.98) == ""


def test_a_machine_that_changed_its_pace_is_told() -> None:
    told = figures.machine_changed({"speedup_basis": "E-0008", "control_tpot_ms": 23.6}, 14.98)
    assert told.startswith("the baseline took 23.6 ms then and 15.0 ms when it was measured first")


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.996, "10.0"), (0.9996, "1.00"), (99.96, "100"), (9.994, "9.99"), (1_234.5, "1,234")],
)
def test_a_number_that_rounds_up_to_a_power_of_ten_has_no_digit_more(value: float, text: str) -> None:
    assert figures.number(value) == text
