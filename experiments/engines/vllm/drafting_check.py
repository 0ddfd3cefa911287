"""Is vLLM's drafting lossless? Each text made with a draft is read back without one. In the driver.

The texts come from the process that is timed. Where that schedules steps ahead its drafts can't be replaced,
so a second one that does not, and is otherwise the same, reads them. They are read twice, by teacher forcing:
by steps of one token with nothing drafted, and by steps of k + 1 tokens where the text itself is the draft.
The first says what the greedy choice is without drafting; the largest change of the gap of the two best
logits between both is what counts as a near-tie, up to a limit by dtype. A token that falls short of the best
by more than that is a divergence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from experiments.engines.port import DraftingCheck, GenerationRequest, GenerationTrace, Infeasible
from experiments.engines.reference.drafting.acceptance import acceptance_length, head_seems_dropped
from experiments.engines.vllm.tap import DRAFT_NOTHING, DRAFT_TEXT

if TYPE_CHECKING:
    from experiments.engines.vllm.loaded_engine import LoadedEngine

NEAR_TIE_LOGITS_MAX: Mapping[str, float] = {"float32": 1e-2, "float16": 0.1, "bfloat16": 0.5}
"""Largest gap in logits that ever counts as a near-tie: those of the reference engine, and between them that
of float16 with its three more bits than bfloat16."""

FLIPS_SHARE_MAX: Mapping[str, float] = {"float32": 0.01, "float16": 0.1, "bfloat16": 0.1}
"""Largest share of tokens that reading k + 1 at once may turn; a step that computes something else turns
nearly all."""

FLIPS_POSITIONS_MIN = 20
"""Positions from which that share is judged."""

Reading = Mapping[str, Sequence[Any]]


async def draft_texts(engine: LoadedEngine, requests: Sequence[GenerationRequest]) -> list[GenerationTrace]:
    """The texts that drafting gives, to be read back.

    Raises:
        Infeasible: kind `illegal` when nothing is drafted, or an MTP head's drafts hardly ever stand; kind
        `crashed` when vLLM counts other drafts than the steps show.
    """
    if engine.order.drafting_method == "none":
        raise Infeasible("illegal", "The configuration drafts nothing, so there is no check.")
    before = engine.accepted_per_position()
    traces = [await engine.generate(request) for request in requests]
    after = engine.accepted_per_position()
    counted = [now - then for now, then in zip_longest(after, before, fillvalue=0)]
    check_counters([trace.step_tokens for trace in traces], counted, engine.order.draft_tokens)
    _refuse_dropped_head(engine, [tokens for trace in traces for tokens in trace.step_tokens])
    return traces


async def check_drafting(
    engine: LoadedEngine, requests: Sequence[GenerationRequest], traces: Sequence[GenerationTrace]
) -> list[DraftingCheck]:
    """The checks of texts that drafting gave; the driver must be one whose drafts can be replaced.

    Raises:
        Infeasible: kind `crashed`, when the step of k + 1 tokens computes something else than the step of
        one.
    """
    readings = [await _read_back(engine, *pair) for pair in zip(requests, traces, strict=True)]
    return judged(requests, traces, readings, str(engine.order.arguments["dtype"]))


def check_counters(steps: Sequence[Sequence[int]], counted: Sequence[int], draft_tokens: int) -> None:
    """Whether the steps that were told of each request are those that vLLM counts: were two of them taken for
    one, its tokens would look like drafts that stood. Pure.

    `counted` are the drafts that vLLM's own metrics say stood, by position, over all the requests; nothing
    where it has no such metric. A request goes on for at most k tokens after its text, and its last step may
    not be counted yet: up to 2 k drafts a request may be apart.

    Raises:
        Infeasible: kind `crashed`, when more are.
    """
    if not counted:
        return
    told = sum(tokens - 1 for each in steps for tokens in each)
    if abs(sum(counted) - told) > 2 * draft_tokens * len(steps):
        raise Infeasible(
            "crashed",
            f"vLLM counts {sum(counted)} drafts that stood where the steps of {len(steps)} requests show "
            f"{told}, so that the acceptance can't be told.",
        )


async def _read_back(engine: LoadedEngine, request: GenerationRequest, trace: GenerationTrace) -> Reading:
    """The text's tokens after its first, read both ways."""
    text, drafts = [*request.prompt_ids, *trace.token_ids], engine.order.draft_tokens
    first = len(request.prompt_ids) + 1  # the prefill chooses the token before
    for drafted in (DRAFT_NOTHING, DRAFT_TEXT):
        await engine.call("autoinfer_read_along", text, drafted, drafts)
        await engine.say(request.prompt_ids, request.new_tokens)
        await engine.call("autoinfer_keep_read", first, len(text))
    told: Reading = await engine.call("autoinfer_compare_readings", list(trace.token_ids[1:]))
    return told


def judged(
    requests: Sequence[GenerationRequest],
    traces: Sequence[GenerationTrace],
    readings: Sequence[Reading],
    dtype: str,
) -> list[DraftingCheck]:
    """The checks of texts from both readings of each. Pure; raises as `check_drafting`."""
    changes = [change for reading in readings for change in reading["gap_changes"]]
    flipped = sum(sum(reading["flipped"]) for reading in readings)
    if not all(abs(change) < float("inf") for change in changes):
        raise Infeasible("crashed", "The step that verifies drafts gives logits that are not finite.")
    if len(changes) >= FLIPS_POSITIONS_MIN and flipped > max(FLIPS_SHARE_MAX[dtype] * len(changes), 1):
        raise Infeasible(
            "crashed",
            f"The step that verifies drafts computes something else than the step of one token: without any "
            f"draft it chooses another token at {flipped} of {len(changes)} positions of the same text.",
        )
    near_tie = min(max(changes, default=0.0), NEAR_TIE_LOGITS_MAX[dtype])
    checks = []
    for request, trace, reading in zip(requests, traces, readings, strict=True):
        short = [
            shortfall
            for other, shortfall in zip(reading["other"], reading["shortfalls"], strict=True)
            if other
        ]
        checks.append(
            DraftingCheck(
                item=request.item,
                step_tokens=trace.step_tokens,
                positions=len(reading["other"]),
                divergences=sum(shortfall > near_tie for shortfall in short),
                near_ties=sum(shortfall <= near_tie for shortfall in short),
                near_tie_logits=near_tie,
                flips_without_draft=sum(reading["flipped"]),
            )
        )
    return checks


def _refuse_dropped_head(engine: LoadedEngine, step_tokens: Sequence[int]) -> None:
    if engine.order.drafting_method == "mtp" and head_seems_dropped(step_tokens):
        raise Infeasible(
            "illegal",
            f"The MTP head's drafts hardly ever stand: the acceptance length is "
            f"{acceptance_length(step_tokens):.2f} over {len(step_tokens)} steps, so its weights were "
            "dropped or are those of another model; take a checkpoint with its own head.",
        )
