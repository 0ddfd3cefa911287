"""The campaign's space for a model that has fewer positions than the space's contexts, and what of a workload
fits into them, and into the sequences that the space serves at once."""

from __future__ import annotations

from pathlib import Path

from agent.ground.drafter import space_of
from agent.ground.stored_spec import REFERENCE
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.models import ModelProfile
from experiments.engines.reference.packed_layout import told_packing
from experiments.measurement.plan import Workload
from experiments.space.legality import with_stored_kernels
from experiments.space.loading import load_space
from experiments.space.space import Space
from experiments.space.stored_packing import StoredPacking
from experiments.space.workload_rules import (
    MAX_MODEL_LEN,
    MAX_SEQUENCES,
    has_model_len,
    longest_model_len,
    most_sequences,
    with_all_positions,
)

LEAST_ANSWER_TOKENS = 2
"""Tokens of an answer that a campaign's file may ask for at least."""

_WORKLOAD = "plan.workload"
"""Where a campaign's file has what follows."""


class TooMuch(UsageError):
    """A workload asks for more than `most`, which is what `limit` says in a clause; `fits` is what would fit,
    by the fields of a campaign's file, and `instead` what may be done beside asking for less."""

    def __init__(self, asked: str, fits: str, most: int, limit: str, instead: str = "") -> None:
        super().__init__(f"{asked}; {limit}.", f"Write in the campaign's file {fits}{instead or '.'}")
        self.fits, self.most, self.limit, self.instead = fits, most, limit, instead


class TooLong(TooMuch):
    """Its sequences are longer than `most` tokens."""

    def __init__(self, workload: Workload, most: int, limit: str, instead: str = "") -> None:
        asked = f"The workload's sequences have {workload.context_tokens} tokens, and one more is needed"
        super().__init__(asked, what_fits(workload, most - 1), most, limit, instead)


class TooManyAtOnce(TooMuch):
    """More than `most` of its requests are under way at once."""

    def __init__(self, workload: Workload, most: int, limit: str, instead: str) -> None:
        asked = f"The workload has {workload.concurrency} requests at once"
        super().__init__(asked, f"{_WORKLOAD}.concurrency of at most {most}", most, limit, instead)


def space_on(spec: CampaignSpec, profile: ModelProfile, packing: StoredPacking | None = None) -> Space:
    """The campaign's space; with all positions of the model as one more context, where the space offers
    longer ones and none that is both long enough for the workload and no longer than these, with a choice of
    kernels for weights of a checkpoint of this packing, and with the knobs of experts where there are any.

    Raises `UsageError` as `space_of`, `TooLong` for a workload that is longer than the model's positions, or
    than every context of the space, and `TooManyAtOnce`, with the largest numbers that fit.
    """
    space = with_stored_kernels(space_of(spec), packing)
    if profile.experts is not None:
        space = space.of_experts()
    if not has_model_len(space):
        return space
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    at_once = most_sequences(space)
    if at_once is not None and workload.concurrency > at_once:
        raise TooManyAtOnce(
            workload,
            at_once,
            f"the space {spec.space} has {MAX_SEQUENCES} of at most {at_once}",
            "; or give a space of your own with more: --space FILE",
        )
    most, longest = profile.max_positions, longest_model_len(space)
    if longest is not None and (most is None or longest < most) and workload.context_tokens >= longest:
        raise TooLong(
            workload,
            longest,
            f"the space {spec.space} has {MAX_MODEL_LEN} of at most {longest}",
            "; or give a space of your own with a longer one: --space FILE",
        )
    if most is not None and workload.context_tokens >= most:
        raise TooLong(workload, most, f"the model's have {most} at most")
    return space if most is None else with_all_positions(space, most, workload.context_tokens)


def space_before(spec: CampaignSpec) -> Space:
    """The space by whose knobs a campaign's file is checked before its checkpoint is there: with a choice of
    kernels for stored weights, unless a folder's config.json tells that it has none, and with the knobs of
    experts. What a model of the hub has is known once it is fetched.

    Raises `UsageError` for a space that can't be read.
    """
    space, folder = load_space(spec.space).of_experts(), Path(spec.model).expanduser()
    if spec.latency_only or spec.model == REFERENCE:
        return space
    return with_stored_kernels(space, told_packing(folder))


def what_fits(workload: Workload, tokens: int) -> str:
    """The largest numbers that would make each of a workload's sequences have so many tokens at most, by the
    fields of a campaign's file, in words."""
    found = []
    answers = {"new_tokens": workload.new_tokens, "drafting_new_tokens": workload.drafting_new_tokens}
    longest = max(answers.values())
    if workload.prompt_tokens + longest > tokens:
        ways = []
        if tokens > longest:
            ways.append(f"{_WORKLOAD}.prompt_tokens of at most {tokens - longest}")
        rest = tokens - workload.prompt_tokens
        if rest >= LEAST_ANSWER_TOKENS:
            named = " and ".join(f"{_WORKLOAD}.{name}" for name, count in answers.items() if count > rest)
            ways.append(f"{named} of at most {rest}")
        if not ways:
            ways.append(
                f"{_WORKLOAD}.prompt_tokens and the larger of {' and '.join(answers)} there of at most "
                f"{tokens} together"
            )
        found.append(" or ".join(ways))
    if workload.evaluation_tokens_per_document > tokens:
        found.append(f"{_WORKLOAD}.evaluation_tokens_per_document of at most {tokens}")
    return ", and ".join(found)
