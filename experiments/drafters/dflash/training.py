"""The training loop of a drafter: random anchors in texts, the target frozen beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.drafters.dflash.blocks import draft_loss, read_target
from experiments.drafters.dflash.network import DFlashNetwork
from experiments.drafters.dflash.self_text import draw_windows
from experiments.reference_model.optimizer import LearningRates, MuonAdamW
from experiments.reference_model.token_stream import TokenPool
from experiments.reference_model.training import learning_rate_factor

REPORT_EVERY_STEPS = 50
"""Steps between two reports of progress."""

LOGITS_MAX = 2**27
"""Logits of one step, masks × vocabulary: 0.5 GB in float32. Where it would be more, anchors are fewer."""


@dataclass(frozen=True)
class TrainingPlan:
    """`rows` texts of `length` tokens a step, `anchors` blocks in each, for `steps` steps."""

    rows: int
    length: int
    anchors: int
    steps: int
    rates: LearningRates = field(default_factory=LearningRates)


@dataclass(frozen=True)
class Progress:
    """A point of the run: the loss in nats, and the share of first drafts that are what the target says."""

    step: int
    steps: int
    elapsed_s: float
    loss: float
    first_right: float


def anchors_per_row(plan: TrainingPlan, block_tokens: int, vocabulary: int) -> int:
    """Return how many blocks a text gets: the plan's number, fewer where the logits would not fit."""
    most = LOGITS_MAX // (plan.rows * (block_tokens - 1) * vocabulary)
    return max(1, min(plan.anchors, most))


def draw_anchors(rows: int, length: int, count: int, block_tokens: int, generator: torch.Generator) -> Tensor:
    """Draw anchors (rows, count): context before each, and a whole block of text from it on."""
    return torch.randint(
        1, length - block_tokens + 1, (rows, count), generator=generator, device=generator.device
    )


def train_network(
    network: DFlashNetwork,
    target: Qwen3_5ForCausalLM,
    sources: Sequence[tuple[TokenPool, float]],
    plan: TrainingPlan,
    generator: torch.Generator,
    report: Callable[[Progress], None],
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Train in place, on the target's device, and return the last progress.

    Args:
        sources: texts with their shares, on the target's device.
        generator: draws texts and anchors; on the target's device.

    Raises:
        ValueError: `plan.length` is too short for a block with a token before it.
    """
    device, shape = target.device, network.shape
    if plan.length <= shape.block_tokens:
        raise ValueError(f"length is {plan.length}; a block of {shape.block_tokens} needs more")
    optimizer = MuonAdamW(network, plan.rates)
    count = anchors_per_row(plan, shape.block_tokens, shape.vocabulary)
    last = Progress(0, plan.steps, 0.0, float("nan"), 0.0)
    began = clock()
    for step in range(1, plan.steps + 1):
        ids = draw_windows(sources, plan.rows, plan.length - 1, generator)
        anchors = draw_anchors(plan.rows, plan.length, count, shape.block_tokens, generator)
        reading = read_target(target, shape.target_layer_ids, ids)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss, first_right = draft_loss(network, target, reading, ids, anchors)
        torch.autograd.backward(loss)
        optimizer.step(learning_rate_factor((step - 1) / plan.steps))
        if step % REPORT_EVERY_STEPS == 0 or step == plan.steps:
            last = Progress(step, plan.steps, clock() - began, loss.item(), first_right.item())
            report(last)
    return last
