"""The t-mixture: evidence about a normal mean of unknown variance that stays valid however often one looks.

**Model.** x₁ … xₙ are independent N(μ, σ²). Earlier data of the same σ may have left a sum of squares W₀ with
ν₀ degrees of freedom, W₀/σ² ~ χ²(ν₀), independent of the x. S is the sum of squares about their mean x̄,
W = W₀ + S.

**e-value of "μ = m".** Against a shift of (μ − m)/σ ~ N(0, g²), with the right Haar prior dσ/σ in both
hypotheses. Given W₀, the density of the x under μ = m is, up to a factor that both share,

    ∫ σ^−(ν₀+n) · exp(−(W₀ + Σ(xᵢ − m)²) / 2σ²) dσ/σ  ∝  (W + n·d²)^−(ν₀+n)/2,   d = x̄ − m.

Under the shift xᵢ − m is N(0, σ²·(I + g²·11ᵀ)), whose determinant is k = 1 + n·g² (over σ) and whose
quadratic form is S + n·d²/k; so

    E(m) = k^−1/2 · [(W + n·d²) / (W + n·d²/k)]^((ν₀+n)/2).

It is the likelihood ratio of the ratios (xᵢ − m)/√W₀, whose law under μ = m holds no unknown; hence it is a
nonnegative martingale that starts at 1 (Lai, Annals of Statistics 4, 1976, with a flat prior on μ;
Hendriksen, de Heide and Grünwald, Bayesian Analysis 16, 2021, on right Haar priors and optional stopping;
Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance",
2024).

**Confidence sequence.** By Ville's inequality E(μ) reaches 1/α at any n with probability α at most, so
{m : E(m) < 1/α} holds μ at *all* n together with probability 1 − α, whatever makes one stop. With
c = (√k/α)^(2/(ν₀+n)) it is x̄ ± √(W·(c − 1) / (n·(1 − c/k))), and the whole line while c ≥ k.

**One side.** With the half of the normal below m as the alternative,

    E₋(m) = 2 · E(m) · P(μ < m | x),   μ − m | x  ~  n·g²·d/k + √(g²·(W + n·d²/k) / (k·ν)) · t(ν),

with ν = ν₀ + n. It grows as x̄ falls (monotone likelihood ratio of the noncentral t), so that E₋(b) is an
e-value of every μ ≥ b: the least over them.

**Stops.** The sequence holds for any way to stop. The mean of a stopped e-value is proven to be at most 1 for
stops that go by ratios alone (the filtration of the martingale); a stop that goes by absolute sizes too,
such as a margin in per cent, is covered by Ville's bound on ever reaching 1/α, and its mean is measured,
not proven, for E and for E₋ alike.

All functions are pure; logarithms are natural.
"""

from __future__ import annotations

import math

from scipy.special import betaln, stdtr

PRIOR_SPREAD = 3.0
"""g: the standard deviation of the shift that is looked for, in standard deviations of one observation. It
moves the width alone, never the validity. The half-width is least where g is about the half-width in σ. From
2 to 6 pairs, at alpha 5 % and 2 to 10 earlier degrees of freedom, that is 1.4 to 4.6; 3 is at most 7.5 %
wider than the best g there, at most 11.5 % up to 18 pairs, and at most 3.5 % up to 18 pairs at 0.05 % and 10
degrees of freedom (a test compares them). A smaller g, better for many pairs, costs more at two: 2.5 is 21 %
wider than the best there."""

SMALLEST_CHANCE = 1e-290
"""Below it a double begins to lose its digits."""

EPSILON = 2.0**-52
"""Of a sum, what no longer counts."""


def log_e_value(
    distance: float, count: int, squares: float, earlier_freedom: int, spread: float = PRIOR_SPREAD
) -> float:
    """ln E(m) at `distance` = x̄ − m after `count` observations, with W = `squares` and ν₀ =
    `earlier_freedom`."""
    growth = 1 + count * spread**2
    shift = count * distance**2
    below = squares + shift / growth
    gain = shift * (1 - 1 / growth) / below if below > 0 else 0.0
    return (earlier_freedom + count) / 2 * math.log1p(gain) - math.log(growth) / 2


def log_e_below(
    distance: float, count: int, squares: float, earlier_freedom: int, spread: float = PRIOR_SPREAD
) -> float:
    """ln E₋(m): evidence against every mean of m or more; `distance` = x̄ − m, negative where it grows."""
    growth = 1 + count * spread**2
    freedom = earlier_freedom + count
    below = squares + count * distance**2 / growth
    found = log_e_value(distance, count, squares, earlier_freedom, spread)
    if below <= 0:
        return found
    centre = count * spread**2 * distance / growth
    scale = spread * math.sqrt(below / (growth * freedom))
    return found + math.log(2) + log_chance_below(freedom, -centre / scale)


def log_chance_below(freedom: int, score: float) -> float:
    """ln P(T < `score`) of Student's t with so many degrees of freedom, also where P is too small for a
    double.

    There P = x^a · √(1 − x) / (2a · B(a, ½)) · F(a + ½, 1; a + 1; x) with a = freedom / 2 and x = freedom /
    (freedom + score²) (DLMF 8.17.7 and 8.17.8); the terms of F fall as x^k.
    """
    chance = float(stdtr(freedom, score))
    if chance >= SMALLEST_CHANCE:
        return math.log(chance)
    a, x = freedom / 2, freedom / (freedom + score**2)
    term, total, k = 1.0, 1.0, 0
    while term > EPSILON * total:
        term *= x * (a + 0.5 + k) / (a + 1 + k)
        total, k = total + term, k + 1
    # −log1p(score² / freedom) is ln x, which keeps its digits where x is nearly 1
    log_x = -math.log1p(score**2 / freedom)
    return a * log_x + math.log1p(-x) / 2 - math.log(2 * a) - float(betaln(a, 0.5)) + math.log(total)


def reach(
    count: int, squares: float, earlier_freedom: int, alpha: float, spread: float = PRIOR_SPREAD
) -> float:
    """Half the width of the confidence sequence at level 1 − `alpha`; infinite while nothing is excluded."""
    growth = 1 + count * spread**2
    log_ratio = (math.log(growth) - 2 * math.log(alpha)) / (earlier_freedom + count)
    if log_ratio >= math.log(growth):
        return math.inf
    # 1 − c/k as −expm1, so that it keeps its digits where c is nearly k
    left = -math.expm1(log_ratio - math.log(growth))
    return math.sqrt(squares * math.expm1(log_ratio) / (count * left))
