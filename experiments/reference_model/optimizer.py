"""The optimizer of the recipe: Muon for the matrices inside the layers, AdamW for everything else.

Muon (K. Jordan, "Muon: an optimizer for hidden layers in neural networks", 2024) replaces each matrix's
momentum by its nearest semi-orthogonal matrix, found by five Newton-Schulz steps in bfloat16. Matrices of one
shape are stepped together in a batch: a small model has many small matrices, and one launch each would cost
more than the arithmetic.
"""

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The quintic of the Muon post: its slope at zero is as steep as convergence to about [0.7, 1.2] allows."""

NEWTON_SCHULZ_STEPS = 5
"""Steps of the quintic, as in the Muon post."""

MUON_MOMENTUM = 0.95
"""Nesterov momentum, as in the Muon post."""

ADAM_BETAS = (0.9, 0.95)
"""Usual for language models since GPT-3 (arXiv 2005.14165, appendix B)."""

MUON_MIN_ROWS = 16
"""Matrices with fewer rows (the gates `in_proj_a`, `in_proj_b`) are vectors in all but name and go to
AdamW."""


@dataclass(frozen=True)
class LearningRates:
    """Peak learning rates and decay: Muon's is per unit of spectral norm, AdamW's the usual."""

    muon: float = 0.02
    adam: float = 0.003
    weight_decay: float = 0.1


def orthogonalised(momenta: Tensor) -> Tensor:
    """Return the nearly semi-orthogonal factors of a batch of matrices (batch, rows, columns)."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    matrices = momenta.bfloat16()
    tall = matrices.shape[-2] > matrices.shape[-1]
    if tall:
        matrices = matrices.mT
    matrices = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = matrices @ matrices.mT
        matrices = a * matrices + (b * gram + c * gram @ gram) @ matrices
    upright: Tensor = matrices.mT if tall else matrices
    return upright.to(momenta.dtype)


class MuonAdamW:
    """Steps all parameters of a network; the caller gives the schedule's factor at each step."""

    def __init__(self, network: nn.Module, rates: LearningRates) -> None:
        self.rates = rates
        groups: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
        others = []
        for name, parameter in network.named_parameters():
            if parameter.ndim == 2 and parameter.shape[0] >= MUON_MIN_ROWS and "embed_tokens" not in name:
                groups[tuple(parameter.shape)].append(parameter)
            else:
                others.append(parameter)
        self.groups = list(groups.values())
        self.momenta = [
            torch.zeros(len(group), *group[0].shape, device=group[0].device) for group in self.groups
        ]
        fused = others[0].is_cuda
        self.adam = torch.optim.AdamW(others, lr=rates.adam, betas=ADAM_BETAS, weight_decay=0.0, fused=fused)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Update every parameter with the peak learning rates times `factor`, and forget the gradients."""
        for group, momentum in zip(self.groups, self.momenta, strict=True):
            gradients = torch.stack([_gradient(parameter) for parameter in group])
            momentum.lerp_(gradients, 1 - MUON_MOMENTUM)
            updates = orthogonalised(gradients.lerp_(momentum, MUON_MOMENTUM))
            rows, columns = group[0].shape
            rate = self.rates.muon * factor
            torch._foreach_mul_(group, 1 - rate * self.rates.weight_decay)
            torch._foreach_add_(group, list(updates.unbind()), alpha=-rate * max(1.0, rows / columns) ** 0.5)
            for parameter in group:
                parameter.grad = None
        for settings in self.adam.param_groups:
            settings["lr"] = self.rates.adam * factor
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)


def _gradient(parameter: Tensor) -> Tensor:
    """Return the parameter's gradient, zero where the step did not reach it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
