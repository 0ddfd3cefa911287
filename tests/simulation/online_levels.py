"""What the online levels cost and hold: whole streams of simulated experiments through the real judge.

python -m tests.simulation.online_levels --streams 200

Each stream is a campaign of `TESTS` hypotheses on time, of which a share has no gain and the rest a true
gain; each is judged at the level that e-LOND gives it, after the ones before. Beside it the same streams at
alpha each.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np

from agent.discovery.e_lond import level
from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.judging import Outcome
from tests.simulation.experiment import PLAN, Truth, run

TESTS = 20
GAINS = (0.06, 0.10, 0.30)
"""True gains of the hypotheses that have one, drawn with equal chance."""

NULL_SHARES = (0.5, 0.8)
"""Shares of hypotheses without any gain."""


def stream(rng: np.random.Generator, null_share: float, *, online: bool) -> tuple[int, int, int]:
    """One campaign: how many were supported, how many of these falsely, how many had a gain."""
    supported = false = real = 0
    for test in range(TESTS):
        gain = 0.0 if rng.random() < null_share else float(rng.choice(GAINS))
        real += gain > 0
        support_alpha = level(PLAN.alpha, test, supported) if online else None
        plan = PLAN.model_copy(update={"support_alpha": support_alpha})
        truth = replace(Truth(), effect_log=math.log1p(-gain))
        verdict, _ = run(LaunchIntervalJudge(), plan, truth, rng, degrees_of_freedom=10)
        if verdict.outcome is Outcome.SUPPORTED:
            supported += 1
            false += gain < PLAN.min_effect
    return supported, false, real


def main() -> None:
    """Print a row a share of nulls and a way, in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.online_levels", description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print("| without a gain | levels | supported a campaign | of the real gains | false ones, mean share |")
    print("|---|---|---|---|---|")
    for null_share in NULL_SHARES:
        for online in (True, False):
            rng = np.random.default_rng(asked.seed)
            found = [stream(rng, null_share, online=online) for _ in range(asked.streams)]
            supported, false, real = (np.array(column, dtype=float) for column in zip(*found, strict=True))
            power = "–" if not real.sum() else f"{(supported - false).sum() / real.sum():.0%}"
            way, wrong = "e-LOND" if online else "alpha each", (false / np.maximum(1, supported)).mean()
            print(
                f"| {null_share:.0%} | {way} | {supported.mean():.2f} | {power} | {wrong:.2%} |", flush=True
            )


if __name__ == "__main__":
    main()
