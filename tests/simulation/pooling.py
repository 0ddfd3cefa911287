"""What pooling over campaigns is worth: the table of docs/findings.md.

python -m tests.simulation.pooling --draws 500
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from math import fsum, hypot, sqrt
from random import Random
from statistics import median

from scipy.stats import t

from knowledge.findings.pooling import Estimate, pool
from knowledge.findings.random_effects import Z, pool_campaigns

TRUTH_LOG = -0.2
HALF_WIDTH_LOG = 0.0222
"""Half-width of a campaign's interval: some 2 %."""

TRUE_SHARE = 1 / 3.7
"""Standard error of a campaign in half-widths, as of the judge's intervals (`knowledge.findings.pooling`)."""

SPREADS = (0.0, 0.01, 0.03, 0.10, 0.20)
COUNTS = (2, 3, 5)

Pooling = Callable[[Sequence[Estimate]], Estimate]


def hartung_knapp(estimates: Sequence[Estimate]) -> Estimate:
    """DerSimonian-Laird, with the wider of the classical interval and Hartung and Knapp's."""
    effects = [each.effect_log for each in estimates]
    variances = [(each.half_width_log / Z) ** 2 for each in estimates]
    weights = [1 / each for each in variances]
    scatter = _scatter(weights, effects)
    freedom = len(effects) - 1
    scale = fsum(weights) - fsum(each**2 for each in weights) / fsum(weights)
    tau_squared = max(0.0, (scatter - freedom) / scale)
    weights = [1 / (each + tau_squared) for each in variances]
    mean = _mean(weights, effects)
    error = 1 / sqrt(fsum(weights))
    theirs = float(t.ppf(0.975, freedom)) * error * sqrt(_scatter(weights, effects) / freedom)
    half_width = max(theirs, Z * error)
    return Estimate(mean, mean - half_width, mean + half_width)


def _mean(weights: Sequence[float], effects: Sequence[float]) -> float:
    return fsum(w * y for w, y in zip(weights, effects, strict=True)) / fsum(weights)


def _scatter(weights: Sequence[float], effects: Sequence[float]) -> float:
    mean = _mean(weights, effects)
    return fsum(w * (y - mean) ** 2 for w, y in zip(weights, effects, strict=True))


WAYS: dict[str, Pooling] = {
    "ours": lambda estimates: pool_campaigns(estimates).estimate,
    "Hartung-Knapp": hartung_knapp,
    "scale factor": pool,
}


def main() -> None:
    """Print the table, in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.pooling", description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    heads = ("campaigns", "true spread", *(f"{way}: holds, width" for way in WAYS))
    print(f"| {' | '.join(heads)} |")
    print("|---" * len(heads) + "|")
    for count in COUNTS:
        for spread in SPREADS:
            cells = _row(count, spread, asked.draws, Random(f"{asked.seed} {count} {spread}"))
            print(f"| {count} | {100 * spread:g} % | {' | '.join(cells)} |", flush=True)


def _row(count: int, spread: float, draws: int, random: Random) -> list[str]:
    sd = hypot(spread, TRUE_SHARE * HALF_WIDTH_LOG)
    drawn = [
        [
            Estimate(effect, effect - HALF_WIDTH_LOG, effect + HALF_WIDTH_LOG)
            for effect in (random.gauss(TRUTH_LOG, sd) for _ in range(count))
        ]
        for _ in range(draws)
    ]
    cells = []
    for way in WAYS.values():
        found = [way(each) for each in drawn]
        holds = sum(each.low_log <= TRUTH_LOG <= each.high_log for each in found) / draws
        width = median((each.high_log - each.low_log) / 2 for each in found) / HALF_WIDTH_LOG
        cells.append(f"{holds:.1%}, {width:.2f}×")
    return cells


if __name__ == "__main__":
    main()
