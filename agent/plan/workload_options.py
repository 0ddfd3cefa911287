"""The options of `autoinfer plan` that change a campaign's workload. Pure."""

from __future__ import annotations

from agent.ground.positions import TooLong, TooMuch
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


def in_options(refused: TooMuch, context: int | None, concurrency: int | None) -> UsageError:
    """The refusal of a workload in the words of the option that asked for it (None: not given); the refusal
    itself where it was the campaign's file."""
    option, asked = ("--context", context) if isinstance(refused, TooLong) else ("--concurrency", concurrency)
    if asked is None or asked <= refused.most:
        return refused
    return UsageError(
        f"{option} {asked} is more than is served: {refused.limit}.",
        f"Give {option} {refused.most} at most{refused.instead or '.'}",
    )
