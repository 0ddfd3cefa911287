"""Joins the experts of a checkpoint that stores each in tensors of its own, as transformers' model has them:
all of a layer in one tensor. Imports torch."""

from __future__ import annotations

import re
from collections import defaultdict

import torch
from torch import Tensor

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import OF_ONE_MODEL

PROJECTIONS = GATE, UP, DOWN = ("gate_proj", "up_proj", "down_proj")

_OF_ONE_EXPERT = re.compile(rf"(.*\.mlp\.experts\.)(\d+)\.({'|'.join(PROJECTIONS)})\.weight")


def join_experts(state: dict[str, Tensor], count: int) -> None:
    """Put the tensors of each layer's `count` experts together, by their names in the text model.

    Raises:
        Infeasible: kind `checkpoint`, for experts of a layer that are not all there, are more than `count` or
        differ in their shapes.
    """
    layers: defaultdict[str, dict[tuple[int, str], str]] = defaultdict(dict)
    for name in state:
        found = _OF_ONE_EXPERT.fullmatch(name)
        if found is not None:
            layers[found[1]][int(found[2]), found[3]] = name
    whole = {(number, projection) for number in range(count) for projection in PROJECTIONS}
    for prefix, names in layers.items():
        if wrong := sorted(names.keys() ^ whole):
            (number, projection), which = wrong[0], "is missing" if wrong[0] in whole else "is one too many"
            raise Infeasible(
                "checkpoint",
                f"{prefix}{number}.{projection}.weight {which}, where config.json tells of {count} experts: "
                f"{OF_ONE_MODEL}.",
            )
        each = range(count)
        try:  # what was joined is let go at once, for a layer's experts may be gigabytes
            joined = [torch.cat([state.pop(names[number, part]) for part in (GATE, UP)]) for number in each]
            state[f"{prefix}gate_up_proj"] = torch.stack(joined)
            state[f"{prefix}down_proj"] = torch.stack([state.pop(names[number, DOWN]) for number in each])
        except RuntimeError as cause:
            sentence = " ".join(str(cause).split())
            raise Infeasible("checkpoint", f"{prefix}* differ in their shapes: {sentence}.") from None
