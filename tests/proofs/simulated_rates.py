"""Simulated experiments of one truth in pieces: equal arms under hard conditions, and a gain of 5 %."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from agent.judge.launch_interval import LaunchIntervalJudge
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import StoppingPlan
from tests.proofs.counting import Share, Workers, seed_of
from tests.simulation.experiment import DEFAULT_PLAN, Truth
from tests.simulation.rates import Rates, simulate

PIECE = 100
"""Experiments of one piece of work."""

EVERYTHING = Truth(
    launch_sd=0.01,
    launch_tails=5,
    launch_autocorrelation=0.2,
    drift_a_block=0.002,
    disturbance_sd=0.01,
    autocorrelation=0.8,
    interruption_chance=0.01,
)
"""Two equal arms where everything happens at once: launches that vary by 1 % with the tails of t(5) and
remember the one before a little, a machine that drifts by 0.2 % a block, blocks that vary together (AR(1),
0.8) by 1 %, and one request of a hundred that is interrupted and takes 65 % longer."""

CONDITIONS: dict[str, Truth] = {
    "launches vary by 1 %, normal": Truth(),
    "launches vary by 3 %": Truth(launch_sd=0.03),
    "launches with tails of t(3)": Truth(launch_tails=3),
    "launches remember the last (AR(1), 0.8)": Truth(launch_autocorrelation=0.8),
    "drift of 2 % a block": Truth(drift_a_block=0.02),
    "blocks vary together by 5 % (AR(1), 0.95)": Truth(disturbance_sd=0.05, autocorrelation=0.95),
    "one request of 50 interrupted": Truth(interruption_chance=0.02),
    "the candidate's launches vary by 3 %, the profile says 1 %": Truth(candidate_launch_sd=0.03),
}
"""Equal arms under one hard condition each; some break what the interval assumes."""

FREEDOM = 10
"""Degrees of freedom of the noise profile that each experiment draws for itself."""


@dataclass(frozen=True)
class Piece:
    """So many experiments of one truth under one plan."""

    plan: StoppingPlan
    truth: Truth
    experiments: int
    seed: int


@dataclass(frozen=True)
class Counts:
    """What became of experiments: outcomes; those whose interval held the truth at every look, and at the
    verdict; pairs that were measured."""

    experiments: int
    supported: int
    refuted: int
    held_everywhere: int
    held_at_verdict: int
    pairs: int

    def __add__(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(
            self.experiments + other.experiments,
            self.supported + other.supported,
            self.refuted + other.refuted,
            self.held_everywhere + other.held_everywhere,
            self.held_at_verdict + other.held_at_verdict,
            self.pairs + other.pairs,
        )

    def share(self, count: int) -> Share:
        """A share of these experiments."""
        return Share(count, self.experiments)


def count(piece: Piece) -> Counts:
    """Run one piece."""
    found = simulate(
        LaunchIntervalJudge(),
        piece.plan,
        piece.truth,
        piece.experiments,
        degrees_of_freedom=FREEDOM,
        seed=piece.seed,
    )
    return counts_of(found)


def counts_of(found: Rates) -> Counts:
    """What became of simulated experiments."""
    outcomes = found.outcomes
    return Counts(
        experiments=found.experiments,
        supported=outcomes[Outcome.SUPPORTED],
        refuted=outcomes[Outcome.REFUTED],
        held_everywhere=sum(course.holds_everywhere(found.effect) for course in found.courses),
        held_at_verdict=sum(
            not course.looks or course.looks[-1].holds(found.effect) for course in found.courses
        ),
        pairs=sum(course.pairs for course in found.courses),
    )


def pieces(plan: StoppingPlan, truth: Truth, experiments: int, seed: int, place: int) -> list[Piece]:
    """The work of so many experiments, cut so that any number of processes finds the same."""
    sizes = [PIECE] * (experiments // PIECE) + ([experiments % PIECE] if experiments % PIECE else [])
    return [Piece(plan, truth, size, seed_of(seed, place, number)) for number, size in enumerate(sizes)]


def counted(
    workers: Workers, plan: StoppingPlan, truth: Truth, experiments: int, seed: int, place: int
) -> Counts:
    """All pieces of one truth together."""
    found = workers.map(count, pieces(plan, truth, experiments, seed, place))
    return sum(found[1:], start=found[0])


def plan_of(full_pairs: int, support_alpha: float | None = None) -> StoppingPlan:
    """The default plan with another number of exploratory pairs, and a level of support of its own."""
    changes = {"full_pairs": full_pairs, "support_alpha": support_alpha}
    return StoppingPlan.model_validate({**DEFAULT_PLAN.model_dump(), **changes})


@dataclass(frozen=True)
class TimeNoise:
    """What times vary by, standard deviations of natural logs: from launch to launch beyond what is timed
    within them, from block to block beyond their requests, and from request to request."""

    launch_sd: float
    block_sd: float = Truth.disturbance_sd
    request_sd: float = Truth.request_sd

    def of_mean(self, blocks: int, requests: int) -> float:
        """The standard deviation of a launch's mean over `blocks` of `requests` each."""
        return math.hypot(
            self.launch_sd,
            self.block_sd / math.sqrt(blocks),
            self.request_sd / math.sqrt(blocks * requests),
        )


def gain_of(gain: float, noise: TimeNoise) -> Truth:
    """A true gain where times vary so; 0.05 is 5 % less time."""
    return replace(
        Truth(),
        effect_log=math.log(1 - gain),
        launch_sd=noise.launch_sd,
        disturbance_sd=noise.block_sd,
        request_sd=noise.request_sd,
    )
