"""Which checkpoints are worth building before anything is tested."""

from agent.campaign.builds_ahead import Wanted, wanted
from agent.campaign.known.weights import weights_of
from experiments.space.configuration import Configuration


def configuration(**knobs: object) -> Configuration:
    return Configuration.of({name.replace("__", "."): value for name, value in knobs.items()})


OWN = configuration(serving__dtype="bfloat16", quantization__method="none", pruning__method="none")
COARSE = configuration(quantization__method="awq", quantization__group_size=128)
FINE = configuration(quantization__method="awq", quantization__group_size=32)
PRUNED = configuration(pruning__method="depth", pruning__layers_removed=1)


def test_each_checkpoint_is_wanted_once_for_the_first_that_loads_it() -> None:
    eager = Configuration.of({**COARSE, "serving.graph_mode": "none"})
    found = wanted([("a", (COARSE, FINE)), ("b", (eager, PRUNED)), ("c", (FINE, OWN))], [OWN])
    assert found == (Wanted(COARSE, "a"), Wanted(FINE, "a"), Wanted(PRUNED, "b"))


def test_what_the_baseline_loads_is_built_by_the_baseline() -> None:
    assert wanted([("a", (COARSE, FINE))], [COARSE]) == (Wanted(FINE, "a"),)


def test_only_what_changes_weights_makes_a_checkpoint() -> None:
    drafts = configuration(drafting__method="mtp", serving__dtype="float16", quantization__method="none")
    assert weights_of(OWN) == weights_of(drafts) == weights_of(None) == frozenset()
    assert weights_of(COARSE) != weights_of(FINE)
