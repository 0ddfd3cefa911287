"""The pairs of a CSV are those that the judge makes of the same samples; laws of order, scale and arms."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.judge.from_csv.rows import read_rows
from agent.judge.from_csv.sorting import pair_table
from agent.judge.pairs import PairEffect, pair_effects
from experiments.measurement.evidence import Arm, Evidence, LaunchRecord, Metric, NoiseProfile, Sample, Stage
from experiments.measurement.location import MOST_LISTED, hodges_lehmann
from tests.unit.agent.judge.csv_tables import Fields, Measured, as_csv, changed, stream

NOTHING_KNOWN = NoiseProfile("here", Metric.TPOT_MS, 0, 0, None)


def pairs_of(rows: list[Fields], metric: Metric = Metric.TPOT_MS) -> tuple[PairEffect, ...]:
    return pair_table(read_rows(stream(as_csv(rows)))).effects[metric]


def as_evidence(rows: list[Fields], metric: Metric) -> Evidence:
    samples: dict[tuple[Arm, int], list[Sample]] = {}
    for arm, launch, block, prompt, _, value, seq in rows:
        found = samples.setdefault((Arm(arm), int(launch)), [])
        found.append(Sample(int(block), 0, prompt, int(seq), metric, float(value)))
    launches = tuple(
        LaunchRecord(arm, index, Stage.FULL, arm.value, {}, {}, 1.0, tuple(found))
        for (arm, index), found in samples.items()
    )
    return Evidence(launches, NOTHING_KNOWN, ())


tables = st.builds(
    Measured,
    effect_log=st.floats(-0.5, 0.5),
    launches=st.integers(2, 4),
    blocks=st.integers(1, 5),
    prompts=st.integers(1, 3),
    values=st.integers(1, 3),
    request_sd=st.floats(0, 0.1),
    metric=st.sampled_from([Metric.TPOT_MS.value, Metric.TOKENS_PER_S.value]),
    seed=st.integers(0, 2**32),
)


@settings(deadline=None, max_examples=40)
@given(tables)
def test_the_pairs_are_those_of_the_judge_itself(measured: Measured) -> None:
    rows, metric = measured.rows(), Metric(measured.metric)
    assert pairs_of(rows, metric) == pair_effects(as_evidence(rows, metric), metric)


@settings(deadline=None, max_examples=40)
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(measured: Measured, order: random.Random) -> None:
    rows = measured.rows()
    shuffled = rows[:]
    order.shuffle(shuffled)
    assert pairs_of(shuffled, Metric(measured.metric)) == pairs_of(rows, Metric(measured.metric))


@settings(deadline=None, max_examples=40)
@given(tables, st.floats(1e-3, 1e3))
def test_scaling_all_values_does_not_matter(measured: Measured, scale: float) -> None:
    rows, metric = measured.rows(), Metric(measured.metric)
    scaled = [changed(row, value=repr(float(row[5]) * scale)) for row in rows]
    for before, after in zip(pairs_of(rows, metric), pairs_of(scaled, metric), strict=True):
        assert after.effect_log == pytest.approx(before.effect_log, abs=1e-12)
        assert after.within_se_log == pytest.approx(before.within_se_log, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(tables)
def test_swapping_the_arms_turns_the_sign(measured: Measured) -> None:
    rows, metric = measured.rows(), Metric(measured.metric)
    other = {"control": "candidate", "candidate": "control"}
    swapped = [changed(row, arm=other[row[0]]) for row in rows]
    for before, after in zip(pairs_of(rows, metric), pairs_of(swapped, metric), strict=True):
        assert after.effect_log == pytest.approx(-before.effect_log, abs=1e-12)
        assert after.samples == before.samples


@pytest.mark.parametrize("count", [MOST_LISTED + 1, MOST_LISTED + 2, 700])
@pytest.mark.parametrize("spread", [1.0, 1e-9, 0.0])
def test_the_centre_of_many_values_is_the_one_that_listing_gives(count: int, spread: float) -> None:
    values = np.random.default_rng(count).normal(0.1, spread, count)
    i, j = np.triu_indices(count)
    listed = float(np.median((values[i] + values[j]) / 2))
    assert hodges_lehmann(values.tolist()) == pytest.approx(listed, abs=1e-14)
