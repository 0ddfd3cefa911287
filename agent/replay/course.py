"""One replay: a planner against a table for a seed, trial after trial. Pure."""

from __future__ import annotations

import math
import re
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

MOST_TRIALS = 100_000
"""More than a table may have lines: a planner that asks for what it measured before would never end."""

_COUNT = re.compile(r"[+-]?\d+", re.ASCII)
_DIGITS = 12
"""Of a count so many characters are read, which tell that it is too large."""


@dataclass(frozen=True)
class Budget:
    """What a planner may spend after trial 0: a number of trials, or seconds."""

    trials: int | None = DEFAULT_TRIALS
    seconds: float = math.inf

    @classmethod
    def parse(cls, text: str) -> Budget:
        """`20` are trials, `2h` is time. Raises `UsageError` for less than one trial, more than
        `MOST_TRIALS`, and anything else."""
        plain = text.strip()
        if not _COUNT.fullmatch(plain):
            try:
                return cls(None, parse_duration_s(plain))
            except UsageError:
                raise UsageError(
                    f"{text[:40]!r} is no budget: neither a number of trials nor a time.",
                    "Write trials such as 20, or time such as 900s or 2h.",
                ) from None
        trials = int(plain[:_DIGITS])
        if trials < 1:
            raise UsageError(
                f"A budget of {plain[:_DIGITS]} trials is less than one.",
                "Give 1 or more, or seconds as in 900s.",
            )
        if trials > MOST_TRIALS:
            raise UsageError(
                f"A budget of more than {MOST_TRIALS:,} trials is more than any table has.", "Give fewer."
            )
        return cls(trials)

    def most(self, table: Table) -> int:
        """Trials that can be had of a table: as many as are allowed, or as the seconds pay for where each is
        the cheapest. Raises `UsageError` where they do not even pay for that one."""
        others = table.rows[1:]
        least_s = min(row.run_s for row in others)
        there = {build.name for build in table.rows[0].builds}
        cheapest_s = min(row.cost_s(there) for row in others)
        if self.seconds < cheapest_s:
            raise UsageError(
                f"A budget of {format_duration(self.seconds)} is less than one trial: the cheapest of "
                f"{table.name} takes {format_duration(cheapest_s)}.",
                "Give more, or a number of trials such as --budget 20.",
            )
        if self.trials is not None:
            return self.trials
        return int(min(self.seconds / least_s, MOST_TRIALS))

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
