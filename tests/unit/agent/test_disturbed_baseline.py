"""A block or a launch that the machine disturbed changes neither the baseline nor what is told of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from agent.campaign.known.measured import scaled
from experiments.job.baseline import choose
from experiments.measurement.evidence import Arm, LaunchRecord, Metric, Stage
from experiments.measurement.timed import typical
from experiments.space.configuration import Configuration
from tests.simulated.by_hand import BLOCKS, launch

ONE, OTHER = Configuration.of({"a": 1}), Configuration.of({"a": 2})


def timed(configuration: Configuration, tpot_ms: float, index: int, stage: Stage) -> LaunchRecord:
    return launch(Arm.CONTROL, configuration, tpot_ms, index, stage)


def disturbed(record: LaunchRecord, blocks: Collection[int] = (1,), times: float = 1.15) -> LaunchRecord:
    """The same with these blocks slower, as by another program on the machine."""
    samples = tuple(
        replace(each, value=each.value * times) if each.block in blocks else each for each in record.samples
    )
    return replace(record, samples=samples)


def test_what_is_typical_of_a_launch_is_the_median_of_its_samples() -> None:
    record = timed(ONE, 5.0, 0, Stage.NOISE)
    assert typical(record, Metric.TPOT_MS) == pytest.approx(5.0, rel=1e-3)
    assert typical(disturbed(record), Metric.TPOT_MS) == pytest.approx(5.0, rel=2e-3)
    assert typical(record, Metric.ITL_MS) is None


def test_tokens_that_came_together_are_no_typical_gap() -> None:
    record = timed(ONE, 5.0, 0, Stage.NOISE)
    gaps = tuple(
        replace(each, metric=Metric.ITL_MS, value=0.0 if each.seq % 2 else 5.0) for each in record.samples
    )
    assert typical(replace(record, samples=gaps), Metric.ITL_MS) == 5.0
    together = tuple(replace(each, value=0.0) for each in gaps)
    assert typical(replace(record, samples=together), Metric.ITL_MS) is None


def test_a_disturbed_block_does_not_move_the_baseline_s_time() -> None:
    quiet = [timed(ONE, 5.07, index, Stage.NOISE) for index in range(4)]
    swept = timed(ONE, 5.06, 0, Stage.SWEEP)
    found = scaled((swept, disturbed(quiet[0]), *quiet[1:]), Metric.TPOT_MS)
    assert found[ONE.digest] == pytest.approx(5.07, rel=1e-3)


def test_nor_does_a_launch_that_was_disturbed_throughout() -> None:
    quiet = [timed(ONE, 5.07, index, Stage.NOISE) for index in range(4)]
    slow = disturbed(quiet[3], range(BLOCKS))
    found = scaled((*quiet[:3], slow), Metric.TPOT_MS)
    assert found[ONE.digest] == pytest.approx(5.07, rel=1e-3)


def test_another_configuration_is_as_many_times_the_baseline_as_the_sweep_s_medians_are() -> None:
    sweep = (disturbed(timed(ONE, 4.0, 0, Stage.SWEEP)), disturbed(timed(OTHER, 5.0, 1, Stage.SWEEP), (2,)))
    noise = tuple(timed(ONE, 4.4, index, Stage.NOISE) for index in range(3))
    found = scaled((*sweep, *noise), Metric.TPOT_MS)
    assert found[ONE.digest] == pytest.approx(4.4, rel=1e-3)
    assert found[OTHER.digest] == pytest.approx(4.4 * 5.0 / 4.0, rel=2e-3)


@pytest.mark.parametrize("which", [0, 1])
def test_the_sweep_chooses_what_is_fastest_whichever_had_a_disturbed_block(which: int) -> None:
    sweep = [timed(ONE, 5.0, 0, Stage.SWEEP), timed(OTHER, 4.9, 1, Stage.SWEEP)]
    sweep[which] = disturbed(sweep[which], times=1.5)
    assert choose(sweep, [ONE, OTHER], Metric.TPOT_MS, BLOCKS) == OTHER
