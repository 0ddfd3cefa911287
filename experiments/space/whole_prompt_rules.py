"""When vLLM can't read a hybrid's prompts whole, by what else is asked of it. Pure.

With prefix caching it keeps a GatedDeltaNet layer's state where a page of the cache ends, so prompts are cut
there, and it refuses to start where they may not be read in pieces ("Chunked prefill is required"): seen with
0.26 and with 0.33 on H200s, and read in `MambaModelConfig.verify_and_update_config` of 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.space.configuration import KnobValue
from experiments.space.workload_rules import CHUNKED_PREFILL, OFF, PREFIX_CACHING

ON = "on"

GDN = "linear_attention"
"""The kind of layer that has such a state."""


def whole_prompts_refused(configuration: Mapping[str, KnobValue], layer_types: tuple[str, ...]) -> str | None:
    """Why a hybrid's prompts can't be read whole as a configuration asks, in a sentence; None where they can,
    and where it does not ask."""
    if configuration.get(CHUNKED_PREFILL) != OFF or configuration.get(PREFIX_CACHING) != ON:
        return None
    if GDN not in layer_types:
        return None
    return (
        "With prefix caching vLLM reads the prompts of a model with GatedDeltaNet layers in pieces, and does "
        f"not load where it may not; leave {CHUNKED_PREFILL} at auto, or take {PREFIX_CACHING}={OFF}."
    )
