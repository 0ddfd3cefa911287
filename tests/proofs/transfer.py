"""The proof of transfer: a second campaign with and without what a first one found, on frozen tables.

python -m tests.proofs.transfer [--only KIND] [--held-out] [--seeds N] [--processes N] [--output FILE]

Writes docs/results/transfer.md. The first campaign is the planner `ours` on another ground, `FIRST` trials of
it; its outcomes are handed to the same planner as the campaign loop hands them over, true or poisoned. The
table of Qwen3.5-4B's shape (h200-4b) is held out, and read with `--held-out` alone. Equal seeds give equal
figures, whatever the number of processes.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

from agent.campaign.carried_best import best_of
from agent.proposers.port import CarriedBest, Trial
from agent.replay.course import Budget, course
from agent.replay.planners.ours import MIN_EFFECT, OwnPlanner
from agent.replay.port import Problem
from agent.replay.table import Table
from agent.surrogate.carried import Carried
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from tests.proofs.counting import at_least_one
from tests.proofs.transfer_page import Ran, Runs, page
from tests.proofs.transfer_tables import (
    HELD_OUT,
    OTHER_HARDWARE,
    Pair,
    alike,
    between,
    grounds,
    hardware_grounds,
    held_out_grounds,
    pairs,
)

OUTPUT = Path(__file__).parents[2] / "docs" / "results" / "transfer.md"

FIRST = 10
"""Trials of a first campaign that are handed on."""

TRIALS = 20
"""Trials that a second campaign may take."""

REACHED = 0.95
"""The share of the best gain that is looked for."""

HUGE_LOG = math.log(10)
"""What the poison `huge` claims: ten times as fast, or as slow."""


def turned(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """Every effect and every loss of quality with the other sign, whatever the draw."""
    return [
        claimed(replace(each, bits_ratio_log=_minus(each.bits_ratio_log)), _minus(each.effect_log))
        for each in trials
    ]


def huge(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """Of every effect ten times as fast or as slow, as this draw has it of the configuration.

    Drawn anew for each pair and seed: one draw for all would favour or harm the same rows everywhere, and
    48 pairs would show the luck of a single one.
    """
    return [
        each
        if each.effect_log is None
        else claimed(
            each, HUGE_LOG if random.Random(f"{draw} {each.candidate.digest}").random() < 0.5 else -HUGE_LOG
        )
        for each in trials
    ]


def shuffled(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """Effects and losses of quality that were measured there, each told of another configuration."""
    order = [each for each in trials if each.effect_log is not None]
    random.Random(draw).shuffle(order)
    of = {
        one.experiment_id: claimed(replace(one, bits_ratio_log=other.bits_ratio_log), other.effect_log)
        for one, other in zip(order, [*order[1:], *order[:1]], strict=True)
    }
    return [of.get(each.experiment_id, each) for each in trials]


def silent(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """No effect and no quality: what is left is whether it ran, and what it cost."""
    return [claimed(replace(each, bits_ratio_log=None), None) for each in trials]


def claimed(trial: Trial, effect_log: float | None) -> Trial:
    """The trial with this effect, the verdict that goes with it, and no profile that would give it away."""
    outcome = trial.outcome
    if outcome is not Outcome.INFEASIBLE:
        faster = effect_log is not None and effect_log < math.log1p(-MIN_EFFECT)
        outcome = Outcome.SUPPORTED if faster else Outcome.REFUTED
    return replace(trial, effect_log=effect_log, outcome=outcome, profile=())


def true(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """As it was."""
    return list(trials)


TOLD: Mapping[str, Callable[[Sequence[Trial], str], Sequence[Trial]]] = {
    "true": true,
    "turned": turned,
    "huge": huge,
    "shuffled": shuffled,
    "silent": silent,
}
"""What a second campaign is told, by name."""


@dataclass(frozen=True)
class First:
    """A campaign without knowledge: how it went, its first trials, and its trial 0: what that took, and its
    step by part."""

    ran: Ran
    trials: tuple[Trial, ...]
    baseline: Configuration
    tpot_ms: float
    profile: tuple[PartTime, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all pairs and write the page; the exit code is 0 whatever was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.transfer", description=__doc__)
    parser.add_argument("--only", metavar="KIND", default="", help="kinds of pairs whose name holds this")
    parser.add_argument("--held-out", action="store_true", help="between the workloads of h200-4b.csv too")
    parser.add_argument("--seeds", type=at_least_one, default=10)
    parser.add_argument("--processes", type=at_least_one, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = parser.parse_args(given)
    chosen = [each for each in pairs() if asked.only in each.kind]
    if not chosen:
        parser.error(f"no kind has {asked.only!r} in its name: {', '.join({each.kind for each in pairs()})}")
    apart = between(HELD_OUT) if asked.held_out else []
    begun = time.monotonic()
    ran = run(chosen, asked.seeds, asked.processes)
    command = f"python -m tests.proofs.transfer {shlex.join(given)}".strip()
    held_out = run(apart, asked.seeds, asked.processes)
    wall_s = time.monotonic() - begun
    sizes = sizes_of([*chosen, *apart])
    text = page(ran, command, asked.seeds, asked.processes, wall_s, FIRST, TRIALS, sizes, held_out)
    asked.output.write_text(text, encoding="utf-8")
    print(asked.output)
    return 0


def run(chosen: Sequence[Pair], seeds: int, processes: int) -> Runs:
    """Both campaigns of each pair, with so many seeds, by what the second one is told."""
    names = sorted({name for each in chosen for name in (*each.sources, each.target)})
    with ProcessPoolExecutor(processes) as pool:
        tasks = [(name, seed) for name in names for seed in range(seeds)]
        firsts = dict(zip(tasks, pool.map(first, *zip(*tasks, strict=True), chunksize=2), strict=True))
        second = [
            (pair, seed, told, tuple(firsts[name, seed] for name in pair.sources))
            for pair in chosen
            for seed in range(seeds)
            for told in TOLD
        ]
        found = list(pool.map(after, *zip(*second, strict=True), chunksize=4))
    return {
        (pair.name, told, seed): (pair.kind, firsts[pair.target, seed].ran, each)
        for (pair, seed, told, _), each in zip(second, found, strict=True)
    }


def sizes_of(chosen: Sequence[Pair]) -> dict[str, int]:
    """How many rows each ground of these pairs has."""
    names = sorted({name for each in chosen for name in (*each.sources, each.target)})
    return {name: len(_ground(name).rows) for name in names}


def first(name: str, seed: int) -> First:
    """A campaign on this ground that knows nothing of others."""
    made: list[OwnPlanner] = []
    table = _ground(name)
    ran = _ran(table, seed, (), (), made)
    planner = made[0]  # the second one is the evaluator's, that stays at trial 0
    trial_0 = table.rows[0]
    return First(
        ran, planner.trials[:FIRST], trial_0.configuration, planner.baseline_ms, tuple(trial_0.profile)
    )


def after(pair: Pair, seed: int, told: str, firsts: tuple[First, ...]) -> Ran:
    """A campaign on the pair's target that begins with what the first ones told."""
    carried: list[Carried] = []
    bests: list[CarriedBest] = []
    for source, each in zip(pair.sources, firsts, strict=True):
        there = alike(source, pair.target)
        told_here = [
            Carried(
                trial,
                source,
                same_model=there.model,
                same_workload=there.workload,
                tpot_ms=each.tpot_ms,
                same_hardware=there.hardware,
                distance=there.distance,
                bandwidth_bytes_per_s=_ground(source).prior.bandwidth_bytes_per_s,
                profile=each.profile,
            )
            for trial in TOLD[told](each.trials, f"{pair.name} {seed}")
        ]
        carried += told_here
        best = best_of(told_here, each.baseline, Metric.TPOT_MS)
        bests += [] if best is None else [best]
    return _ran(_ground(pair.target), seed, tuple(carried), tuple(bests), [])


def _ran(
    table: Table,
    seed: int,
    carried: tuple[Carried, ...],
    bests: tuple[CarriedBest, ...],
    made: list[OwnPlanner],
) -> Ran:
    def factory(problem: Problem, seed: int) -> OwnPlanner:
        made.append(Watched(problem, seed, carried, bests))
        return made[-1]

    found = course(table, "ours", factory, seed, Budget(TRIALS))
    reached = found.reached(REACHED)
    last = found.steps[-1]
    weights = made[0].weights if isinstance(made[0], Watched) else []
    area = math.fsum((1 - before.gain) for before, _ in pairwise(found.steps[: FIRST + 1]))
    return Ran(
        trials=len(found.steps) if reached is None else reached.trial,
        cost_s=last.cost_s if reached is None else reached.cost_s,
        reached=reached is not None,
        missing=area,
        weights=tuple(weights),
    )


class Watched(OwnPlanner):
    """The planner, with what weight the carried had before each trial."""

    @cached_property
    def weights(self) -> list[float]:
        """Before each trial that was asked for."""
        return []

    def ask(self, history: Sequence[object]) -> object:  # type: ignore[override]
        """As the planner does."""
        self.weights.append(self.carried_weight)
        return super().ask(history)  # type: ignore[arg-type]


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def _ground(name: str) -> Table:
    if name in HELD_OUT:
        return _held_out_grounds()[name]
    return _hardware_grounds()[name] if name in OTHER_HARDWARE else _grounds()[name]


@cache
def _held_out_grounds() -> dict[str, Table]:
    return held_out_grounds()


@cache
def _hardware_grounds() -> dict[str, Table]:
    return hardware_grounds()


@cache
def _grounds() -> dict[str, Table]:
    return grounds()


if __name__ == "__main__":
    sys.exit(main())
