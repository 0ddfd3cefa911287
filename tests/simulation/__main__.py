"""The tables of error rates in docs/judging.md.

python -m tests.simulation errors broken power claims --experiments 2000
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.evidence import NoiseProfile
from experiments.measurement.judging import Outcome
from tests.simulation.rates import Rates, head, simulate
from tests.simulation.truths import BROKEN, CLAIMS, ERRORS, POWER, Claim, Row

TABLES = {"errors": ERRORS, "broken": BROKEN, "power": POWER}
EXPERIMENTS = 2000


def main() -> None:
    """Print the tables asked for, in Markdown, row by row as they are done."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("tables", nargs="+", choices=[*TABLES, "claims"])
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for name in asked.tables:
        if name == "claims":
            _claims(asked.experiments, asked.seed)
        else:
            _timed(TABLES[name], asked.experiments, asked.seed)
        print()


def _timed(rows: Sequence[Row], experiments: int, seed: int) -> None:
    columns = ("true gain", "launches vary by", "dof", "pairs allowed", "support at")
    told = (
        "supported",
        "refuted",
        "inconclusive",
        "verdict's interval holds",
        "all looks hold",
        "pairs",
        "saved",
    )
    print(head((*columns, *told)))
    for row in rows:
        plan = row.plan
        found = simulate(
            LaunchIntervalJudge(),
            plan,
            row.truth,
            experiments,
            degrees_of_freedom=row.degrees_of_freedom,
            seed=seed,
        )
        allowed = plan.full_pairs + plan.validation_pairs
        cells = (row.words, row.launches, row.degrees_of_freedom, allowed, f"{100 * plan.support_level:g} %")
        share = (*_shares(found), f"{found.coverage:.1%}", f"{found.coverage_of_all_looks:.1%}")
        _print((*cells, *share, f"{found.pairs:.1f}", f"{found.saved:.0%}"))


def _claims(experiments: int, seed: int) -> None:
    told = ("supported", "refuted", "inconclusive", "interval holds the truth")
    print(head(("claim", "true gain", "scatter", *told)))
    for claim in CLAIMS:
        found = claim_rates(claim, experiments, seed)
        cells = (claim.metric, claim.words, claim.scatter)
        _print((*cells, *_shares(found), f"{found.coverage:.1%}"))


def claim_rates(claim: Claim, experiments: int, seed: int = 1) -> Rates:
    """The courses of a claim that is scored."""
    noise = NoiseProfile("target", claim.plan.metric, 0, 0, None)
    return simulate(
        LaunchIntervalJudge(), claim.plan, claim.truth, experiments, seed=seed, effect=claim.gain, noise=noise
    )


def _shares(found: Rates) -> tuple[str, ...]:
    return tuple(
        f"{100 * found.share(outcome):.3g} %"
        for outcome in (Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INCONCLUSIVE)
    )


def _print(cells: Sequence[object]) -> None:
    print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


if __name__ == "__main__":
    main()
