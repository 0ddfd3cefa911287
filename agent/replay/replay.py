"""A table against planners, seed by seed, in this process or spread over several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from agent.replay.calibration import Outcome, Outcomes
from agent.replay.course import Budget, Course, course
from agent.replay.entrant import Entrant
from agent.replay.planners.registered import load_planner, planner_names
from agent.replay.score import Score, scores
from agent.replay.table import Table
from agent.replay.world import permuted, problem_of
from configs.errors import AutoinferError, UsageError

CHUNK = 5
"""Seeds that a process takes at once."""


@dataclass(frozen=True)
class Asked:
    """What is replayed: planners by name, seeds from 0 on, the budget of each, and knobs whose labels are
    turned round anew for each seed."""

    planners: tuple[str, ...]
    seeds: int
    budget: Budget
    permute: tuple[str, ...] = ()


@dataclass(frozen=True)
class Replayed:
    """What came of it. `trials` is up to which regrets are told; `missing` says why a planner could not
    run."""

    table: Table
    asked: Asked
    courses: Mapping[str, Sequence[Course]]
    trials: int
    missing: Mapping[str, str]

    @property
    def scores(self) -> tuple[Score, ...]:
        """The measures of each planner that ran."""
        return scores(self.courses, self.trials, len(self.table.rows))

    def outcomes(self, planner: str, first: int = 1, last: int | None = None) -> Outcomes:
        """What a planner had predicted, beside what came, by row and seed, of its trials from `first` to
        `last` (None: all); empty of one that predicts nothing."""
        found: dict[tuple[str, str], dict[int, Outcome]] = {}
        for each in self.courses[planner]:
            for step in each.steps[first : None if last is None else last + 1]:
                if step.outcome is not None:
                    found.setdefault((self.table.name, step.measured), {})[each.seed] = step.outcome
        return found


@contextmanager
def workers(processes: int) -> Iterator[Executor | None]:
    """Processes to spread courses over, for as many replays as wanted; None, which is this process, for
    one."""
    if processes == 1:
        yield None
        return
    method = multiprocessing.get_context("spawn")  # threads of libraries don't outlive a fork
    with ProcessPoolExecutor(processes, mp_context=method) as pool:
        yield pool


def replay(table: Table, asked: Asked, pool: Executor | None = None) -> Replayed:
    """Replay a table; equal seeds give equal courses, whatever the number of processes.

    Without names all registered planners run, and one whose package is missing is told in `missing`; one that
    was asked for by name raises `UsageError` then. Raises `AutoinferError` for a planner that fails.
    """
    most = min(asked.budget.most(table), len(table.rows) - 1)
    permuted(table, asked.permute, 0)  # so that what can't be is told before anything runs
    usable, missing = [], {}
    for name in asked.planners or planner_names():
        try:
            Entrant(name, load_planner(name), problem_of(table), 0)
            usable.append(name)
        except UsageError as error:
            if asked.planners:
                raise
            missing[name] = str(error)
    if not usable:
        raise UsageError(
            "No planner is registered that can run.", "Install autoinfer again: pip install -e ."
        )
    tasks = [(name, seed) for name in usable for seed in range(asked.seeds)]
    run = partial(one, table, asked)
    try:
        found = list(map(run, tasks)) if pool is None else list(pool.map(run, tasks, chunksize=CHUNK))
    except BrokenExecutor:
        raise AutoinferError(
            f"A process that replayed {table.name} was ended, by a planner or for want of memory.",
            "Replay the planners one by one, in one process: --planner NAME --processes 1.",
        ) from None
    courses = {name: [each for each in found if each.planner == name] for name in usable}
    return Replayed(table, asked, courses, most, missing)


def one(table: Table, asked: Asked, task: tuple[str, int]) -> Course:
    """The course of one planner for one seed."""
    name, seed = task
    turned = permuted(table, asked.permute, seed) if asked.permute else table
    return course(turned, name, load_planner(name), seed, asked.budget)
