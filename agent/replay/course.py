"""One replay: a planner against a table for a seed, trial after trial. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent.replay.calibration import Outcome
from agent.replay.entrant import Entrant
from agent.replay.port import PlannerFactory, Told
from agent.replay.table import Table
from agent.replay.world import World, judged_best, problem_of
from configs.errors import UsageError
from configs.quantities import format_duration, parse_duration_s

DEFAULT_TRIALS = 20
"""Trials after trial 0 where no budget is given."""


@dataclass(frozen=True)
class Budget:
    """What a planner may spend after trial 0: a number of trials, or seconds."""

    trials: int | None = DEFAULT_TRIALS
    seconds: float = math.inf

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`20` are trials, `2h` is time. Raises `UsageError` for less than one trial and anything else."""
        if text.strip().lstrip("+-").isdigit():
            trials = int(text)
            if trials < 1:
                raise UsageError(
                    f"A budget of {trials} trials is less than one.", "Give 1 or more, or seconds as in 900s."
                )
            return cls(trials)
        return cls(None, parse_duration_s(text))

    def most(self, table: Table) -> int:
        """Trials that can be had of a table: its configurations but trial 0, or as many as are allowed.
        Raises `UsageError` where the seconds do not even pay for the cheapest."""
        others = table.rows[1:]
        least_s = min(row.run_s for row in others)
        there = {build.name for build in table.rows[0].builds}
        cheapest_s = min(row.cost_s(there) for row in others)
        if self.seconds < cheapest_s:
            raise UsageError(
                f"A budget of {format_duration(self.seconds)} is less than one trial: the cheapest of "
                f"{table.name} takes {cheapest_s:.1f} s.",
                "Give more, or a number of trials such as --budget 20.",
            )
        if self.trials is not None:
            return self.trials
        return min(len(others), int(self.seconds // least_s))

    @property
    def words(self) -> str:
        """As it is told: `20 trials` or `2h`."""
        if self.trials is not None:
            return "1 trial" if self.trials == 1 else f"{self.trials} trials"
        return format_duration(self.seconds)


@dataclass(frozen=True)
class Step:
    """After a trial: what was measured, what all trials after trial 0 cost, and the share of the best gain
    that the configuration has in truth which is best by what was told (1: the best, 0: trial 0). `outcome` is
    what was told beside what the planner had predicted: None of a planner that predicts nothing, where
    nothing ran, and of a configuration that was measured before."""

    trial: int
    measured: str
    cost_s: float
    gain: float
    outcome: Outcome | None = None


@dataclass(frozen=True)
class Course:
    """The steps of a planner for a seed; step 0 is trial 0."""

    planner: str
    seed: int
    steps: tuple[Step, ...]

    def gain_after(self, trials: int) -> float:
        """The share of the best gain after so many trials; a planner that stopped keeps what it had."""
        return self.steps[min(trials, len(self.steps) - 1)].gain

    def reached(self, share: float) -> Step | None:
        """The first step with this share of the best gain; None where none has it."""
        return next((step for step in self.steps if step.gain >= share), None)


def course(table: Table, name: str, factory: PlannerFactory, seed: int, budget: Budget) -> Course:
    """Replay a table for a planner. It ends with the budget, when the planner stops, and before a trial that
    the seconds left do not pay for. Raises `AutoinferError` for a planner that fails."""
    problem, world = problem_of(table), World(table, seed)
    entrant = Entrant(name, factory, problem, seed)
    history: list[Told] = []
    steps: list[Step] = []
    spent_s = 0.0
    for trial in range(budget.most(table) + 1):
        asked = entrant.ask(history) if trial else problem.baseline
        if asked is None or (trial and spent_s + world.cost_s(asked) > budget.seconds):
            break
        new = all(told.configuration != asked for told in history)
        forecasts = entrant.forecasts(asked) if trial and new else None
        told = world.measure(trial, asked)
        history.append(told)
        entrant.tell(told)
        spent_s += told.cost_s if trial else 0.0
        best = table.by_configuration[judged_best(problem, history)]
        assert best.latency is not None  # what was judged ran
        gain = table.gain_of(best.latency.centre_ms)
        outcome = Outcome(math.log(told.mean_ms), *forecasts) if forecasts and told.ran else None
        steps.append(Step(trial, asked.digest, spent_s, gain, outcome))
    return Course(name, seed, tuple(steps))
