"""The proof of transfer: a second campaign with and without what a first one found, on frozen tables.

python -m tests.proofs.transfer [--only KIND] [--held-out] [--seeds N] [--processes N] [--runs FILE]
                                [--output FILE]

Writes docs/results/transfer.md. The first campaign is the planner `ours` on another ground, `FIRST` trials of
it; its outcomes are handed to the same planner as the campaign loop hands them over, true or poisoned. The
table of Qwen3.5-4B's shape (h200-4b) is held out, and read with `--held-out` alone. Equal seeds give equal
figures, whatever the number of processes. What is cut off goes on with the same --runs.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path

from agent.campaign.known.carried_best import best_of
from agent.proposers.port import CarriedBest, Trial
from agent.replay.course import Budget, course
from agent.replay.planners.ours import MIN_EFFECT, OwnPlanner
from agent.replay.port import Problem
from agent.replay.table import Table
from agent.surrogate.carried import Carried
from agent.surrogate.drafting import acceptance_length, drafts, first_acceptance
from experiments.engines.port import PartTime
from experiments.measurement.evidence import Metric
from experiments.measurement.judging import Outcome
from experiments.space.configuration import Configuration
from tests.proofs import transfer_known
from tests.proofs.transfer_asked import Asked
from tests.proofs.transfer_followed import section
from tests.proofs.transfer_page import Ran, Runs, page
from tests.proofs.transfer_runs import KeptRuns
from tests.proofs.transfer_tables import (
    HELD_OUT,
    LAUNCHED_ALONE,
    LAUNCHED_TWICE,
    OTHER_HARDWARE,
    WORKLOADS,
    Pair,
    alike,
    between,
    grounds,
    hardware_grounds,
    held_out_grounds,
    launched_alone_grounds,
    launched_twice_grounds,
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
    """Every effect and every loss of quality with the other sign, and of every first draft token what is
    accepted for what is not, whatever the draw."""
    return [
        claimed(
            replace(each, bits_ratio_log=_minus(each.bits_ratio_log)),
            _minus(each.effect_log),
            None if (first := accepted(each)) is None else 1 - first,
        )
        for each in trials
    ]


def huge(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """Of every effect ten times as fast or as slow, and of all drafts that all or none are accepted, as this
    draw has it of the configuration.

    Drawn anew for each pair and seed: one draw for all would favour or harm the same rows everywhere, and
    48 pairs would show the luck of a single one.
    """
    told = []
    for each in trials:
        slower = random.Random(f"{draw} {each.candidate.digest}").random() < 0.5
        effect = None if each.effect_log is None else HUGE_LOG if slower else -HUGE_LOG
        told.append(claimed(each, effect, None if accepted(each) is None else float(not slower)))
    return told


def shuffled(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """Effects and losses of quality that were measured there, each told of another configuration, and so what
    was accepted of drafts."""
    order = [each for each in trials if each.effect_log is not None]
    firsts = [(each.experiment_id, first) for each in trials if (first := accepted(each)) is not None]
    drawn = random.Random(draw)
    drawn.shuffle(order)
    drawn.shuffle(firsts)
    rotated = zip(firsts, [*firsts[1:], *firsts[:1]], strict=True)
    first_of = {name: other for (name, _), (_, other) in rotated if len(firsts) > 1}  # one has no other
    other_of = {one.experiment_id: other for one, other in zip(order, [*order[1:], *order[:1]], strict=True)}
    told = []
    for each in trials:
        other = other_of.get(each.experiment_id, each)
        moved = replace(each, bits_ratio_log=other.bits_ratio_log)
        told.append(claimed(moved, other.effect_log, first_of.get(each.experiment_id)))
    return told


def silent(trials: Sequence[Trial], draw: str) -> list[Trial]:
    """No effect, no quality and no acceptance: what is left is whether it ran, and what it cost."""
    return [claimed(replace(each, bits_ratio_log=None), None, None) for each in trials]


def accepted(trial: Trial) -> float | None:
    """The acceptance of the first draft token that the trial reports, if it drafts."""
    drafting = drafts(trial.candidate)
    if drafting is None or trial.acceptance_length is None:
        return None
    return first_acceptance(trial.acceptance_length, drafting[1])


def claimed(trial: Trial, effect_log: float | None, first: float | None) -> Trial:
    """The trial with this effect, the verdict that goes with it, drafts of whose first token this share is
    accepted (None: it reports none), and no profile that would give it away."""
    outcome = trial.outcome
    if outcome is not Outcome.INFEASIBLE:
        faster = effect_log is not None and effect_log < math.log1p(-MIN_EFFECT)
        outcome = Outcome.SUPPORTED if faster else Outcome.REFUTED
    drafting = drafts(trial.candidate)
    length = None if first is None or drafting is None else acceptance_length(first, drafting[1])
    return replace(trial, effect_log=effect_log, outcome=outcome, acceptance_length=length, profile=())


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
    command = Asked("tests.proofs.transfer", __doc__, OUTPUT)
    parser = command.parser
    parser.add_argument("--only", metavar="KIND", default="", help="kinds of pairs whose name holds this")
    parser.add_argument("--held-out", action="store_true", help="between the workloads of h200-4b.csv too")
    asked = command.read(arguments)
    chosen = [each for each in pairs() if asked.only in each.kind]
    if not chosen:
        parser.error(f"no kind has {asked.only!r} in its name: {', '.join({each.kind for each in pairs()})}")
    apart = between(HELD_OUT) if asked.held_out else []
    kept = KeptRuns(asked.runs)
    ran = run(chosen, asked.seeds, asked.processes, kept)
    held_out = run(apart, asked.seeds, asked.processes, kept)
    sizes = sizes_of([*chosen, *apart])
    how = command.how(kept.reused)
    yardsticks = [section(each, ground, REACHED) for each in (chosen, apart)]
    yardsticks[0] += transfer_known.section(ran, WORKLOADS)
    text = page(ran, how, FIRST, TRIALS, sizes, yardsticks, held_out)
    asked.output.write_text(text, encoding="utf-8")
    print(asked.output)
    return 0


def run(
    chosen: Sequence[Pair],
    seeds: int,
    processes: int,
    kept: KeptRuns | None = None,
    tellings: Sequence[str] = tuple(TOLD),
) -> Runs:
    """Both campaigns of each pair, with so many seeds, by what the second one is told; those that are kept
    are not run again."""
    kept = kept or KeptRuns(None)
    wanted = {(pair.name, told, seed): pair for pair in chosen for seed in range(seeds) for told in tellings}
    found = kept.read(wanted)
    left = [(key, pair) for key, pair in wanted.items() if key not in found]
    needed = sorted({(name, key[2]) for key, pair in left for name in (*pair.sources, pair.target)})
    with ProcessPoolExecutor(processes) as pool:
        begun = pool.map(first, *zip(*needed, strict=True), chunksize=2) if needed else ()
        firsts = dict(zip(needed, begun, strict=True))
        second = [
            (pair, seed, told, tuple(firsts[name, seed] for name in pair.sources))
            for (_, told, seed), pair in left
        ]
        ended = pool.map(after, *zip(*second, strict=True), chunksize=4) if second else ()
        for ((pair_name, told, seed), pair), ran in zip(left, ended, strict=True):
            key = (pair_name, told, seed)
            found[key] = (pair.kind, firsts[pair.target, seed].ran, ran)
            kept.add(key, found[key])
    return {key: found[key] for key in wanted}


def sizes_of(chosen: Sequence[Pair]) -> dict[str, int]:
    """How many rows each ground of these pairs has."""
    names = sorted({name for each in chosen for name in (*each.sources, each.target)})
    return {name: len(ground(name).rows) for name in names}


def first(name: str, seed: int) -> First:
    """A campaign on this ground that knows nothing of others."""
    made: list[OwnPlanner] = []
    table = ground(name)
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
                bandwidth_bytes_per_s=ground(source).prior.bandwidth_bytes_per_s,
                profile=each.profile,
            )
            for trial in TOLD[told](each.trials, f"{pair.name} {seed}")
        ]
        carried += told_here
        best = best_of(told_here, each.baseline, Metric.TPOT_MS)
        bests += [] if best is None else [best]
    return _ran(ground(pair.target), seed, tuple(carried), tuple(bests), [])


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


def ground(name: str) -> Table:
    """The table of this name; each file is read once."""
    if name in HELD_OUT:
        return _held_out_grounds()[name]
    if name in LAUNCHED_TWICE:
        return _launched_twice_grounds()[name]
    if name in LAUNCHED_ALONE:
        return _launched_alone_grounds()[name]
    return _hardware_grounds()[name] if name in OTHER_HARDWARE else _grounds()[name]


@cache
def _held_out_grounds() -> dict[str, Table]:
    return held_out_grounds()


@cache
def _launched_twice_grounds() -> dict[str, Table]:
    return launched_twice_grounds()


@cache
def _launched_alone_grounds() -> dict[str, Table]:
    return launched_alone_grounds()


@cache
def _hardware_grounds() -> dict[str, Table]:
    return hardware_grounds()


@cache
def _grounds() -> dict[str, Table]:
    return grounds()


if __name__ == "__main__":
    sys.exit(main())
