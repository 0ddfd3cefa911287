"""Which kernels with which packed formats are timed alone before anything is loaded. Pure.

Formats: those that the rule of quantization begins with, and the first of them with zero points. So bits,
groups and zero points each have two values, at four formats in place of the twelve that the packaged space
has; what is not timed stands at the nearest that is. Kernels: every value that the space offers here, in its
order; which of them is fast is what is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.proposers.quantization_rule import BITS, GROUP_SIZE, KERNEL, LM_HEAD, METHOD, STARTS
from configs.errors import UsageError
from experiments.engines.stored_bytes import QUANTIZED_METHODS
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu_rules import kernel_and_format_refused
from experiments.space.space import Space

SYMMETRIC = "quantization.symmetric"


def timed_kernels(space: Space, start: Configuration | None = None) -> tuple[Configuration, ...]:
    """The configurations whose products are timed, format by format; those alone that the space has and no
    rule refuses. Empty where it offers no choice of kernels. `start` is what the campaign begins from."""
    begun = start or space.configuration({})
    kernels = next((knob.values for knob in space.knobs if knob.name == KERNEL), ())
    methods = next((knob.values for knob in space.knobs if knob.name == METHOD), ())
    method = next((each for each in methods if each in QUANTIZED_METHODS), None)
    if method is None or len(kernels) < 2:
        return ()
    found = []
    for stored in _formats(space, begun, method):
        for kernel in kernels:
            each = _legal(space, begun, {**stored, KERNEL: kernel})
            if each is not None and kernel_and_format_refused(each) is None:
                found.append(each)
    return tuple(found)


def _formats(space: Space, begun: Configuration, method: KnobValue) -> Iterator[dict[str, KnobValue]]:
    """Bits, group size and zero points of each format, once."""
    seen = []
    starts = [{**each, METHOD: method} for each in STARTS]
    for knobs in (*starts, *({**each, SYMMETRIC: False} for each in starts[:1])):
        weights = {knob: value for knob, value in knobs.items() if knob != LM_HEAD}
        stored = _legal(space, begun, weights)
        if stored is None:
            continue
        told = {
            METHOD: method,
            **{knob: stored[knob] for knob in (BITS, GROUP_SIZE, SYMMETRIC) if knob in stored},
        }
        if told not in seen:
            seen.append(told)
            yield told


def _legal(space: Space, begun: Configuration, knobs: Mapping[str, KnobValue]) -> Configuration | None:
    try:
        return space.with_change(begun, knobs)
    except UsageError:  # the space of this target lacks such a value
        return None
