"""What is said of a table of times: the judge's interval and evidence, and no more than they carry."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.judge.from_csv.asked import Asked
from agent.judge.from_csv.rows import read_rows
from agent.judge.from_csv.sorting import pair_table
from agent.judge.from_csv.verdict import LatencyVerdict, judge_pairs
from agent.judge.interval import e_value_below, interval, pair_noises
from agent.judge.sentences import percent
from configs.errors import EXIT_USAGE, UsageError
from experiments.measurement.evidence import Metric, NoiseProfile
from experiments.measurement.judging import Outcome
from tests.unit.agent.judge.csv_tables import Fields, Measured, as_csv, changed, stream

GAIN = Measured(effect_log=math.log(0.9))
KNOWN = Asked(noise_sd=0.005, noise_dof=10)


def judged(rows: list[Fields], asked: Asked | None = None) -> LatencyVerdict:
    asked = asked or Asked()
    return judge_pairs(
        asked, *asked.choose(pair_table(read_rows(stream(as_csv(rows))), asked.validation_pairs))
    )


def test_a_clear_gain_is_supported_and_said_to_be_latency_only() -> None:
    found = judged(GAIN.rows())
    assert found.outcome is Outcome.SUPPORTED
    assert found.as_json()["scope"] == "latency only"
    assert "quality was not looked at" in found.reason
    assert (found.launches, found.samples) == (8, 64)
    assert found.effect_log == pytest.approx(math.log(0.9), abs=0.02)


def test_equal_arms_are_refuted_with_enough_launches_and_never_supported() -> None:
    outcomes = {judged(Measured(launches=8, seed=seed).rows()).outcome for seed in range(20)}
    assert Outcome.REFUTED in outcomes
    assert Outcome.SUPPORTED not in outcomes


@pytest.mark.parametrize("gain", [0.0, -1.0])
def test_a_thousand_launches_are_judged_however_clear_they_are(gain: float) -> None:
    found = judged(Measured(launches=1000, blocks=1, prompts=1, effect_log=math.log(1 - gain)).rows())
    assert found.outcome is Outcome.REFUTED
    assert found.e_value is not None
    assert 0 <= found.e_value < 1


def test_the_interval_and_the_evidence_are_the_judges_own() -> None:
    found = judged(GAIN.rows(), KNOWN)
    noises = pair_noises(found.pairs, NoiseProfile("", Metric.TPOT_MS, 11, 10, 0.005))
    expected = interval(found.pairs, noises, 0.05)
    assert found.as_json()["interval_log"] == [expected.low_log, expected.high_log]
    assert found.e_value == e_value_below(found.pairs, noises, math.log(0.97))


def test_two_pairs_say_nothing_unless_the_noise_is_known() -> None:
    rows = Measured(launches=2, effect_log=math.log(0.7)).rows()
    alone = judged(rows)
    assert alone.outcome is Outcome.INCONCLUSIVE
    assert alone.as_json()["interval"] is None
    assert "with no interval yet" in alone.reason
    assert "so nothing is said yet of the 3 % asked for" in alone.reason
    assert judged(rows, KNOWN).outcome is Outcome.SUPPORTED


def test_pairs_that_are_copies_of_each_other_are_no_evidence() -> None:
    copied = Measured(launches=6, launch_sd=0, request_sd=0, effect_log=math.log(0.7))
    found = judged(copied.rows())
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "more alike than measured times ever are" in found.reason
    assert found.as_json()["interval"] is None


def test_a_validation_that_does_not_agree_keeps_a_gain_from_being_supported() -> None:
    rows = Measured(effect_log=math.log(0.7), launches=12, launch_sd=0.03).rows()
    asked = Asked(validation_pairs=1)
    assert judged(rows, asked).outcome is Outcome.SUPPORTED
    slow = [
        changed(row, value=str(float(row[5]) / 0.7)) if row[:2] == ("candidate", "11") else row
        for row in rows
    ]
    assert judged(slow).outcome is Outcome.SUPPORTED
    found = judged(slow, asked)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "does not agree" in found.reason


def test_a_bound_beyond_any_number_is_told_as_infinite() -> None:
    """At one degree of freedom and an alpha of a millionth Student's t reaches a hundred thousand times."""
    found = judged(Measured(launches=2, launch_sd=0.05).rows(), Asked(alpha=1e-6, validation_pairs=1))
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert told["validation"]["high"] is None
    assert told["verdict"] == "inconclusive"
    assert percent(1000.0) == "+∞"
    assert percent(math.log(2)) == "+100.0"


def test_the_throughput_is_judged_by_its_inverse() -> None:
    rows = [changed(row, value=str(1000 / float(row[5]))) for row in GAIN.rows()]
    found = judged([changed(row, metric="tokens_per_s") for row in rows])
    assert found.effect_log == pytest.approx(judged(GAIN.rows()).effect_log)


@settings(deadline=None, max_examples=40)
@given(
    st.builds(
        Measured, effect_log=st.floats(-0.3, 0.3), launches=st.integers(2, 6), seed=st.integers(0, 999)
    ),
    st.floats(1e-3, 1e3),
)
def test_scale_and_order_do_not_matter_and_swapped_arms_turn_the_sign(
    measured: Measured, scale: float
) -> None:
    rows = measured.rows()
    found = judged(rows)
    moved = judged([changed(row, value=repr(float(row[5]) * scale)) for row in reversed(rows)])
    assert moved.outcome is found.outcome
    assert moved.effect_log == pytest.approx(found.effect_log, abs=1e-9)
    other = {"control": "candidate", "candidate": "control"}
    swapped = judged([changed(row, arm=other[row[0]]) for row in rows])
    assert swapped.effect_log == pytest.approx(-found.effect_log, abs=1e-9)
    ends, turned = found.as_json()["interval_log"], swapped.as_json()["interval_log"]
    if isinstance(ends, list):
        assert turned == pytest.approx([-float(str(end)) for end in reversed(ends)], abs=1e-9)
    assert not (found.outcome is swapped.outcome is Outcome.SUPPORTED)


def test_the_usual_metric_of_several_is_judged_and_another_by_name() -> None:
    rows = GAIN.rows() + [
        changed(row, metric=name) for name in ("ttft_ms", "itl_ms") for row in Measured(seed=2).rows()
    ]
    assert judged(rows).metric is Metric.TPOT_MS
    assert judged(rows, Asked(metric=Metric.TTFT_MS)).metric is Metric.TTFT_MS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"metric": "tpot_s"}, "there is no such metric"),
        ({"metric": "nll_bits"}, "no metric of time"),
        ({"min_effect": "0.03"}, "not a percentage"),
        ({"min_effect": "0%"}, "can't be asked for"),
        ({"min_effect": "100%"}, "can't be asked for"),
        ({"alpha": 0.0}, "can't be asked for"),
        ({"alpha": 0.5}, "can't be asked for"),
        ({"alpha": math.nan}, "can't be asked for"),
        ({"noise_sd": "1%"}, "by half"),
        ({"noise_dof": 3}, "by half"),
        ({"noise_sd": "0", "noise_dof": 3}, "can't vary by 0 %"),
        ({"noise_sd": "nan", "noise_dof": 3}, "can't vary"),
    ],
)
def test_what_cant_be_asked_is_refused(words: dict[str, object], sentence: str) -> None:
    usual: dict[str, object] = {
        "metric": None,
        "min_effect": "3%",
        "alpha": 0.05,
        "validation_pairs": 0,
        "noise_sd": None,
        "noise_dof": None,
    }
    with pytest.raises(UsageError, match=sentence) as caught:
        Asked.of(**{**usual, **words})  # type: ignore[arg-type]
    assert caught.value.exit_code == EXIT_USAGE


def test_what_the_file_does_not_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no ttft_ms, but tpot_ms"):
        judged(GAIN.rows(), Asked(metric=Metric.TTFT_MS))
    with pytest.raises(UsageError, match="4 validation pairs of 4 leave none"):
        judged(GAIN.rows(), Asked(validation_pairs=4))
    others = [changed(row, metric=name) for name in ("ttft_ms", "itl_ms") for row in Measured(seed=2).rows()]
    with pytest.raises(UsageError, match="holds no tpot_ms, but itl_ms, ttft_ms"):
        judged(others)
