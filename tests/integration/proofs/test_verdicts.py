"""A smoke test of verdicts: it sees a judge that is badly wrong, and no more.

A gate fails where the exact binomial interval of what was seen excludes the target: chance alone does that
once in a thousand runs, and the seeds are fixed. With so few experiments that needs 7 wrong supports or 18
missed intervals of 150; a judge that is wrong twice as often as it may be passes. The strong tests are
others: `make verdicts`, which takes thousands of experiments and writes docs/results/verdicts.md; and, in the
usual tests, `tests/unit/agent/judge/test_t_mixture.py`, which proves the martingale behind the interval by
quadrature and lets an adversary stop at the worst of sixty looks, and `test_error_rates.py` beside it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.measurement.judging import Outcome
from tests.proofs.counting import Share, Workers
from tests.proofs.discovery_rate import discoveries
from tests.proofs.simulated_rates import EVERYTHING, counted
from tests.proofs.stopping_early import run_stream
from tests.proofs.targets import (
    LEAST_COVERED,
    LEAST_SAVED,
    MOST_SUPPORTED,
    MOST_WRONGLY_STOPPED,
    Stopping,
    all_of,
)
from tests.proofs.verdicts import main
from tests.simulation.experiment import DEFAULT_PLAN

SURE = 0.998
"""Level of the intervals, one in a thousand on each side."""

EXPERIMENTS = 150


def excludes_at_most(share: Share, most: float) -> bool:
    return share.bounds(SURE)[0] > most


def excludes_at_least(share: Share, least: float) -> bool:
    return share.bounds(SURE)[1] < least


def test_the_gates_see_a_judge_that_is_wrong_ten_times_of_a_hundred() -> None:
    assert excludes_at_most(Share(15, EXPERIMENTS), MOST_SUPPORTED)
    assert excludes_at_least(Share(EXPERIMENTS - 20, EXPERIMENTS), LEAST_COVERED)
    assert not excludes_at_most(Share(1, EXPERIMENTS), MOST_SUPPORTED)


def test_equal_arms_are_not_supported_and_their_interval_holds_at_every_look() -> None:
    with Workers(1) as alone:
        found = counted(alone, DEFAULT_PLAN, EVERYTHING, EXPERIMENTS, seed=1, place=0)
    supported, held = found.share(found.supported), found.share(found.held_everywhere)
    print(f"\nsupported {supported}, held at every look {held}")
    assert not excludes_at_most(supported, MOST_SUPPORTED)
    assert not excludes_at_least(held, LEAST_COVERED)


def test_stopping_early_saves_a_third_and_loses_no_truths_to_speak_of() -> None:
    streams = [run_stream(seed, 30, controlled=True) for seed in range(3)]
    everything = all_of(streams)
    stopping, rate = Stopping(everything), discoveries(streams)
    false = rate.in_time.false
    print(f"\nsaved {stopping.saved:.0%}, wrongly stopped {stopping.wrongly()}, false {false}")
    assert stopping.saved >= LEAST_SAVED
    assert not excludes_at_most(stopping.wrongly(), MOST_WRONGLY_STOPPED)
    assert rate.supported > 0
    assert not excludes_at_most(Share(false, rate.supported), DEFAULT_PLAN.alpha)
    assert {each.early for each in everything} >= {Outcome.SUPPORTED, Outcome.REFUTED, Outcome.INFEASIBLE}


@pytest.mark.bench_only
def test_the_command_writes_the_whole_page(tmp_path: Path) -> None:
    file = tmp_path / "results" / "verdicts.md"
    assert main(["--quick", "--real-aa", "--launch-sd", "0.5%", "--seed", "3", "--output", str(file)]) == 0
    told = file.read_text(encoding="utf-8")
    for title in (
        "Targets",
        "Equal arms, simulated",
        "Equal arms on the reference engine",
        "A true gain of 5 %",
        "Stopping early",
        "False discoveries",
        "One profile for a whole campaign",
    ):
        assert f"\n## {title}\n" in told
    assert "**A quick run" in told
    assert "--quick --real-aa --launch-sd 0.5% --seed 3" in told
    assert "Launches vary by 0.500 % beyond what is timed within them" in " ".join(told.split())
    assert "**Not measured**" in told
    assert "of 100;" in told
