"""Which checkpoint a configuration loads: what of it makes weights. Pure."""

from __future__ import annotations

from experiments.space.configuration import Configuration, KnobValue

PRUNING, QUANTIZATION = "pruning.", "quantization."
"""What the names of the knobs begin with that make a checkpoint."""

Weights = frozenset[tuple[str, KnobValue]]


def weights_of(configuration: Configuration | None) -> Weights:
    """What of a configuration makes its checkpoint; empty for the model's own."""
    knobs = {} if configuration is None else dict(configuration)
    kinds = (PRUNING, QUANTIZATION)
    if all(knobs.get(f"{each}method", "none") == "none" for each in kinds):
        return frozenset()
    return frozenset((name, value) for name, value in knobs.items() if name.startswith(kinds))
