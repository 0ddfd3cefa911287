"""Which formats of a Mixture of Experts' packed experts vLLM takes on a processor. Pure.

Read in `CPUExpertsInt4` of 0.32 and 0.33, the only kernel of packed experts there that needs no further
package: it needs AMX, and multiplies weights of 4 bits without zero points, in groups that are not of 32
(`kInt4Static`). Without AMX a load ends with "No WNA16 MoE backend", as was seen of 0.32. What has no kernel
on a GPU stands in `experiments/space/experts_rules.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.engines.stored_bytes import QUANTIZED_METHODS
from experiments.engines.vllm.on_device import CPU
from experiments.space.configuration import KnobValue
from experiments.space.experts_rules import BITS
from experiments.space.legality import QUANTIZATION
from experiments.space.moe_backend_rules import GROUP_SIZE, SYMMETRIC
from experiments.space.space import Space
from experiments.space.stored_packing import PackedFormat, StoredPacking

AMX = "amx_tile"
"""What Linux calls the instructions among a processor's flags."""

_READ = "(read in vLLM 0.32 and 0.33)."

WITHOUT_AMX: Mapping[tuple[str, KnobValue], str] = {
    (QUANTIZATION, method): (
        "On a processor without AMX vLLM has no kernel for the packed experts of a Mixture of Experts: leave "
        f"{QUANTIZATION} at none."
    )
    for method in QUANTIZED_METHODS
}
"""What it does not take of such a model on a processor without AMX, by knob and value."""

WITH_AMX: Mapping[tuple[str, KnobValue], str] = {
    (BITS, 8): f"On a processor vLLM multiplies packed experts of 4 bits alone {_READ}",
    (SYMMETRIC, False): (f"On a processor vLLM multiplies packed experts without zero points alone {_READ}"),
    (GROUP_SIZE, 32): (f"On a processor vLLM multiplies packed experts in groups of any size but 32 {_READ}"),
}
"""The same of one with AMX."""


STORED_WITHOUT_AMX = (
    "On a processor without AMX vLLM has no kernel for the packed experts of a Mixture of Experts: serve "
    "this checkpoint on a GPU, or take one whose experts are stored in 16 bits."
)
STORED_WITH_AMX = (
    "On a processor vLLM multiplies packed experts of 4 bits without zero points alone, in groups of any "
    "size but 32: serve this checkpoint on a GPU, or take one whose experts are packed so."
)
"""The same two of a checkpoint that stores its experts packed."""


def experts_not_taken(
    space: Space, device: str, *, has_experts: bool, has_amx: bool
) -> dict[tuple[str, KnobValue], str]:
    """Why values of a space are not taken on a device for a model that has experts or has none, by knob and
    value; on a GPU nothing is."""
    if not has_experts or device != CPU:
        return {}
    has = {(knob.name, value) for knob in space.knobs for value in knob.values}
    return {each: why for each, why in (WITH_AMX if has_amx else WITHOUT_AMX).items() if each in has}


def stored_experts_not_taken(packing: StoredPacking | None, *, has_amx: bool) -> str | None:
    """Why a processor does not take the experts as a checkpoint stores them, in a sentence that says what to
    do; None where nothing is known against them. Of several formats all must be against it, for which
    of them its experts have is not known."""
    if packing is None or not packing.experts:
        return None
    if not has_amx:
        return STORED_WITHOUT_AMX
    return STORED_WITH_AMX if all(map(_not_with_amx, packing.formats)) else None


def _not_with_amx(each: PackedFormat) -> bool:
    told = {BITS: each.bits, SYMMETRIC: each.symmetric, GROUP_SIZE: each.group_size}
    return any(told[knob] == value for knob, value in WITH_AMX)
