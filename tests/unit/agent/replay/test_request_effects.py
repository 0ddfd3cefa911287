"""What requests have in common is no noise of a replay; what they have not is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.replay.errors_told import LEAST_SE_LOG, errors_log
from agent.replay.port import Told
from agent.replay.read import Asked, read_table
from agent.replay.request_effects import paired_sd_log, request_effects
from agent.replay.world import World
from experiments.space.configuration import Configuration
from tests.unit.agent.replay.synthetic import written

FROZEN = Path(__file__).parents[4] / "docs" / "results" / "tables"
REQUESTS, ROWS, NOISE = 40, 12, 0.03


def rows(seed: int, spread: float) -> list[tuple[float, ...]]:
    """Rows of one list of requests, which differ by `spread` among each other, with noise of each."""
    random = np.random.default_rng(seed)
    request = random.normal(0, spread, REQUESTS)
    return [
        tuple(np.exp(row + request + random.normal(0, NOISE, REQUESTS)).tolist())
        for row in random.normal(1, 0.2, ROWS)
    ]


def told(samples: tuple[float, ...], number: int) -> Told:
    return Told(number, Configuration.of({"serving.kernel": str(number)}), samples, None, 0.0, 1.0)


def means_of_draws(samples: tuple[float, ...], found: list[tuple[float, ...]]) -> float:
    effects = request_effects(found)
    assert effects is not None
    random = np.random.default_rng(1)
    return float(np.std([np.log(effects.drawn(samples, random)).mean() for _ in range(2000)]))


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_a_mean_is_drawn_as_wide_as_the_noise_whatever_requests_differ_by(spread: float) -> None:
    found = rows(0, spread)
    assert means_of_draws(found[0], found) == pytest.approx(NOISE / math.sqrt(REQUESTS), rel=0.25)


def test_samples_that_have_nothing_to_do_with_each_other_are_drawn_as_wide_as_they_are() -> None:
    random = np.random.default_rng(2)
    found = [tuple(np.exp(random.normal(0, 0.2, REQUESTS)).tolist()) for _ in range(ROWS)]
    widths = [means_of_draws(each, found) * math.sqrt(REQUESTS) for each in found]
    assert np.mean(widths) == pytest.approx(0.2, rel=0.1)


def test_a_draw_keeps_the_requests_in_their_order() -> None:
    found = rows(0, 0.5)
    effects = request_effects(found)
    assert effects is not None
    drawn = effects.drawn(found[0], np.random.default_rng(3))
    assert np.corrcoef(np.log(drawn), np.log(found[0]))[0, 1] > 0.98


def test_several_launches_of_the_same_requests_are_known_better_than_one() -> None:
    found = rows(0, 0.5)
    twice = (*found[0], *(value * 1.01 for value in found[0]))
    effects = request_effects([twice, *found[1:]])
    assert effects is not None
    assert len(effects.of(twice)) == 2 * REQUESTS
    assert effects.error_log(twice) < 0.8 * effects.error_log(found[1])


@pytest.mark.parametrize(
    "found", [[], [(1.0, 2.0)], [(1.0,), (2.0,)], [(1.0, 2.0), (1.0, 2.0, 3.0)], [(1.0, 2.0), ()]]
)
def test_where_rows_can_not_be_of_the_same_requests_nothing_is_said(found: list[tuple[float, ...]]) -> None:
    assert request_effects(found) is None


def test_a_table_whose_rows_have_other_numbers_is_drawn_as_ever(tmp_path: Path) -> None:
    header = "serving.kernel,tpot_ms,run_s"
    made = read_table(written(tmp_path, "red,10 12 11,60", "blue,5 7,60", header=header))
    world = World(made, 0)
    for row in made.rows:
        assert row.latency is not None
        assert set(world.measure(0, row.configuration).samples_ms) <= set(row.latency.samples_ms)


@given(st.integers(0, 1000), st.floats(0.1, 10))
def test_a_row_that_is_slower_throughout_has_the_same_noise(seed: int, factor: float) -> None:
    found = rows(seed, 0.3)
    slower = tuple(factor * value for value in found[1])
    assert paired_sd_log(found[0], slower) == pytest.approx(paired_sd_log(found[0], found[1]))


def test_what_trials_are_off_by_is_told_beside_trial_0() -> None:
    found = rows(0, 0.5)
    first, *others = errors_log([told(samples, number) for number, samples in enumerate(found)])
    expected = NOISE / math.sqrt(REQUESTS)
    assert np.mean(others) == pytest.approx(max(LEAST_SE_LOG, expected), rel=0.25)
    assert first == pytest.approx(max(LEAST_SE_LOG, expected), rel=0.25)
    alone = errors_log([told(found[0], 0)])[0]
    assert alone > 5 * first, "alone nothing tells what is the requests' own"


def test_at_many_requests_at_once_most_of_the_spread_is_the_requests_own() -> None:
    where = {"concurrency": "64", "prompt_tokens": "3840"}
    found = [row.latency for row in read_table(FROZEN / "h200-9b.csv", Asked(where=where)).rows]
    ran = [each for each in found if each is not None]
    independent = np.median([each.sd_ms / math.sqrt(each.count) / each.error_ms for each in ran])
    assert independent > 4
