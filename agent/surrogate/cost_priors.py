"""What an experiment is expected to cost before any has run, in seconds: where a `CostBelief` begins.

The constants are those of the packaged model on two cores. On any other model, engine and target they would
be wrong by an order of magnitude, so a campaign begins with priors of its own: its baseline has loaded,
served and scored already (`agent/campaign/decision/expected_cost.py`), and stages that built a checkpoint of
this model told how long they took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from experiments.space.configuration import Configuration

MEASURE_PRIOR_S = 60.0
"""Expected seconds of a timed experiment on the reference model besides its builds: eight launches of a few
seconds, some hundred requests, one evaluation."""

SCREEN_PRIOR_S = 20.0
"""Expected seconds of looking at the quality of changed weights first: a launch and one evaluation."""

SCREENED = ("pruning", "quantization")
"""Levers that change weights."""

TRACED_S: Mapping[str, float] = {"default": 50.0}
"""Expected seconds more by `serving.compile`: what torch.compile traces anew in each of some five launches of
the reference model, 10 to 15 s a launch; a package made ahead of time is loaded in 2."""

PAIRS_PRIOR = 3
"""Launch pairs of a test that is timed: 2.5 to 3.6 on average in simulated experiments whose launches vary by
1 % (docs/judging.md, gains)."""

PRIOR_WEIGHT = 1.0
"""The prior weighs as much as this many experiments."""

COMPILE_S = 50.0
"""Expected seconds to compile the decode step of the reference model: 45 to 60 on two machines of two
cores."""

PRUNING_S: Mapping[str, float] = {"block_influence": 10.0, "leave_one_out_kl": 30.0, "greedy_kl": 30.0}
"""Expected seconds to rank the layers of the reference model and take them out, by criterion: one pass over
the calibration text, or one for each layer; the greedy one does the latter again for each layer that goes."""

QUANTIZATION_S: Mapping[str, float] = {"awq": 45.0, "rtn": 10.0}
"""Expected seconds to quantize the reference model, by method."""

BUILD_A_BILLION_S: Mapping[str, float] = {
    "awq": 60.0,
    "rtn": 10.0,
    "block_influence": 10.0,
    "leave_one_out_kl": 30.0,
    "greedy_kl": 30.0,
}
"""Expected seconds more for each billion parameters, on a GPU. A guess that no GPU was asked about: the first
build of the model that is measured takes its place."""

SELF_CORPUS_S = 30.0
"""Expected seconds more where the model writes its own calibration text."""

DRAFTER_S = 10.0
"""Expected seconds to fit an external drafter to a target; the model's MTP head and n-grams need nothing."""

BUILD_UNKNOWN_S = 30.0
"""The same for a method that is not named here."""

GREEDY = "greedy_kl"
"""The criterion whose cost grows with the layers removed."""


def nothing_more(configuration: Configuration) -> float:
    """No seconds, whatever the configuration."""
    return 0.0


@dataclass(frozen=True)
class CostPriors:
    """Expected seconds before anything was tested.

    `measure_s`: a timed experiment without its builds; `screen_s`: the look at changed weights. `built_s`
    are seconds that builds of this model took, by method or criterion (for the greedy one, a layer); where
    there is none, arithmetic with `billions` of parameters. `made_up` weights cost nothing to change, and
    nobody looks at their quality. `loads`: how often the pairs of a timed experiment wait for loads, which
    is once for those that load together. `compiled_s`: seconds more that a launch of a configuration takes
    because its kernels are compiled in it; not compared, since it goes by what kernels timed alone took, as
    physics does. `apart_s`: seconds more that a timed experiment on it takes because its launches are up one
    at a time where others' are side by side; not compared either, as memory is what it goes by.
    """

    measure_s: float = MEASURE_PRIOR_S
    screen_s: float = SCREEN_PRIOR_S
    built_s: Mapping[str, float] = field(default_factory=dict)
    billions: float = 0.0
    made_up: bool = False
    loads: int = PAIRS_PRIOR
    compiled_s: Callable[[Configuration], float] = field(default=nothing_more, compare=False)
    apart_s: Callable[[Configuration], float] = field(default=nothing_more, compare=False)

    def quantization_s(self, configuration: Configuration) -> float:
        """Expected seconds to quantize as the configuration says."""
        method = str(configuration.get("quantization.method"))
        own_text = configuration.get("quantization.corpus") == "self"
        return self._build_s(QUANTIZATION_S, method) + (SELF_CORPUS_S if own_text else 0.0)

    def pruning_s(self, configuration: Configuration) -> float:
        """Expected seconds to rank layers and take them out as the configuration says."""
        criterion = str(configuration.get("pruning.criterion", "block_influence"))
        layers = configuration.get("pruning.layers_removed")
        times = layers if criterion == GREEDY and isinstance(layers, int) else 1
        return self._build_s(PRUNING_S, criterion) * times

    def _build_s(self, packaged_s: Mapping[str, float], method: str) -> float:
        if self.made_up:
            return 0.0
        measured = self.built_s.get(method)
        if measured is not None:
            return measured
        return packaged_s.get(method, BUILD_UNKNOWN_S) + BUILD_A_BILLION_S.get(method, 0.0) * self.billions


REFERENCE_PRIORS = CostPriors()
"""Those of the packaged model on two cores."""
