"""What is built before the first load, and how long that is expected to take. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.surrogate.cost_priors import CostPriors
from configs.models import ModelProfile
from experiments.space.configuration import Configuration

METHOD, PRUNING, CRITERION = "quantization.method", "pruning.method", "pruning.criterion"

NONE = "none"

BILLION = 1e9

MEASURED, GUESSED = "as measured here", "a guess by its size"


@dataclass(frozen=True)
class Build:
    """Seconds of building what a campaign begins from, what is done, and what the figure rests on."""

    seconds: float
    words: str
    basis: str


def build_of(
    begun: Configuration, profile: ModelProfile, built_s: Mapping[str, float], *, made_up: bool
) -> Build | None:
    """The build of the checkpoint that a configuration is served from, as the cost of a test's build is
    expected; `built_s` are measured seconds by method or criterion. None where the weights stay as they are,
    and where they are `made_up`, which takes no time worth telling."""
    if made_up:
        return None
    priors = CostPriors(built_s=built_s, billions=profile.text_parameters / BILLION)
    steps: list[tuple[str, object, float]] = []
    if begun.get(PRUNING, NONE) != NONE:
        steps.append(("pruning", begun.get(CRITERION), priors.pruning_s(begun)))
    if begun.get(METHOD, NONE) != NONE:
        steps.append(("quantizing", begun.get(METHOD), priors.quantization_s(begun)))
    if not steps:
        return None
    measured = all(by in built_s for _, by, _ in steps)
    words = " and ".join(step for step, _, _ in steps)
    return Build(sum(seconds for _, _, seconds in steps), words, MEASURED if measured else GUESSED)
