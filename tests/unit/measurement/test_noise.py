import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Sample, Stage
from experiments.measurement.noise import NoiseRow, launch_noise, noise_profile

LOGS = st.floats(-5, 5)


def test_nothing_is_known_from_single_launches():
    profile = noise_profile("desk/cpu", Metric.TPOT_MS, [NoiseRow("w1", 0.0), NoiseRow("w2", 1.0)])
    assert (profile.launches, profile.degrees_of_freedom, profile.launch_sd_log) == (2, 0, None)


def test_nothing_is_known_from_nothing():
    assert noise_profile("desk/cpu", Metric.TPOT_MS, []).launch_sd_log is None


def test_windows_are_pooled_around_their_own_means():
    rows = [NoiseRow("w1", 0.0), NoiseRow("w1", 2.0), NoiseRow("w2", 10.0), NoiseRow("w2", 12.0)]
    profile = noise_profile("desk/cpu", Metric.TPOT_MS, rows)
    assert profile.degrees_of_freedom == 2
    assert profile.launch_sd_log == pytest.approx(math.sqrt((1 + 1 + 1 + 1) / 2))


@given(st.lists(st.tuples(st.sampled_from("abc"), LOGS), min_size=4, max_size=20), st.randoms(), LOGS)
def test_order_and_the_level_of_a_window_don_t_matter(
    rows: list[tuple[str, float]], shuffle: random.Random, shift: float
):
    moved = [NoiseRow(window, log + shift * (window == "a")) for window, log in rows]
    shuffle.shuffle(moved)
    one = noise_profile("t", Metric.TPOT_MS, [NoiseRow(*row) for row in rows])
    other = noise_profile("t", Metric.TPOT_MS, moved)
    assert one.degrees_of_freedom == other.degrees_of_freedom
    assert one.launch_sd_log == pytest.approx(other.launch_sd_log, abs=1e-9)


def test_the_spread_between_launches_is_recovered():
    random_logs = random.Random(1)
    rows = [NoiseRow(f"w{n % 50}", n % 50 + random_logs.gauss(0, 0.02)) for n in range(250)]
    profile = noise_profile("t", Metric.TPOT_MS, rows)
    assert profile.degrees_of_freedom == 200
    assert profile.launch_sd_log == pytest.approx(0.02, rel=0.15)


def test_a_launch_is_summed_up_by_its_logs():
    samples = tuple(Sample(0, 0, "p", seq, Metric.TPOT_MS, math.exp(seq)) for seq in range(3))
    launch = LaunchRecord(Arm.CONTROL, 0, Stage.NOISE, "c", {}, {}, 1.0, samples)
    found = launch_noise(launch, Metric.TPOT_MS)
    assert found is not None
    assert (found.log_centre, found.log_sd, found.samples) == (pytest.approx(1.0), pytest.approx(1.0), 3)
    assert launch_noise(launch, Metric.TTFT_MS) is None
