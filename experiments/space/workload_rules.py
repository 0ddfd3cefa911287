"""What a workload rules out of a space: values that could not serve its requests. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, Same
from experiments.space.space import Space

MAX_SEQUENCES = "serving.max_sequences"
MAX_MODEL_LEN = "serving.max_model_len"
BATCH_TOKENS, AUTO = "serving.max_batch_tokens", "auto"

OFF = "off"
CHUNKED_PREFILL, PREFIX_CACHING = "serving.chunked_prefill", "serving.prefix_caching"
DRAFTING = "drafting.method"

RESOLVED_TOKENS = "max_batch_tokens"
"""What a launch tells of the tokens that a step has."""

LEAST_STEP_TOKENS = 2048
"""Tokens of a step that vLLM's server takes at least where it may choose (0.26 to 0.33, on any device)."""

MOST_OF_A_SEQUENCE = 16
"""Tokens that a sequence has in a step at most beside its prompt: its last one and 15 drafts."""


def not_served_at(space: Space, concurrency: int, context_tokens: int) -> dict[tuple[str, KnobValue], str]:
    """Why values of this space can't serve `concurrency` requests at once of `context_tokens` tokens, prompt
    and answer, by knob and value.

    With fewer sequences than requests the others would wait in the engine's queue: the time of a token would
    be that of fewer requests at once than the campaign is about, and would seem a gain.
    """
    return dict(_refused(space, concurrency, context_tokens))


def asked_of_a_step(concurrency: int, prompt_tokens: int) -> int:
    """The most tokens that so many requests at once can ask of one step."""
    return concurrency * (prompt_tokens + MOST_OF_A_SEQUENCE)


def same_at(
    space: Space, concurrency: int, prompt_tokens: int, auto_tokens: int | None = None
) -> dict[tuple[str, KnobValue], Same]:
    """Which values of how prompts are read do at this workload what another one of this space does, by knob
    and value: where the prompts of all requests at once fit into one step, more room changes nothing, and
    none is read in pieces.

    `auto_tokens` is how many a step has where that is left to the server, None where it is not known.
    """
    needed = asked_of_a_step(concurrency, prompt_tokens)
    asked = f"What {_requests(concurrency)} of the workload can ask of a step fits into"
    by_itself = LEAST_STEP_TOKENS if auto_tokens is None else auto_tokens
    found = dict[tuple[str, KnobValue], Same]()
    pieces = next((each for each in space.knobs if each.name == CHUNKED_PREFILL), None)
    knob = next((each for each in space.knobs if each.name == BATCH_TOKENS), None)
    left_to_it = knob is None or knob.default == AUTO  # as it is where whole prompts are read
    if pieces is not None and AUTO in pieces.values and left_to_it and needed <= by_itself:
        why = (
            f"{asked} vLLM's own choice, so no prompt is read in pieces whatever this is, and auto is enough."
        )
        # where prefix caching cuts a hybrid's prompts, whole ones are refused (`whole_prompt_rules`)
        found = {(CHUNKED_PREFILL, each): Same(each, AUTO, why) for each in pieces.values if each != AUTO}
    if knob is None:
        return found
    rooms = sorted(_numbers(knob))
    for tokens in rooms:
        least = next((each for each in rooms if needed <= each < tokens), None)
        if AUTO in knob.values and needed <= min(tokens, by_itself):
            told = Same(tokens, AUTO, f"{asked} vLLM's own choice, auto, too.")
        elif AUTO in knob.values and tokens == auto_tokens:
            told = Same(tokens, AUTO, f"vLLM's own choice, auto, is {tokens} tokens a step on this GPU.")
        elif least is not None:
            told = Same(tokens, least, f"{asked} {least} tokens too.")
        else:
            continue
        found[BATCH_TOKENS, tokens] = told
    return found


def unserved(configuration: Configuration, concurrency: int, context_tokens: int) -> str | None:
    """Why a configuration does not serve `concurrency` requests at once of `context_tokens` tokens, in a
    sentence; None where its knobs say nothing against it."""
    most, longest = configuration.get(MAX_SEQUENCES), configuration.get(MAX_MODEL_LEN)
    if isinstance(most, int) and most < concurrency:
        return f"{MAX_SEQUENCES} is {most}, and {concurrency} requests at once are asked for."
    if isinstance(longest, int) and longest <= context_tokens:
        return f"{MAX_MODEL_LEN} is {longest}, and {context_tokens} tokens and one more are asked for."
    return None


def has_model_len(space: Space) -> bool:
    """Whether the space says how long a sequence may be."""
    return any(knob.name == MAX_MODEL_LEN for knob in space.knobs)


def longest_model_len(space: Space) -> int | None:
    """The most tokens of a sequence that the space offers; None where it does not say in numbers."""
    lengths = [each for knob in space.knobs if knob.name == MAX_MODEL_LEN for each in knob.values]
    return max((each for each in lengths if isinstance(each, int)), default=None)


def most_sequences(space: Space) -> int | None:
    """The most sequences at once that the space offers; None where it does not say in numbers alone."""
    offered = [value for knob in space.knobs if knob.name == MAX_SEQUENCES for value in knob.values]
    numbers = [each for each in offered if isinstance(each, int) and not isinstance(each, bool)]
    return max(numbers, default=None) if len(numbers) == len(offered) else None


def with_all_positions(space: Space, max_positions: int, context_tokens: int) -> Space:
    """The space, in which a sequence may be as long as the model has positions, where it offers longer ones
    and none that is both within these and longer than `context_tokens`; in all else as it is."""
    knob = next((each for each in space.knobs if each.name == MAX_MODEL_LEN), None)
    lengths = [] if knob is None else [each for each in knob.values if isinstance(each, int)]
    served = any(context_tokens < each <= max_positions for each in lengths)
    if knob is None or served or not any(each > max_positions for each in lengths):
        return space
    longer = replace(knob, values=tuple(sorted([*lengths, max_positions])), default=max_positions)
    return Space(tuple(longer if each.name == MAX_MODEL_LEN else each for each in space.knobs))


def _requests(concurrency: int) -> str:
    return "the one request" if concurrency == 1 else f"the {concurrency} requests at once"


def _numbers(knob: Knob) -> list[int]:
    return [each for each in knob.values if isinstance(each, int) and not isinstance(each, bool)]


def _refused(
    space: Space, concurrency: int, context_tokens: int
) -> Iterator[tuple[tuple[str, KnobValue], str]]:
    for knob in space.knobs:
        for value in knob.values:
            if isinstance(value, bool) or not isinstance(value, int):
                continue
            if knob.name == MAX_SEQUENCES and value < concurrency:
                yield (knob.name, value), f"The workload has {concurrency} requests at once."
            if knob.name == MAX_MODEL_LEN and value <= context_tokens:
                why = f"The workload's sequences have {context_tokens} tokens, and one more is needed."
                yield (knob.name, value), why
