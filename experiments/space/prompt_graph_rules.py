"""Which sizes of CUDA graphs a workload can tell apart. Pure.

vLLM captures steps of up to twice as many tokens as its requests at once can decode, and 512 at most (1,024
on GPUs of capability 10.x; read in `_set_cudagraph_sizes` of vLLM 0.32). So what is captured by
itself are steps of decoding, and a step that reads a prompt where that is shorter. A larger step is launched
kernel by kernel, which for a short prompt may take longer than the kernels run.
"""

from __future__ import annotations

from experiments.space.configuration import KnobValue
from experiments.space.knob import Same, SameBeside
from experiments.space.space import Space
from experiments.space.workload_rules import (
    DRAFTING,
    LEAST_STEP_TOKENS,
    MOST_OF_A_SEQUENCE,
    OFF,
    PREFIX_CACHING,
    asked_of_a_step,
)

GRAPH_TOKENS, AUTO = "serving.max_graph_tokens", "auto"

OWN_MOST_TOKENS = 512
"""The largest step that vLLM captures by itself on most GPUs."""


def same_graphs(
    space: Space, concurrency: int, prompt_tokens: int, *, first_tokens: bool
) -> dict[tuple[str, KnobValue], Same]:
    """Which values of the largest captured step do at this workload what another one of this space does, by
    knob and value. `first_tokens` tells whether the time to them counts in what the campaign is about.

    Beside prefix caching a hybrid's prompt is cut where a page of the cache ends, so that a step may be as
    small as what is left of it; and beside drafts the largest captured step may be smaller than was asked
    (vLLM's first runner, which rounds to whole verifications).
    """
    knob = next((each for each in space.knobs if each.name == GRAPH_TOKENS), None)
    if knob is None or AUTO not in knob.values:
        return {}
    sizes = sorted(each for each in knob.values if isinstance(each, int) and not isinstance(each, bool))
    needed = asked_of_a_step(concurrency, prompt_tokens)
    decoding = concurrency * MOST_OF_A_SEQUENCE
    found = dict[tuple[str, KnobValue], Same]()
    for tokens in sizes:
        least = next((each for each in sizes if needed <= each < tokens), None)
        alone = next((each for each in sizes if concurrency == 1 and prompt_tokens <= each < tokens), None)
        if concurrency == 1 and not first_tokens:
            why = (
                "With one request at once no token after the first waits for a prompt, and steps of decoding "
                "are captured whatever this is."
            )
            told = Same(tokens, AUTO, why)
        elif tokens < prompt_tokens and needed <= LEAST_STEP_TOKENS and decoding <= OWN_MOST_TOKENS:
            why = f"No step that reads a prompt of {prompt_tokens:,} tokens is as small."
            told = SameBeside(tokens, AUTO, why, PREFIX_CACHING, OFF)
        elif least is not None:
            requests = "the one request" if concurrency == 1 else f"the {concurrency} requests at once"
            why = f"What {requests} of the workload can ask of a step fits into {least} tokens too."
            told = Same(tokens, least, why)
        elif alone is not None:
            why = f"The one request's prompt fits into a step of {alone} tokens too."
            told = SameBeside(tokens, alone, why, DRAFTING, "none")
        else:
            continue
        found[GRAPH_TOKENS, tokens] = told
    return found
