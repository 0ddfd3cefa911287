"""How far two rankings of the same layers agree: Spearman's and Kendall's correlation, with intervals. Pure.

The intervals are by bootstrap over calibration documents: documents are drawn with replacement, the same ones
for both rankings, each layer's scores are averaged anew, and the correlations of those averages taken; the
2.5 % and 97.5 % points of many draws are the bounds (percentile bootstrap, Efron 1979). Averaging fewer
distinct documents adds noise to both rankings, so the interval leans to lower correlations, and an estimate
at the edge of what is possible may lie at or above its upper end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.measurement.evidence import Json
from experiments.stages.pruning.scores import FloatArray, LayerScores

RESAMPLES = 2000
"""Draws of the bootstrap: the ends of a 95 % interval rest on some 50 draws each."""

CONFIDENCE = 0.95

DIGITS = 4
"""Digits after the point of a correlation: the draws don't bear more."""

CONDITIONAL_ON = (
    "these layers of this model, this one original and this one quantized checkpoint, and calibration "
    "documents drawn from the same text; it says nothing of other models, quantizations or kinds of text"
)
"""What an interval does not range over."""


@dataclass(frozen=True)
class Correlation:
    """A rank correlation and its interval; None where it is not defined.

    There is no correlation of fewer than two layers or of scores that are all alike, and no interval from
    fewer than two documents or where some draws have none.
    """

    value: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, Json]:
        """For the report."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class RankAgreement:
    """How far two rankings of the same layers on the same documents agree."""

    spearman: Correlation
    kendall: Correlation
    layers: int
    documents: int

    def to_json(self) -> dict[str, Json]:
        """For the report."""
        return {
            "spearman": self.spearman.to_json(),
            "kendall": self.kendall.to_json(),
            "layers": self.layers,
            "documents": self.documents,
            "confidence": CONFIDENCE,
            "resamples": RESAMPLES,
            "interval": "percentile bootstrap over calibration documents",
            "conditional_on": CONDITIONAL_ON,
        }


def rank_agreement(first: LayerScores, second: LayerScores, seed: int = 0) -> RankAgreement:
    """Compare two rankings of the same layers on the same documents.

    Raises:
        ValueError: layers or documents differ.
    """
    if first.array.shape != second.array.shape or first.tokens != second.tokens:
        raise ValueError(
            f"rankings of {first.array.shape} and {second.array.shape} documents and layers don't compare"
        )
    documents, layers = first.array.shape
    weights = np.array(first.tokens, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(documents, size=(RESAMPLES, documents))
    counts = np.zeros((RESAMPLES, documents))
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], drawn), 1)

    def correlation(statistic: Callable[[FloatArray, FloatArray], FloatArray]) -> Correlation:
        def of(draws: FloatArray) -> FloatArray:
            return statistic(_means(first, draws * weights), _means(second, draws * weights))

        value, draws = float(of(np.ones((1, documents)))[0]), of(counts)
        if math.isnan(value):
            return Correlation(None, None, None)
        if documents < 2 or bool(np.isnan(draws).any()):
            return Correlation(round(value, DIGITS), None, None)
        low, high = np.quantile(draws, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return Correlation(round(value, DIGITS), round(float(low), DIGITS), round(float(high), DIGITS))

    return RankAgreement(correlation(spearman), correlation(kendall), layers, documents)


def spearman(first: FloatArray, second: FloatArray) -> FloatArray:
    """Spearman's correlation of each row of `[rows, layers]` with the same row of the other; NaN for none."""
    from scipy.stats import rankdata  # loading it takes longer than everything else that a job loads

    ranks = [rankdata(each, axis=1) for each in (first, second)]
    return _cosine(*(each - each.mean(axis=1, keepdims=True) for each in ranks))


def kendall(first: FloatArray, second: FloatArray) -> FloatArray:
    """Kendall's τ-b of each row of `[rows, layers]` with the same row of the other; NaN for none.

    With the sign of each pair's difference as a vector, τ-b is the cosine of the two vectors: ties give 0.
    """
    left, right = np.triu_indices(first.shape[1], k=1)
    return _cosine(*(np.sign(each[:, left] - each[:, right]) for each in (first, second)))


def _cosine(first: FloatArray, second: FloatArray) -> FloatArray:
    lengths = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
    products = (first * second).sum(axis=1)
    cosine: FloatArray = np.divide(products, lengths, out=np.full_like(products, np.nan), where=lengths > 0)
    return cosine.clip(-1, 1)


def _means(scores: LayerScores, weights: FloatArray) -> FloatArray:
    """Means over documents, `[draws, layers]`, for weights `[draws, documents]`."""
    means: FloatArray = weights @ scores.array / weights.sum(axis=1, keepdims=True)
    return means
