"""Which of transformers' ways computes the experts of a Mixture of Experts. Imports torch.

transformers has several and takes one by a name in the model's configuration. A prefill, and a step that is
not compiled, has `grouped_mm`: rows are sorted by expert, and each expert multiplied with those it has. A
compiled step has `batched_mm`: each row is multiplied with its own experts. As it is that copies their
weights first; Inductor, for a processor, takes the copy into the product, so that they are read once.

Processor time of a layer's experts on one thread, milliseconds, of one row and of four: 8 of 256 experts that
are 2,048 × 512 wide, in bfloat16, and 4 of 32 that are 256 × 128 wide, in float32 (torch 2.13, transformers
5.24, 2026-11-30, an AMD EPYC beside other work, so that a tenth more or less says nothing; timed by hand, and
no command repeats it):

| | 8 of 256, one row | four | 4 of 32, one row | four |
|---|---|---|---|---|
| `eager` | 11.8 | 47 | 0.98 | 4.1 |
| `grouped_mm` | 12.2 | 38 | 0.79 | 2.1 |
| `batched_mm` | 44 | 329 | 1.14 | 5.7 |
| `grouped_mm`, compiled | 13.8 | 37 | 0.41 | 1.72 |
| `batched_mm`, compiled | 9.0 | 34 | 0.27 | 0.35 |

On a GPU nothing of it was measured.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

BY_ROWS = "autoinfer"
"""The name by which a model's configuration asks for `routed`."""


def routed(experts: nn.Module, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """What a layer's experts give for rows `[rows, hidden]`, of which each goes through those of `chosen`
    `[rows, experts for a token]`, summed up by their `weights`."""
    way = "batched_mm" if torch.compiler.is_compiling() else "grouped_mm"
    found: Tensor = ALL_EXPERTS_FUNCTIONS[way](experts, hidden, chosen, weights)
    return found


ALL_EXPERTS_FUNCTIONS.register(BY_ROWS, routed)
