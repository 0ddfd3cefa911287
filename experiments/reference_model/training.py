"""The training loop of the reference model: trunk and MTP head in one pass over random windows."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from experiments.reference_model.checkpoint import ReferenceNetwork
from experiments.reference_model.optimizer import LearningRates, MuonAdamW
from experiments.reference_model.token_stream import TokenPool, TrainingData

WARMUP_SHARE = 0.01
"""Share of the run in which the learning rate rises from zero."""

COOLDOWN_SHARE = 0.45
"""Share of the run, at its end, in which the learning rate falls to zero (warm-up, stable, decay: arXiv
2405.18392)."""

LATE_SHARE = 0.6
"""After this share of the run the mix turns towards what is evaluated."""

REPORT_EVERY_STEPS = 50
"""Steps between two reports of progress."""

RECOMPILE_LIMIT = 64
"""Layers share their code, and each may need its own compilation; PyTorch's 8 would leave some uncompiled."""

LOGIT_ROWS = 16
"""Sequences whose logits stand in memory at once on a GPU: 16 × 1,152 × 4,096 in float32 are 0.3 GB."""


@dataclass(frozen=True)
class Mix:
    """Shares of a batch: standard library, installed packages, instruction items."""

    library: float
    packages: float
    instructions: float


EARLY_MIX = Mix(library=0.10, packages=0.85, instructions=0.05)
"""Mostly other people's code: it is the breadth of the data that keeps a small text from being learnt by
heart."""

LATE_MIX = Mix(library=0.20, packages=0.60, instructions=0.20)
"""Towards the end, what the model will be asked."""


@dataclass(frozen=True)
class TrainingPlan:
    """How long and how wide to train; exactly one of `steps` and `minutes` is given.

    `rows × length` tokens make a batch; the MTP head is trained on `mtp_rows` of the rows.
    """

    rows: int
    length: int
    mtp_rows: int
    steps: int | None = None
    minutes: float | None = None
    compiled: bool = True
    rates: LearningRates = field(default_factory=LearningRates)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("give either steps or minutes")
        if not 1 <= self.mtp_rows <= self.rows:
            raise ValueError(f"mtp_rows is {self.mtp_rows}; it must be between 1 and rows, {self.rows}")


@dataclass(frozen=True)
class Progress:
    """A point of the run: losses in nats per token (`mtp_loss` is a cross-entropy against the trunk)."""

    step: int
    share_done: float
    tokens: int
    elapsed_s: float
    loss: float
    mtp_loss: float


def learning_rate_factor(share_done: float) -> float:
    """Return the factor on the peak learning rates when this share of the run is done."""
    rising = min(1.0, share_done / WARMUP_SHARE) if WARMUP_SHARE else 1.0
    falling = min(1.0, (1.0 - share_done) / COOLDOWN_SHARE)
    return max(0.0, min(rising, falling))


def token_loss(hidden: Tensor, embedding: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of the cross-entropies of the targets, in nats."""
    logits = (hidden @ embedding.type_as(hidden).T).float()
    losses = functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum()


def draft_loss(hidden: Tensor, embedding: Tensor, trunk_hidden: Tensor) -> Tensor:
    """Return the sum of the cross-entropies of the head's distribution against the trunk's, in nats.

    Drafts are accepted where the head names what the trunk would say, so the trunk is the teacher, not the
    text.
    """
    table = embedding.type_as(hidden).T
    with torch.no_grad():
        teacher = (trunk_hidden @ table).float().softmax(-1)
    return -(teacher * (hidden @ table).float().log_softmax(-1)).sum()


def train_network(
    network: ReferenceNetwork,
    data: TrainingData,
    plan: TrainingPlan,
    *,
    seed: int,
    report: Callable[[Progress], None],
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Train in place and return the last progress; the network's device decides where."""
    device = next(network.parameters()).device
    data = data.to(device)
    generator = torch.Generator(device).manual_seed(seed)
    optimizer = MuonAdamW(network, plan.rates)
    step_losses = _StepLosses(network, plan)
    step, loss, mtp_loss = 0, torch.zeros(()), torch.zeros(())
    began = clock()
    for step, share_done in _shares(plan, began, clock):
        ids, weights = draw_batch(data, plan, EARLY_MIX if share_done < LATE_SHARE else LATE_MIX, generator)
        loss, mtp_loss = step_losses(ids, weights)
        optimizer.step(learning_rate_factor(share_done))
        if step % REPORT_EVERY_STEPS == 0:
            report(_progress(plan, step, share_done, clock() - began, loss, mtp_loss))
    last = _progress(plan, step, 1.0, clock() - began, loss, mtp_loss)
    report(last)
    return last


def _progress(
    plan: TrainingPlan, step: int, share_done: float, elapsed_s: float, loss: Tensor, mtp_loss: Tensor
) -> Progress:
    """Read the losses off the device."""
    tokens = step * plan.rows * plan.length
    return Progress(step, share_done, tokens, elapsed_s, loss.item(), mtp_loss.item())


def _shares(plan: TrainingPlan, began: float, clock: Callable[[], float]) -> Iterator[tuple[int, float]]:
    """Yield step numbers from 1 and the share of the run done before each, until the plan is fulfilled."""
    step = 0
    while True:
        if plan.steps is not None:
            share_done = step / plan.steps
        else:
            assert plan.minutes is not None
            share_done = (clock() - began) / (60.0 * plan.minutes)
        if share_done >= 1.0:
            return
        step += 1
        yield step, share_done


def draw_batch(
    data: TrainingData, plan: TrainingPlan, mix: Mix, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw a batch by the mix, the sources interleaved so that the MTP head's rows see all of them."""
    sources: list[tuple[TokenPool, float]] = [
        (data.library, mix.library),
        (data.instructions, mix.instructions),
    ]
    if data.packages is not None:
        sources.append((data.packages, mix.packages))
    total = sum(share for _, share in sources)
    drawn = []
    left = plan.rows
    for index, (pool, share) in enumerate(sources):
        rows = left if index == len(sources) - 1 else min(left, round(plan.rows * share / total))
        left -= rows
        if rows:
            drawn.append(pool.windows(rows, plan.length, generator))
    order = torch.randperm(plan.rows, generator=generator, device=generator.device)
    return torch.cat([ids for ids, _ in drawn])[order], torch.cat([weights for _, weights in drawn])[order]


class _StepLosses:
    """Computes a batch's losses and their gradients; compiles the layers once where the plan says so."""

    def __init__(self, network: ReferenceNetwork, plan: TrainingPlan) -> None:
        self.network = network
        self.mtp_rows = plan.mtp_rows
        self.token_loss: Callable[..., Tensor] = token_loss
        self.draft_loss: Callable[..., Tensor] = draft_loss
        self.device_type = next(network.parameters()).device.type
        if plan.compiled:
            torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
            for layer in [*network.model.layers, *network.mtp.layers]:
                layer.compile(dynamic=False)
            self.token_loss = torch.compile(token_loss, dynamic=False)
            self.draft_loss = torch.compile(draft_loss, dynamic=False)

    def __call__(self, ids: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Leave gradients in the network; return the trunk's and the head's mean loss, detached."""
        network, embedding = self.network, self.network.model.embed_tokens.weight
        inputs, targets = ids[:, :-1], ids[:, 1:]
        with torch.autocast(self.device_type, torch.bfloat16, enabled=self.device_type == "cuda"):
            hidden = network.model(inputs)
            total = hidden.new_zeros((), dtype=torch.float32)
            for first in range(0, len(ids), LOGIT_ROWS):
                rows = slice(first, first + LOGIT_ROWS)
                total = total + self.token_loss(hidden[rows], embedding, targets[rows], weights[rows])
            loss = total / weights.sum()
            few = slice(0, self.mtp_rows)
            trunk_hidden = hidden[few].detach()
            following = functional.embedding(targets[few], embedding.detach())
            drafts = network.mtp(trunk_hidden, following)
            draft_total = hidden.new_zeros((), dtype=torch.float32)
            for first in range(0, self.mtp_rows, LOGIT_ROWS):
                rows = slice(first, min(first + LOGIT_ROWS, self.mtp_rows))
                draft_total = draft_total + self.draft_loss(
                    drafts[rows, :-1], embedding.detach(), trunk_hidden[rows, 1:]
                )
            mtp_loss = draft_total / (drafts.shape[0] * (drafts.shape[1] - 1))
        (loss + mtp_loss).backward()
        return loss.detach(), mtp_loss.detach()
