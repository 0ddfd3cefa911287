"""The campaign's space for a model that has fewer positions than the space's contexts, and what of a workload
fits into them."""

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
    has_model_len,
    longest_model_len,
    with_all_positions,
)

LEAST_ANSWER_TOKENS = 2
"""Tokens of an answer that a campaign's file may ask for at least."""

_WORKLOAD = "plan.workload"
"""Where a campaign's file has what follows."""


class TooLong(UsageError):
    """A workload's sequences are longer than `most` tokens, which `limit` says in a clause; `instead` is what
    may be done beside making them shorter."""

    def __init__(self, workload: Workload, most: int, limit: str, instead: str = "") -> None:
        super().__init__(
            f"The workload's sequences have {workload.context_tokens} tokens, and one more is needed; "
            f"{limit}.",
            f"Write in the campaign's file {what_fits(workload, most - 1)}{instead or '.'}",
        )
        self.most, self.limit, self.instead = most, limit, instead


def space_on(spec: CampaignSpec, profile: ModelProfile, packing: StoredPacking | None = None) -> Space:
    """The campaign's space; with all positions of the model as one more context, where the space offers
    longer ones and none that is both long enough for the workload and no longer than these; and with a choice
    of kernels for the weights of a checkpoint of this packing.

    Raises `UsageError` as `space_of`, and `TooLong` for a workload that is longer than the model's positions,
    or than every context of the space, with the largest numbers that fit.
    """
    space = with_stored_kernels(space_of(spec), packing)
    if not has_model_len(space):
        return space
    workload = Workload.model_validate(spec.plan.workload.model_dump())
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
    kernels for stored weights, unless a folder's config.json tells that it has none. What a model of the hub
    has is known once it is fetched.

    Raises `UsageError` for a space that can't be read.
    """
    space, folder = load_space(spec.space), Path(spec.model).expanduser()
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
