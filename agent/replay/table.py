"""A table of measured configurations, as a replay needs it. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from agent.replay.port import Prior, keeps
from agent.replay.request_effects import RequestEffects, request_effects
from configs.errors import UsageError
from experiments.engines.port import PartTime
from experiments.space.configuration import Configuration
from experiments.space.space import Space

LEAST_SHARE = 1e-6
"""Latencies that differ by less than this share are taken for one: nothing is there to be found."""

DEFAULT_QUALITY_LIMIT = 0.01
"""How much worse than trial 0 the quality may be: a campaign's own default, 1 % more bits per byte."""


@dataclass(frozen=True)
class Latency:
    """What was measured of one configuration, ms: `samples_ms`, or `centre_ms` and `sd_ms` of `count`
    samples. `requests` are the effects of the requests that the samples are of, where other rows served the
    same."""

    centre_ms: float
    sd_ms: float
    count: int
    samples_ms: tuple[float, ...] = ()
    requests: RequestEffects | None = None

    @classmethod
    def of_samples(cls, samples_ms: tuple[float, ...]) -> Latency:
        """Of raw samples; the centre is their mean."""
        sd = float(np.std(samples_ms, ddof=1)) if len(samples_ms) > 1 else 0.0
        return cls(math.fsum(samples_ms) / len(samples_ms), sd, len(samples_ms), samples_ms)

    @property
    def error_ms(self) -> float:
        """Standard error of the centre, ms: beside rows of the same requests, else as of samples that are
        independent."""
        if self.requests is not None:
            return self.centre_ms * self.requests.error_log(self.samples_ms)
        return self.sd_ms / math.sqrt(self.count)

    def drawn(self, random: np.random.Generator) -> tuple[float, ...]:
        """As many samples as were measured: of the same requests with other noise where that can be told
        from them, else with replacement from the raw ones, else from the log-normal of this centre and
        standard deviation, which no draw leaves below zero."""
        if self.requests is not None:
            return self.requests.drawn(self.samples_ms, random)
        if self.samples_ms:
            return tuple(random.choice(self.samples_ms, size=self.count).tolist())
        if self.sd_ms == 0:
            return (self.centre_ms,) * self.count
        sd_log = math.sqrt(math.log1p((self.sd_ms / self.centre_ms) ** 2))
        mean_log = math.log(self.centre_ms) - sd_log**2 / 2
        return tuple(random.lognormal(mean_log, sd_log, self.count).tolist())


@dataclass(frozen=True)
class Build:
    """What is made once for all rows that name it, and the seconds of making it."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Row:
    """One measured configuration. `latency` is None where it did not run, and `cause` says why.

    `quality` is bits per byte or whatever else is better when lower, None where it was not measured; `builds`
    is what must be there before a trial (weights, compiled code), `run_s` what all else of a trial takes.
    `resolved` is what really ran, `profile` its step by part; both may be empty. `tokens_a_step` is the
    acceptance length of one that drafts, None where it is not known.
    """

    configuration: Configuration
    latency: Latency | None
    quality: float | None
    builds: tuple[Build, ...]
    run_s: float
    cause: str = ""
    resolved: Mapping[str, str] = field(default_factory=dict)
    profile: tuple[PartTime, ...] = ()
    tokens_a_step: float | None = None

    def cost_s(self, built: Collection[str]) -> float:
        """What a trial takes where the builds of these names exist."""
        return self.run_s + self.build_s(built)

    def build_s(self, built: Collection[str]) -> float:
        """What making its builds takes where those of these names exist."""
        return math.fsum(build.seconds for build in self.builds if build.name not in built)


def with_requests(rows: Sequence[Row]) -> list[Row]:
    """The rows, each with the effects of the requests that all of their samples are of; as they are where
    that can't be told."""
    effects = request_effects([row.latency.samples_ms for row in rows if row.latency is not None])
    return [
        row if row.latency is None else replace(row, latency=replace(row.latency, requests=effects))
        for row in rows
    ]


@dataclass(frozen=True)
class Table:
    """A table that can be replayed: trial 0 is the first row.

    `left_out` are sentences on what of the file is no part of it. Raises `UsageError` where there is nothing
    to be found: fewer than two configurations, none that runs, a trial 0 that does not, one latency for all,
    or nothing faster than trial 0 within the quality limit (a share above trial 0's).
    """

    name: str
    metric: str
    space: Space
    rows: tuple[Row, ...]
    prior: Prior
    quality_limit: float = DEFAULT_QUALITY_LIMIT
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rows) < 2:
            raise UsageError(
                f"{self.name} has {'one configuration' if self.rows else 'no configuration'}, and a planner "
                "needs a choice.",
                "Give it two at least: trial 0 and something to try.",
            )
        ran = [row.latency.centre_ms for row in self.rows if row.latency is not None]
        if not ran:
            raise UsageError(
                f"None of the {len(self.rows)} configurations of {self.name} ran: nothing can be found.",
                "Replay a table in which at least trial 0 and another one ran.",
            )
        if self.rows[0].latency is None:
            raise UsageError(
                f"Trial 0 of {self.name} did not run ({self.rows[0].cause or 'no cause is told'}), and every "
                "gain is told against it.",
                "Mark another row with yes in the column baseline.",
            )
        if len(ran) == 1:
            raise UsageError(
                f"Of the {len(self.rows)} configurations of {self.name} trial 0 alone ran.",
                "Replay a table in which another one ran.",
            )
        if max(ran) - min(ran) <= LEAST_SHARE * max(ran):
            raise UsageError(
                f"All configurations of {self.name} that ran take {ran[0]:g} ms: there is nothing to find.",
                "Replay a metric that differs, with --metric.",
            )
        if self.best_ms >= self.baseline_ms * (1 - LEAST_SHARE):
            raise UsageError(
                f"Nothing in {self.name} that keeps the quality is faster than trial 0 "
                f"({self.baseline_ms:g} ms).",
                "Mark another row with yes in the column baseline, or allow more with --quality-limit.",
            )

    @cached_property
    def by_configuration(self) -> Mapping[Configuration, Row]:
        """Each row by its configuration."""
        return {row.configuration: row for row in self.rows}

    @property
    def baseline_ms(self) -> float:
        """What trial 0 takes in truth."""
        assert self.rows[0].latency is not None  # or there was no table
        return self.rows[0].latency.centre_ms

    @cached_property
    def best(self) -> Row:
        """The fastest configuration that runs and keeps the quality."""
        found = [row for row in self.rows if self.is_acceptable(row)]
        return min(found, key=lambda row: row.latency.centre_ms if row.latency else math.inf)

    @property
    def best_ms(self) -> float:
        """What it takes in truth."""
        assert self.best.latency is not None
        return self.best.latency.centre_ms

    def is_acceptable(self, row: Row) -> bool:
        """Whether a row ran and keeps the quality."""
        return row.latency is not None and keeps(row.quality, self.rows[0].quality, self.quality_limit)

    def gain_of(self, latency_ms: float) -> float:
        """The share of the best gain that this latency is: 1 at the best, 0 at trial 0, below 0 if slower."""
        return (self.baseline_ms - latency_ms) / (self.baseline_ms - self.best_ms)

    def with_rows(self, rows: tuple[Row, ...]) -> Table:
        """The table with other rows, trial 0 first."""
        return replace(self, rows=rows)
