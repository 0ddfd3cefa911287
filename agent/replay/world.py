"""What a replay lives in: draws of a table's rows for a seed, builds that exist, turned labels. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agent.replay.port import Problem, Told, accepted
from agent.replay.table import Row, Table
from configs.errors import AutoinferError, UsageError
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, same_value
from experiments.space.space import Space

NOT_A_LABEL = ("auto", "none", "off")
"""Values that are no label of one of several things, but leave the choice open or say that there is none."""


def problem_of(table: Table) -> Problem:
    """What planners see of a table: no latencies, and no order of rows that tells of them."""
    ordered = sorted((row.configuration for row in table.rows), key=lambda each: place(table.space, each))
    return Problem(
        table.space,
        table.rows[0].configuration,
        tuple(ordered),
        table.metric,
        table.quality_limit,
        table.prior,
    )


def place(space: Space, configuration: Configuration) -> tuple[int, ...]:
    """Where a configuration stands when all are counted through knob by knob, the last knob fastest."""
    return tuple(
        -1
        if knob.name not in configuration
        else next(k for k, value in enumerate(knob.values) if same_value(value, configuration[knob.name]))
        for knob in space.in_order
    )


@dataclass
class World:
    """A table for one seed: measuring a row draws its samples. Two planners that measure a row as often are
    told the same of it, so that seeds pair them."""

    table: Table
    seed: int
    _numbers: Mapping[Configuration, int] = field(init=False)
    _times: Counter[Configuration] = field(default_factory=Counter)
    _built: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._numbers = {row.configuration: number for number, row in enumerate(self.table.rows)}

    def cost_s(self, configuration: Configuration) -> float:
        """What measuring it would cost now."""
        row = self.table.by_configuration[configuration]
        return row.cost_s(self._built)

    def measure(self, trial: int, configuration: Configuration) -> Told:
        """Measure a row; raises `AutoinferError` for a configuration that the table does not have."""
        row = self.table.by_configuration.get(configuration)
        if row is None:
            raise AutoinferError(f"The table has no configuration {configuration}.", "Ask for one of it.")
        build_s = row.build_s(self._built)
        self._built.update(build.name for build in row.builds)
        again = self._times[configuration]
        self._times[configuration] += 1
        random = np.random.default_rng([self.seed, self._numbers[configuration], again])
        return Told(
            trial,
            configuration,
            () if row.latency is None else row.latency.drawn(random),
            row.quality,
            build_s,
            row.run_s,
            row.cause,
            row.resolved,
            row.profile,
            row.tokens_a_step,
        )


def judged_best(problem: Problem, history: Sequence[Told]) -> Configuration:
    """The configuration that is best by what was told: the least mean of all its samples, among those that
    ran and keep the quality; trial 0 where there is no other."""
    samples: dict[Configuration, list[float]] = {}
    for told in history:
        if accepted(problem, history[0], told):
            samples.setdefault(told.configuration, []).extend(told.samples_ms)
    means = {each: math.fsum(found) / len(found) for each, found in samples.items()}
    return min(means, key=lambda each: means[each])


def permuted(table: Table, knobs: Sequence[str], seed: int) -> Table:
    """The table with the labels of these knobs' values turned round at random: what `marlin` took is told of
    another kernel. Trial 0's own value and those of `NOT_A_LABEL` stay; what ran is renamed along.

    Raises `UsageError` for an unknown knob, one with fewer than two labels, and one that others hang on.
    """
    random = np.random.default_rng(seed)
    baseline = table.rows[0].configuration
    found = table
    for name in knobs:
        knob = table.space.knob(name)
        seen = {row.configuration[name] for row in table.rows if name in row.configuration}
        labels = [
            value
            for value in knob.values
            if value in seen and str(value) not in NOT_A_LABEL and value != baseline.get(name)
        ]
        if len(labels) < 2:
            raise UsageError(
                f"{name} has no two labels in {table.name} that could be turned round.",
                "Name a knob with several, such as --permute serving.linear_backend.",
            )
        turned = [labels[k] for k in random.permutation(len(labels))]
        renames = list(zip(labels, turned, strict=True))
        found = found.with_rows(tuple(_renamed(found.space, knob, row, renames) for row in found.rows))
    return found


def _renamed(space: Space, knob: Knob, row: Row, renames: Sequence[tuple[KnobValue, KnobValue]]) -> Row:
    resolved = dict(row.resolved)
    for pin in knob.pins:
        words = {knob.reads_as(pin.key, before): knob.reads_as(pin.key, after) for before, after in renames}
        shown = resolved.get(pin.key)
        if shown is not None:
            resolved[pin.key] = words.get(shown) or shown
    now = row.configuration.get(knob.name)
    after = next((new for old, new in renames if now is not None and same_value(old, now)), now)
    if after is None:
        return replace(row, resolved=resolved)
    configuration = Configuration.of({**row.configuration, knob.name: after})
    if not space.is_legal(configuration):
        raise UsageError(
            f"The labels of {knob.name} can't be turned round: other knobs hang on its value.",
            "Name a knob that stands for itself.",
        )
    return replace(row, configuration=configuration, resolved=resolved)
