import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.rank_correlation import kendall, rank_agreement, spearman
from experiments.stages.pruning.scores import LayerScores, Ranking, ranked_once, ranking_from

PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=12)


def scores(rows: list[list[float]]) -> LayerScores:
    return LayerScores(tuple(map(tuple, rows)), (512,) * len(rows))


@given(PAIRS)
def test_correlations_are_scipy_s_also_with_ties(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([column], dtype=float) for column in zip(*pairs, strict=True))
    if len(set(first[0])) == 1 or len(set(second[0])) == 1:
        assert math.isnan(spearman(first, second)[0])
        assert math.isnan(kendall(first, second)[0])
        return
    assert spearman(first, second)[0] == pytest.approx(stats.spearmanr(first[0], second[0]).statistic)
    assert kendall(first, second)[0] == pytest.approx(stats.kendalltau(first[0], second[0]).statistic)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(2, 10))
def test_agreement_is_symmetric_bounded_and_repeats_itself(seed: int, documents: int, layers: int) -> None:
    random = np.random.default_rng(seed)
    first, second = (scores(random.normal(size=(documents, layers)).tolist()) for _ in range(2))
    found = rank_agreement(first, second)
    assert found == rank_agreement(first, second) == rank_agreement(second, first)
    for each in (found.spearman, found.kendall):
        assert each.value is not None
        assert each.low is not None
        assert each.high is not None
        assert -1 <= each.low <= each.high <= 1
        assert -1 <= each.value <= 1
    itself = rank_agreement(first, first)
    assert (itself.spearman.value, itself.spearman.low, itself.kendall.high) == (1, 1, 1)


def test_documents_that_agree_with_each_other_give_a_narrow_interval_and_noisy_ones_a_wide_one() -> None:
    random = np.random.default_rng(1)
    truth, other = random.normal(size=12), random.normal(size=12)

    def width(noise: float) -> float:
        first, second = (
            scores((each + noise * random.normal(size=(16, 12))).tolist()) for each in (truth, other)
        )
        found = rank_agreement(first, second).spearman
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(1e-6) == 0
    assert width(3) > 0.2


def test_the_interval_covers_the_correlation_of_the_text_s_own_means() -> None:
    """Of 60 sets of 16 documents, the 95 % interval misses the correlation of the true means seldom."""
    random = np.random.default_rng(2)
    first = np.arange(12.0)
    second = first[random.permutation(12)] * 0.5 + first * 0.7
    true = float(stats.spearmanr(first, second).statistic)
    held = 0
    for _ in range(60):
        found = rank_agreement(
            *(scores((each + random.normal(size=(16, 12))).tolist()) for each in (first, second))
        ).spearman
        assert found.low is not None
        assert found.high is not None
        held += found.low <= true <= found.high
    assert held >= 50


@pytest.mark.parametrize(
    ("first", "second"),
    [([[1.0]], [[2.0]]), ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [1.0, 2.0]])],
)
def test_one_layer_and_equal_scores_have_no_correlation(
    first: list[list[float]], second: list[list[float]]
) -> None:
    found = rank_agreement(scores(first), scores(second))
    assert found.spearman.value is None
    assert found.kendall.high is None


def test_one_document_has_a_correlation_and_no_interval() -> None:
    found = rank_agreement(scores([[1.0, 2.0, 3.0]]), scores([[1.0, 3.0, 2.0]])).spearman
    assert (found.value, found.low, found.high) == (0.5, None, None)


def test_rankings_of_other_layers_do_not_compare() -> None:
    with pytest.raises(ValueError, match="don't compare"):
        rank_agreement(scores([[1.0, 2.0]]), scores([[1.0, 2.0, 3.0]]))


def test_means_weigh_documents_by_their_tokens() -> None:
    found = LayerScores(((0.0, 1.0), (4.0, 1.0)), (300, 100))
    assert found.means == (1.0, 1.0)


@given(st.lists(st.lists(st.floats(0, 9), min_size=4, max_size=4), min_size=1, max_size=3))
def test_a_ranking_survives_its_way_through_json(rows: list[list[float]]) -> None:
    ranking = ranked_once(scores(rows), ["full_attention"] * 4, Choice(2, "any"))
    assert ranking_from(ranking.to_json()) == ranking
    assert isinstance(ranking, Ranking)
    assert len(ranking.removed) == 2
