"""Is drafting lossless? Each text made with a draft is read back without one, teacher-forced.

First by one prefill of the whole text. Where every token leads the others by more than rounding could ever
move (`DOUBT_LOGITS`), the text is settled: it is the greedy one of any step. The other texts are read step by
step.

Verifying k + 1 tokens multiplies matrices of other shapes than decoding one, so logits differ in their last
bits, and where two tokens are nearly tied the greedy choice may turn without any fault. How much is
normal is measured here without any draft: the same text is read by steps of one token and by steps of k + 1,
and the largest change of the gap between the two highest logits, over all texts of the check, is what counts
as a near-tie, up to a limit by dtype, so that no fault of that step excuses itself. A token that falls short
of the highest logit by more than that is a divergence.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass

import torch
from torch import Tensor

from experiments.engines.port import DraftingCheck, GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.acceptance import acceptance_length, head_seems_dropped
from experiments.engines.reference.drafting.speculation import Speculation

NEAR_TIE_LOGITS_MAX = {torch.float32: 1e-2, torch.bfloat16: 0.5}
"""Largest gap in logits that ever counts as a near-tie, by the dtype of the weights. Measured on the
reference model, on a CPU, the gap changes by at most 3e-5 in float32 and by nothing in bfloat16: float32 has
a margin of 300, for larger models and other kernels. Half a logit is four units in the last place of a
bfloat16 between 16 and 32."""

DOUBT_LOGITS = {torch.float32: 3e-3, torch.bfloat16: 0.5}
"""The lead in a prefill, by the dtype of the weights, from which no step would choose another token. Between
a prefill and steps of one token the lead of 1,512 tokens of the reference model changes, on a CPU, by at most
4e-5 in float32 and 0.38 in bfloat16; in float32 four of them lead by less than this, in bfloat16 every
sixth."""

FLIPS_SHARE_MAX = {torch.float32: 0.01, torch.bfloat16: 0.1}
"""Largest share of tokens that reading k + 1 at once may turn, by dtype; a single one is never too many. On
the reference model, on a CPU, none of 1,512 tokens turns in float32 (`tests/benchmarks/test_drafting.py`),
where one in a hundred is a fault; in bfloat16 texts with many near-ties may turn more. A step that computes
something else turns nearly all, and would, as a measure of near-ties, excuse every fault."""

FLIPS_POSITIONS_MIN = 20
"""Positions from which that share is judged."""


@dataclass(frozen=True)
class _Read:
    """A text read back: which tokens are not the greedy ones without drafting, how far each falls short of
    the highest logit, and what reading k + 1 tokens at once changes. Each `[tokens − 1]`."""

    other: Tensor
    shortfalls: Tensor
    gap_changes: Tensor
    flipped: Tensor


def check_drafting(speculation: Speculation, requests: Items[GenerationRequest]) -> list[DraftingCheck]:
    """As `Launch.check_drafting`.

    Raises:
        Infeasible: kind `illegal` when an MTP head's drafts hardly ever stand; kind `crashed` when the step
        of k + 1 tokens computes something else than the step of one.
    """
    traces = [speculation.generate(request) for request in requests]
    _refuse_dropped_head(speculation, [tokens for trace in traces for tokens in trace.step_tokens])
    with torch.inference_mode():
        reads = [
            _settled(speculation.decoder, *pair) or _read_back(speculation, *pair)
            for pair in zip(requests, traces, strict=True)
        ]
    changes = torch.cat([read.gap_changes for read in reads])
    dtype = speculation.decoder.model.dtype
    _refuse_other_step(torch.cat([read.flipped for read in reads]), changes, FLIPS_SHARE_MAX[dtype])
    near_tie = min(float(changes.max()), NEAR_TIE_LOGITS_MAX[dtype]) if len(changes) else 0.0
    return [
        DraftingCheck(
            item=request.item,
            step_tokens=trace.step_tokens,
            positions=len(read.shortfalls),
            divergences=int((read.other & (read.shortfalls > near_tie)).sum()),
            near_ties=int((read.other & (read.shortfalls <= near_tie)).sum()),
            near_tie_logits=near_tie,
            flips_without_draft=int(read.flipped.sum()),
        )
        for request, trace, read in zip(requests, traces, reads, strict=True)
    ]


def _settled(decoder: Decoder, request: GenerationRequest, trace: GenerationTrace) -> _Read | None:
    """The read of a text of which one prefill leaves no doubt that it is the greedy one; None where it
    does."""
    ids = torch.tensor([[*request.prompt_ids, *trace.token_ids[:-1]]], device=decoder.model.device)
    hidden = decoder.model.model(ids).last_hidden_state[0, len(request.prompt_ids) :]
    top, best = decoder.model.lm_head(hidden).float().topk(2, dim=-1)
    said = torch.tensor(trace.token_ids[1:], device=best.device)
    led = (best[:, 0] == said) & (top[:, 0] - top[:, 1] > DOUBT_LOGITS[decoder.model.dtype])
    if not bool(led.all()):
        return None
    nothing = torch.zeros_like(top[:, 0])
    return _Read(nothing.bool(), nothing, nothing, nothing.bool())


def _read_back(speculation: Speculation, request: GenerationRequest, trace: GenerationTrace) -> _Read:
    decoder, count = speculation.decoder, speculation.order.draft_tokens + 1
    decoder.prepare(len(request.prompt_ids) + request.new_tokens)
    alone = read_by(decoder, request.prompt_ids, trace.token_ids[:-1], 1)
    together = read_by(decoder, request.prompt_ids, trace.token_ids[:-1], count)
    said = torch.tensor(trace.token_ids[1:], device=alone.device)
    best = alone.argmax(-1)  # of equal logits the first, as in a step; topk may take the other
    top, ids = alone.topk(2, dim=-1)
    there = together.gather(-1, ids)
    return _Read(
        other=said != best,
        shortfalls=top[:, 0] - alone.gather(-1, said[:, None])[:, 0],
        gap_changes=((top[:, 0] - top[:, 1]) - (there[:, 0] - there[:, 1])).abs(),
        flipped=together.argmax(-1) != best,
    )


def read_by(decoder: Decoder, prompt_ids: Items[int], tokens: Items[int], count: int) -> Tensor:
    """Float32 logits `[tokens, vocabulary]` after each token of a text that follows a prompt, read `count`
    at a time; the last step is filled up with token 0."""
    sequence = decoder.begin(prompt_ids).sequence
    rows = []
    for first in range(0, len(tokens), count):
        chunk = list(tokens[first : first + count])
        logits = sequence.run(chunk + [0] * (count - len(chunk)))[1]
        rows.append(logits[: len(chunk)].float())
        sequence.keep(count)
    return torch.cat(rows)


def _refuse_dropped_head(speculation: Speculation, step_tokens: Items[int]) -> None:
    if speculation.order.method == "mtp" and head_seems_dropped(step_tokens):
        raise Infeasible(
            "illegal",
            f"The MTP head's drafts hardly ever stand: the acceptance length is "
            f"{acceptance_length(step_tokens):.2f} over {len(step_tokens)} steps, so its weights were "
            "dropped or are those of another model; take a checkpoint with its own head.",
        )


def _refuse_other_step(flipped: Tensor, changes: Tensor, share_max: float) -> None:
    if not bool(changes.isfinite().all()):
        raise Infeasible("crashed", "The step that verifies drafts gives logits that are not finite.")
    flips = int(flipped.sum())
    if len(flipped) >= FLIPS_POSITIONS_MIN and flips > max(share_max * len(flipped), 1):
        raise Infeasible(
            "crashed",
            f"The step that verifies drafts computes something else than the step of one token: without any "
            f"draft it chooses another token at {flips} of {len(flipped)} positions of the same text.",
        )
