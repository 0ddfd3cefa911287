"""The options of `autoinfer run` and `autoinfer plan` that change a campaign's workload. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.ground.positions import TooLong, TooMuch
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.option_names import OPTIONS, option_of
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration
from experiments.space.workload_rules import unserved

CONCURRENCY = "plan.workload.concurrency"

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


def of_workload(
    concurrency: int | None, prompt_tokens: int | None, new_tokens: int | None
) -> dict[str, int | None]:
    """What the options ask for, by the fields of a campaign's file; None for one that was not given."""
    return {
        CONCURRENCY: concurrency,
        "plan.workload.prompt_tokens": prompt_tokens,
        "plan.workload.new_tokens": new_tokens,
    }


def check_questions_served(spec: CampaignSpec, given: Mapping[str, int | None]) -> None:
    """Raise `UsageError` where an arm of a question does not serve what the options that are `given` ask
    for: the file asks it of a workload that it serves."""
    options = " and ".join(option_of(field) for field, value in given.items() if value is not None)
    if not options:
        return
    asked = Workload.model_validate(spec.plan.workload.model_dump())
    for each in spec.questions:
        for arm, knobs in (("control", each.control), ("candidate", each.candidate)):
            why = unserved(Configuration.of(knobs), asked.concurrency, asked.context_tokens)
            if why is not None:
                raise UsageError(
                    f"{options}: the {arm} of the question {each.id} does not serve that: {why}",
                    "Ask for less, or leave the question out of the campaign's file.",
                )


def in_options(refused: TooMuch, given: Mapping[str, int | None], context: int | None = None) -> UsageError:
    """The refusal of a workload in the words of the options that asked for it, `given` by the fields of a
    campaign's file and `context` by `--context` (None: not given); the refusal itself where it was the
    campaign's file."""
    asked = {field for field, value in given.items() if value is not None}
    if isinstance(refused, TooLong):
        if context is not None:
            return _at_most("--context", context, refused)
        fields = asked - {CONCURRENCY}
        if not fields:
            return refused
        fits = refused.fits
        for field in OPTIONS:
            fits = fits.replace(field, option_of(field))
        return UsageError(refused.message, f"Give {fits}{refused.instead or '.'}")
    return refused if CONCURRENCY not in asked else _at_most("--concurrency", given[CONCURRENCY], refused)


def _at_most(option: str, asked: int | None, refused: TooMuch) -> UsageError:
    if asked is None or asked <= refused.most:
        return refused
    return UsageError(
        f"{option} {asked} is more than is served: {refused.limit}.",
        f"Give {option} {refused.most} at most{refused.instead or '.'}",
    )
