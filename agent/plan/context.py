"""A campaign whose sequences are as long as a context asks for. Pure."""

from __future__ import annotations

from agent.ground.positions import TooLong
from configs.campaign import CampaignSpec
from configs.errors import UsageError

ONE_MORE = 1
"""Tokens of a context that an engine wants beyond those of a sequence."""


def with_context(spec: CampaignSpec, tokens: int) -> CampaignSpec:
    """The campaign with prompts as long as a context of `tokens` serves, beside the longest answer and the
    one token more that `serving.max_model_len` has to have.

    Raises `UsageError` where that leaves no room for a prompt.
    """
    workload = spec.plan.workload
    answer = max(workload.new_tokens, workload.drafting_new_tokens)
    prompt = tokens - answer - ONE_MORE
    if prompt < 1:
        raise UsageError(
            f"--context {tokens} leaves no room for a prompt: answers have up to {answer} tokens.",
            f"Give {answer + ONE_MORE + 1} at least, or leave it out.",
        )
    asked = workload.model_copy(update={"prompt_tokens": prompt})
    return spec.model_copy(update={"plan": spec.plan.model_copy(update={"workload": asked})})


def context_refused(tokens: int, refused: TooLong) -> UsageError:
    """The refusal of a workload that `--context` made as long as it is, in the words of that option; the
    refusal itself where a shorter context would not do."""
    if tokens <= refused.most:
        return refused
    return UsageError(
        f"--context {tokens} is more than is served: {refused.limit}.",
        f"Give --context {refused.most} at most{refused.instead or '.'}",
    )
